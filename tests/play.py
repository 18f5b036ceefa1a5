"""Plays a variant of a scenario to its end, in whatever mode, and writes down what models and tools were told."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from activities.model import ModelActivities, Prompt
from activities.scripted_model import ScriptedModel
from activities.tools import Toolbox
from protocol.messages import Assistant, Message, Tool, call_ids
from protocol.run import RunResult
from protocol.views import Listed, PendingPage
from scenarios import Scenario, Variant, all_tools, scripts
from tests.kit import Recorder, Run, replay
from worker import OPTIONS
from workflows.agent_run import AgentRun
from workflows.desk import PENDING

SNAPSHOTS = Path(__file__).parent / "snapshots"


@workflow.defn(name="AgentRun")
class TurnsAtEveryChance(AgentRun):
    """Turns the page at every question that opens, and after every result of an activity within a batch."""

    @workflow.init
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._known = set(self._state.board.interrupts)
        self._outcomes = self._done()

    @workflow.run
    async def run(self, *args: Any) -> Any:
        return await super().run(*args)

    def page_is_full(self) -> bool:
        if set(self._state.board.interrupts) - self._known:
            return True
        # In the middle of a batch: something came home while something else is still open.
        return self._done() > self._outcomes and bool(self._state.board.open)

    def _done(self) -> int:
        turns = [turn for memory in self._state.memories.values() for turn in memory.turns]
        return len([call for turn in turns for call in turn.calls if call.outcome is not None])


@workflow.defn(name="AgentRun")
class TurnsAtRandom(AgentRun):
    """Turns the page at moments that nobody chose."""

    @workflow.init
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._chance = workflow.random()

    @workflow.run
    async def run(self, *args: Any) -> Any:
        return await super().run(*args)

    def page_is_full(self) -> bool:
        return self._state.pages < 30 and self._chance.random() < 0.15


@dataclass
class Played:
    """A run that has ended: how, what was asked, and every prompt on the way."""

    run: Run
    result: RunResult
    asked: list[Listed] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)


@dataclass
class Stage:
    """A task queue, and the model whose prompts are recorded. The worker is started and stopped by modes."""

    client: Client
    workflows: Sequence[type] = (AgentRun,)
    options: Mapping[str, Any] = field(default_factory=dict)
    queue: str = field(default_factory=lambda: f"stage-{uuid.uuid4()}")
    model: Recorder = field(default_factory=lambda: Recorder(ScriptedModel(scripts())))

    def worker(self) -> Worker:
        return Worker(
            self.client,
            task_queue=self.queue,
            workflows=self.workflows,
            activities=[
                ModelActivities({"scripted": self.model}).complete,
                *Toolbox(all_tools()).activities(),
            ],
            **{**OPTIONS, **self.options},
        )

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Stage"]:
        async with self.worker():
            yield self


async def start(stage: Stage, scenario: Scenario, variant: Variant) -> Run:
    handle = await stage.client.start_workflow(
        "AgentRun",
        scenario.request(variant=variant.name),
        id=f"{scenario.name}-{variant.name}-{uuid.uuid4()}",
        task_queue=stage.queue,
        result_type=RunResult,
    )
    # Not bound to the first page: a run is all of its pages.
    return Run(stage.client.get_workflow_handle(handle.id, result_type=RunResult))


async def play(
    stage: Stage,
    scenario: Scenario,
    variant: Variant,
    *,
    before_deciding: Callable[[], Awaitable[None]] | None = None,
    by_signal: Callable[[], bool] = lambda: False,
) -> Played:
    """Start a variant and decide what it asks, one question at a time, until it ends; by update, or by signal as
    often as *by_signal* says."""
    stage.model.prompts.clear()
    run = await start(stage, scenario, variant)
    asked: list[Listed] = []
    ended = asyncio.create_task(run.result())
    async with asyncio.timeout(90):
        while not ended.done():
            await asyncio.wait([ended], timeout=0.05)
            if not await asks_more(run, asked):
                continue
            for listed in await pending(run):
                if listed.id in [each.id for each in asked]:
                    continue
                if before_deciding is not None:
                    await before_deciding()
                decision = variant.decide(listed, len(asked))
                if by_signal():
                    await run.signal(listed.id, {**decision, "digest": listed.digest})
                    asked.append(listed)
                elif await decided(run, listed, decision):
                    asked.append(listed)
                break
    return Played(run, await ended, asked, list(stage.model.prompts))


async def asks_more(run: Run, asked: Sequence[Listed]) -> bool:
    """Whether something waits that was not decided yet, by its search attribute: no worker is asked, so that
    nothing but the run itself makes tasks."""
    found = (await run.handle.describe()).typed_search_attributes.get(PENDING) or ()
    return bool(set(found) - {listed.id for listed in asked})


async def pending(run: Run) -> list[Listed]:
    try:
        page: PendingPage = await run.handle.query(
            "pending", result_type=PendingPage, rpc_timeout=timedelta(seconds=1)
        )
    except RPCError:
        return []  # between two pages, or the worker is being changed
    return list(page.interrupts)


async def decided(run: Run, listed: Listed, decision: Mapping[str, Any]) -> bool:
    """Send a decision as a client does: again under the same request id when a page turn ate the reply."""
    request = {
        "targets": {listed.id: dict(decision)},
        "request_id": f"r-{listed.id}",
        "digest": listed.digest,
    }
    for _ in range(10):
        try:
            await run.update("resume", request)
            return True
        except RPCError as error:
            if error.status not in (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.UNAVAILABLE):
                raise
            await asyncio.sleep(0.1)
        except WorkflowUpdateFailedError:
            return False  # seen by a query before the task that opens it: it will be listed again
    raise AssertionError(f"{listed.id} could not be decided")


def snapshot(prompts: Sequence[Prompt]) -> str:
    """Every request to a model, by agent: what each one had that the one before had not.

    Fails if a request does not go on where the last one of its agent ended, or is no valid conversation.
    """
    lines: list[str] = []
    for agent in sorted({prompt.agent for prompt in prompts}):
        said: Sequence[Message] = ()
        for n, prompt in enumerate((p for p in prompts if p.agent == agent), 1):
            assert list(prompt.messages[: len(said)]) == list(said), f"{agent} forgot what it had said"
            assert_valid(prompt.messages)
            lines.append(f"=== {agent} · request {n}")
            for message in prompt.messages[len(said) :]:
                lines.extend(written(message))
            said = prompt.messages
        lines.append("")
    return "\n".join(lines)


def written(message: Message) -> list[str]:
    calls = list(message.tool_calls) if isinstance(message, Assistant) else []
    id = f" {message.tool_call_id}" if isinstance(message, Tool) else ""
    content = message.content or ""
    lines = [f"{message.role}{id}: {content}".rstrip()]
    return lines + [f"  → {call.id} {call.function.name} {call.function.arguments}" for call in calls]


def assert_valid(messages: Sequence[Message]) -> None:
    """Every call has exactly one tool message, in call order, before anything else is said."""
    assert len(set(call_ids(messages))) == len(list(call_ids(messages)))
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, Tool):
            assert open_calls.pop(0) == message.tool_call_id
        else:
            assert not open_calls
            open_calls = [call.id for call in message.tool_calls] if isinstance(message, Assistant) else []
    assert not open_calls


def snapshot_file(scenario: Scenario, variant: Variant) -> Path:
    return SNAPSHOTS / f"{scenario.name}.{variant.name}.txt"


async def replay_all_pages(played: Played) -> None:
    """Replay every page of a run."""
    client = played.run.handle._client  # the handle has no other way to its pages
    async for execution in client.list_workflows(f"WorkflowId = '{played.run.id}'"):
        await replay(await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history())
