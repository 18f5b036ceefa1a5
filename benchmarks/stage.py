"""The stage of a benchmark: one dev server, worker processes, and runs that are looked at only when they are over.

Nothing asks a run while it is measured: a query would make tasks of its own, and every ratio would read 1.
"""

import asyncio
import contextlib
import os
import sys
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from benchmarks.minimal import INSTRUCTIONS, TASK
from benchmarks.serve import TOOLS
from converter import DATA_CONVERTER
from devserver import DevServer, dev_server
from protocol.agents import Chat
from protocol.run import RunRequest
from workflows.desk import AGENT, STATUS

TICKS = os.sysconf("SC_CLK_TCK")
OURS, MINIMAL = "ours", "minimal"

WAITS_AT = {OURS: 11, MINIMAL: 10}
"""Events of a run that waits for a person: ours has written the search attributes that say so."""
IDLE = 0.2
"""Seconds between two looks at a run's length; a single run waits after a tenth of that."""
PATIENCE = 60.0


class StageError(Exception):
    """The stage cannot be played on; the message says why, in one line."""


def agent(*names: str) -> Chat:
    return Chat(
        name="bank",
        instructions=INSTRUCTIONS,
        tools=tuple(t.spec for t in TOOLS if t.spec.name in names),
        max_turns=5_000,
    )


@dataclass
class Stage:
    """A server with a worker process for each side."""

    server: DevServer
    client: Client
    folder: Path
    workers: dict[str, Process] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)

    async def add_worker(self, which: str, queue: str | None = None) -> Process:
        queue = queue or f"{which}-{uuid.uuid4().hex[:8]}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.serve"),
            *(self.server.address, queue, which, str(self.folder)),
            stdout=PIPE,
        )
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise StageError(f"a worker process ended with {await process.wait()} before it served")
        self.workers[f"{which}-{process.pid}"] = process
        self.queues[which] = queue
        return process

    async def start(self, which: str, task: str = TASK, *tools: str) -> WorkflowHandle[Any, Any]:
        id = f"{which}-{uuid.uuid4().hex[:12]}"
        if which == MINIMAL:
            return await self.client.start_workflow("Minimal", task, id=id, task_queue=self.queues[which])
        return await self.client.start_workflow(
            "AgentRun",
            RunRequest(task=task, agent=agent(*(tools or ("pay",)))),
            id=id,
            task_queue=self.queues[which],
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(STATUS, "running"), SearchAttributePair(AGENT, "bank")]
            ),
        )

    async def decide(self, handle: WorkflowHandle[Any, Any], call: str = "pay:call_0") -> None:
        if handle.id.startswith(MINIMAL):
            await handle.signal("decide", True)
        else:
            await handle.signal(f"bank>{call}", {"decision": "approve"})

    async def until_waiting(self, handle: WorkflowHandle[Any, Any]) -> None:
        """Wait until a person is asked; a decision that comes before that is refused."""
        await self.until(handle, WAITS_AT[handle.id.partition("-")[0]])

    async def until(self, handle: WorkflowHandle[Any, Any], length: int) -> None:
        """Wait until a run has *length* events. The server is asked, and seldom; the run never is."""
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.sleep(IDLE)
                while (await handle.describe()).history_length < length:  # noqa: ASYNC110  # of another process
                    await asyncio.sleep(IDLE)
        except TimeoutError:
            raise StageError(f"{handle.id} has no {length} events after {PATIENCE:.0f} s") from None

    def cpu(self, which: str) -> float:
        """Seconds of CPU that the server and the workers of *which* have used."""
        pids = [process.pid for name, process in self.workers.items() if name.startswith(which)]
        return sum(map(cpu_of, [self.server.process.pid, *pids]))


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    async with dev_server(database=folder / "bench.db") as server:
        made = Stage(server, await Client.connect(server.address, data_converter=DATA_CONVERTER), folder)
        try:
            await made.add_worker(OURS)
            await made.add_worker(MINIMAL)
            yield made
        finally:
            for process in made.workers.values():
                if process.returncode is None:
                    process.terminate()
                    await process.wait()


@dataclass(frozen=True)
class Seen:
    """What a finished run's history tells; times in seconds."""

    events: int
    bytes: int
    started: float
    waiting: float
    decided: float
    closed: float


async def seen(handle: WorkflowHandle[Any, Any]) -> Seen:
    events = list((await handle.fetch_history()).events)
    decided = next(
        n for n, e in enumerate(events) if e.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    )
    waiting = max(
        n
        for n, e in enumerate(events[:decided])
        if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    )
    return Seen(
        events=len(events),
        bytes=sum(map(size, events)),
        started=at(events[0]),
        waiting=at(events[waiting]),
        decided=at(events[decided]),
        closed=at(events[-1]),
    )


def at(event: HistoryEvent) -> float:
    return event.event_time.seconds + event.event_time.nanos / 1e9


def size(event: HistoryEvent) -> int:
    return len(event.SerializeToString())
