"""What tests of runs are made of: a worker with tools and a scripted model, and the verbs of a person.

async with house(client, [pay], [calls(("pay", "call_1", {"amount": 5})), says("done")]) as h:
    run = await h.start(Chat(name="bank", tools=h.specs))
    [waiting] = await run.waiting(1)
    await run.approve(waiting.id)
    assert (await run.result()).status == "completed"
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from activities.model import ChatModel, ModelActivities, Prompt
from activities.scripted_model import Script, ScriptedModel, lines
from activities.tools import FunctionTool, Toolbox
from converter import DATA_CONVERTER
from protocol.agents import AnyAgent, ToolSpec
from protocol.board import Audit
from protocol.interrupts import ResumeReply
from protocol.messages import Asked, Message, Reply
from protocol.run import RunRequest, RunResult
from protocol.views import Listed, PendingPage, TranscriptPage, Tree
from worker import OPTIONS
from workflows.agent_run import AgentRun
from workflows.desk import PENDING_COUNT
from workflows.sandbox import sandbox

T = TypeVar("T")

RUNNER = sandbox()


def says(text: str) -> Reply:
    """A reply in words."""
    return Reply(content=text)


def calls(*asked: tuple[str, str, Any], text: str = "") -> Reply:
    """A reply of tool calls: name, id, arguments (an object, or raw text)."""
    return Reply(
        content=text,
        calls=tuple(
            Asked(
                name=name,
                id=id,
                arguments=arguments
                if isinstance(arguments, str)
                else json.dumps(arguments, ensure_ascii=False),
            )
            for name, id, arguments in asked
        ),
    )


def by_agent(scripts: Mapping[str, Sequence[Reply]]) -> Script:
    """Fixed lines for each agent, by the last name of its address."""
    scripted = {name: lines(replies) for name, replies in scripts.items()}

    def script(prompt: Prompt) -> Reply:
        name = prompt.agent.rpartition(">")[2].partition("#")[0]
        return scripted[name](prompt)

    return script


class Recorder:
    """A model that remembers every prompt it was given; the seam at which tests look at conversations."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.prompts: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        return await self._model.complete(prompt)

    def requests(self, agent: str) -> list[Sequence[Message]]:
        """The conversations that an agent (by the last name of its address) was asked with."""
        return [p.messages for p in self.prompts if p.agent.rpartition(">")[2].partition("#")[0] == agent]


class House:
    """A worker on a task queue of its own."""

    def __init__(self, client: Client, tools: Sequence[FunctionTool], model: Recorder, queue: str) -> None:
        self.client, self.tools, self.model, self.queue = client, tools, model, queue
        self.runs: list[Run] = []

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools)

    async def start(
        self, agent: AnyAgent, task: str = "do it", *, id: str | None = None, **more: Any
    ) -> "Run":
        return await self.start_json(RunRequest(task=task, agent=agent, **more), id=id)

    async def start_json(self, request: Any, *, id: str | None = None) -> "Run":
        handle = await self.client.start_workflow(
            "AgentRun", request, id=id or f"run-{uuid.uuid4()}", task_queue=self.queue, result_type=RunResult
        )
        self.runs.append(Run(handle))
        return self.runs[-1]


class Run:
    """A run as its people see it."""

    def __init__(self, handle: WorkflowHandle[Any, RunResult]) -> None:
        self.handle = handle
        self.id = handle.id

    async def pending(self) -> list[Listed]:
        page: PendingPage = await self.handle.query("pending", result_type=PendingPage)
        return list(page.interrupts)

    async def waiting(self, count: int) -> list[Listed]:
        """The open interrupts, as soon as there are *count* of them and the server lists them.

        The worker is asked only once there is something to ask for: a query that meets a task of the same run on a
        worker without a cache can cost that task its ten seconds.
        """

        async def listed() -> list[Listed] | None:
            described = await self.handle.describe()
            if (described.typed_search_attributes.get(PENDING_COUNT) or 0) != count:
                return None
            found = await self.pending()
            return found if len(found) == count else None

        return await eventually(listed, f"{count} open interrupts in {self.id}")

    async def update(self, name: str, *args: Any, **options: Any) -> ResumeReply:
        reply: ResumeReply = await self.handle.execute_update(
            name, args=args, result_type=ResumeReply, **options
        )
        return reply

    async def signal(self, name: str, *args: Any) -> None:
        await self.handle.signal(name, args=args)

    async def decide(self, id: str, decision: Mapping[str, Any], **envelope: Any) -> ResumeReply:
        return await self.update("resume", {"targets": {id: dict(decision)}, **envelope})

    async def approve(self, id: str, **envelope: Any) -> ResumeReply:
        return await self.decide(id, {"decision": "approve"}, **envelope)

    async def reject(self, id: str, reason: str | None = None, **envelope: Any) -> ResumeReply:
        return await self.decide(id, {"decision": "reject", "reason": reason}, **envelope)

    async def audit(self) -> Audit:
        audit: Audit = await self.handle.query("audit", result_type=Audit)
        return audit

    async def tree(self) -> Tree:
        tree: Tree = await self.handle.query("tree", result_type=Tree)
        return tree

    async def transcript(self, **query: Any) -> TranscriptPage:
        page: TranscriptPage = await self.handle.query("transcript", query, result_type=TranscriptPage)
        return page

    async def result(self) -> RunResult:
        """How the run ended, also if it failed."""
        try:
            return await self.handle.result()
        except WorkflowFailureError as failure:
            cause = failure.cause
            if isinstance(cause, ApplicationError) and cause.type == "RunFailed":
                return RunResult.model_validate_json(json.dumps(cause.details[0]))
            raise

    async def history(self) -> WorkflowHistory:
        return await self.handle.fetch_history()

    async def events(self, *names: str) -> int:
        """How many events of these types the (last) history has, all if none is named."""
        events = (await self.history()).events
        wanted = {EventType.Value(f"EVENT_TYPE_{name}") for name in names}
        return len([event for event in events if not wanted or event.event_type in wanted])

    async def replay(self) -> None:
        """Replay the history; raises if the code is not deterministic, or a workflow task failed on the way."""
        history = await self.history()
        await replay(history)
        assert not [e for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]


async def replay(history: WorkflowHistory) -> None:
    replayer = Replayer(workflows=[AgentRun], data_converter=DATA_CONVERTER, workflow_runner=RUNNER)
    await replayer.replay_workflow(history)


@contextlib.asynccontextmanager
async def house(
    client: Client,
    tools: Iterable[FunctionTool] = (),
    script: Script | Sequence[Reply] = (),
    *,
    workflows: Sequence[type] = (AgentRun,),
    model: ChatModel | None = None,
    queue: str | None = None,
    **options: Any,
) -> AsyncIterator[House]:
    """A worker with these tools and this model; *options* go to the `Worker`."""
    tools = list(tools)
    recorder = Recorder(model or ScriptedModel({"": script if callable(script) else lines(script)}))
    queue = queue or f"queue-{uuid.uuid4()}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=workflows,
        activities=[ModelActivities({"": recorder}).complete, *Toolbox(tools).activities()],
        **{**OPTIONS, **options},
    ):
        yield House(client, tools, recorder, queue)


async def eventually(look: Callable[[], Awaitable[T | None]], what: str, within: float = 30.0) -> T:
    """What *look* finds as soon as it finds something. Raises `AssertionError` after *within* seconds."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        found = await look()
        if found is not None and found is not False:
            return found
        assert asyncio.get_running_loop().time() < deadline, f"not within {within} s: {what}"
        await asyncio.sleep(0.02)
