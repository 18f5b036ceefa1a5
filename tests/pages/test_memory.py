"""Long lives: linear in history, and bounded in the memory of the worker that serves them."""

import asyncio
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from temporalio.client import Client

from devserver import DevServer
from protocol.agents import Chat, Loop, Review
from protocol.run import RunRequest, RunResult
from tests.kit import Run, eventually

ROOT = Path(__file__).parents[2]
TURNS = 1_000
ALLOCATOR = dict(re.findall(r"(MALLOC_\w+)=(\d+)", (ROOT / "Dockerfile").read_text()))
"""Without these a worker of many threads keeps what it freed, up to some megabytes more or less."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@asynccontextmanager
async def worker(server: DevServer, queue: str, folder: Path) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.durability.serve", server.address, queue, str(folder)),
        cwd=ROOT,
        env={**os.environ, **ALLOCATOR},
    )

    async def serves() -> bool:
        assert process.returncode is None
        return (folder / "serving").exists()

    await eventually(serves, "a worker process")
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


def resident(pid: int) -> int:
    """KB that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


@dataclass
class Life:
    """A conversation as it was measured from outside."""

    kilobytes: list[int] = field(default_factory=list)
    """What the worker held after each turn."""
    history: dict[int, int] = field(default_factory=dict)
    """Bytes of history on all pages, after so many turns."""
    pages: int = 0

    @property
    def growth(self) -> float:
        """KB per turn that the worker grew by over the last half."""
        half = self.kilobytes[len(self.kilobytes) // 2 :]
        tenth = len(half) // 10
        return (median(half[-tenth:]) - median(half[:tenth])) / (len(half) - tenth)


async def history_bytes(client: Client, id: str) -> int:
    total = 0
    async for page in client.list_workflows(f"WorkflowId = '{id}'"):
        described = await client.get_workflow_handle(id, run_id=page.run_id).describe()
        total += described.raw_description.workflow_execution_info.history_size_bytes
    return total


@pytest.fixture(scope="module")
async def life(client: Client, server: DevServer, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A thousand turns, served by a process that does nothing else."""
    life, id = Life(), f"memory-{uuid.uuid4()}"
    async with worker(server, id, tmp_path_factory.mktemp("worker")) as pid:
        await client.start_workflow(
            "AgentRun",
            RunRequest(task="hello", agent=Chat(name="bank"), chat=True),
            id=id,
            task_queue=id,
        )
        run = Run(client.get_workflow_handle(id, result_type=RunResult))
        for turns in range(1, TURNS + 1):
            if turns > 2:  # the first two answer the opening line
                await run.update("say", {"text": f"after {turns}"})

            async def heard(turns: int = turns) -> bool:
                return (await run.tree()).agents[0].turns >= turns

            await eventually(heard, f"turn {turns}")
            life.kilobytes.append(resident(pid))
            if turns in (TURNS // 2, TURNS):
                life.history[turns] = await history_bytes(client, id)
        await run.update("end", {})
        result = await run.result()
        assert result.status == "completed"
        life.pages = result.pages
    return life


async def test_history_grows_linearly_with_a_conversation(life: Life) -> None:
    """The second half of a thousand turns takes the bytes of the first, page turns included"""
    assert life.pages >= 2
    half, whole = life.history[TURNS // 2], life.history[TURNS]
    assert (whole - half) / half < 1.2, life.history


async def test_a_worker_grows_by_a_few_kilobytes_a_turn_and_no_more(life: Life) -> None:
    """2 to 3 KB a turn over the last half of a thousand: what was said is half a kilobyte of it, as text; the rest is
    what the allocators keep for later"""
    assert life.growth < 4, life.kilobytes[::25]


async def test_a_loop_of_two_hundred_rounds(client: Client, server: DevServer, tmp_path: Path) -> None:
    """By itself, in linear history, and in a worker that keeps of each round no more than its answers and its audit"""
    tree = Loop(name="editor", children=(Chat(name="writer"), Review(name="reviewer")), max_rounds=300)
    life, id = Life(), f"loop-{uuid.uuid4()}"
    async with worker(server, id, tmp_path) as pid:
        await client.start_workflow("AgentRun", RunRequest(task="note", agent=tree), id=id, task_queue=id)
        run = Run(client.get_workflow_handle(id, result_type=RunResult))
        for n in range(1, 201):
            interrupt = "editor>reviewer" if n == 1 else f"editor>reviewer#{n}"

            async def asked(interrupt: str = interrupt) -> bool:
                return [each.id for each in await run.pending()] == [interrupt]

            await eventually(asked, interrupt)
            life.kilobytes.append(resident(pid))
            if n in (100, 200):
                life.history[n] = await history_bytes(client, id)
            revise = {"decision": "revise", "feedback": f"f{n}"}
            await run.decide(interrupt, {"decision": "accept"} if n == 200 else revise)
        result = await run.result()
    assert (result.status, result.answer, len(result.audit.closed)) == ("completed", "done", 200)
    assert (life.history[200] - life.history[100]) / life.history[100] < 1.2, life.history
    assert life.growth < 30, life.kilobytes[::10]
