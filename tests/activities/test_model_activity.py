"""The model call as an activity: what the worker remembers, what it asks of the run, and how failures are sorted."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from pydantic import TypeAdapter
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.model import Conversation, ModelActivities, ModelFailure, Prompt, Remembered
from activities.scripted_model import ScriptedModel, lines
from protocol.agents import ModelSpec
from protocol.kept import Kept
from protocol.messages import Assistant, Message, Reply, Tool, ToolOffer, User, mark, place, spoken
from protocol.work import Brief, ConversationPage, ConversationQuery, ModelRequest
from tests.kit import Recorder, calls, says

BRIEF = Brief(
    instructions="Be careful with {money}.",
    offers=(ToolOffer(name="pay", parameters={"type": "object"}),),
    model=ModelSpec(),
)
HEARD = User(content="pay")


class Run:
    """The run that a model call asks: it knows the whole conversation and tells it in pages."""

    def __init__(
        self, messages: Sequence[Message] = (), *, page: int = 100, brief: Brief | None = BRIEF
    ) -> None:
        self.messages, self.page, self.brief = list(messages), page, brief
        self.queries: list[ConversationQuery] = []
        self.errors: list[RPCError] = []

    def get_workflow_handle(self, workflow_id: str, *, run_id: str | None) -> "Run":
        return self

    async def query(self, name: str, query: ConversationQuery, **options: Any) -> ConversationPage:
        self.queries.append(query)
        if self.errors:
            raise self.errors.pop(0)
        end = min(query.stop, query.start + self.page)
        brief = self.brief if query.start == 0 else None
        return ConversationPage(messages=tuple(self.messages[query.start : end]), brief=brief)


class Worker:
    """A worker with a model, in front of a run."""

    def __init__(self, model: Any, run: Run | None = None) -> None:
        self.model = Recorder(model)
        self.run = run or Run()
        self.activities = ModelActivities({"": self.model, "other": self.model})

    def environment(self) -> ActivityEnvironment:
        return ActivityEnvironment(client=cast(Client, self.run))

    async def complete(
        self, length: int, tail: Sequence[Message] | None = None, after: str = "", **more: Any
    ) -> Reply:
        request = ModelRequest(
            agent="bank", length=length, tail=None if tail is None else tuple(tail), after=after, **more
        )
        return cast(Reply, await self.environment().run(self.activities.complete, request))

    @property
    def heard(self) -> list[Message]:
        """The conversation that the model was asked with last."""
        return list(self.model.prompts[-1].messages)


class Unreliable:
    """A model that fails before it answers."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)

    async def complete(self, prompt: Prompt) -> Reply:
        if self._failures:
            raise self._failures.pop(0)
        return says("done")


def recorded(reply: Reply, *before: str) -> Assistant:
    """The message that the workflow writes down for a reply."""
    placed = place(reply.calls, set(before), len(before))
    return spoken(reply, [call.wire for call in placed])


async def test_a_first_call_brings_all_that_the_model_is_told() -> None:
    worker = Worker(ScriptedModel({"": lines([says("done")])}))
    assert await worker.complete(1, [HEARD], brief=BRIEF) == says("done")
    [prompt] = worker.model.prompts
    assert prompt == Prompt(
        agent="bank",
        instructions=BRIEF.instructions,
        messages=(HEARD,),
        offers=BRIEF.offers,
        model=BRIEF.model,
    )
    assert worker.run.queries == []


async def test_later_calls_bring_the_newest_messages_only() -> None:
    reply = calls(("pay", "", {"amount": 5}), ("pay", "call_x", {"amount": 6}), text="both")
    worker = Worker(ScriptedModel({"": lines([reply, says("done")])}))
    await worker.complete(1, [HEARD], brief=BRIEF)
    said = recorded(reply)
    results = [Tool(tool_call_id=call.id, content="paid") for call in said.tool_calls]

    await worker.complete(4, results, after=mark(said))

    assert worker.heard == [HEARD, said, *results]
    assert [call.id for call in said.tool_calls] == ["call_1", "call_x"]
    assert worker.run.queries == []


async def test_an_id_used_before_is_remembered_as_the_run_writes_it() -> None:
    reply = calls(("pay", "call_0", {"amount": 5}))
    worker = Worker(ScriptedModel({"": lines([reply, reply, says("done")])}))
    first, second = recorded(reply), recorded(reply, "call_0")
    await worker.complete(1, [HEARD], brief=BRIEF)
    await worker.complete(3, [Tool(tool_call_id="call_0", content="paid")], after=mark(first))
    await worker.complete(5, [Tool(tool_call_id="call_2", content="paid")], after=mark(second))
    assert [message for message in worker.heard if isinstance(message, Assistant)] == [first, second]
    assert worker.run.queries == []


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_another_worker_asks_the_run(page: int) -> None:
    """B113."""
    conversation: list[Message] = [
        HEARD,
        Assistant(content="how much?"),
        User(content="5"),
        Assistant(content="to whom?"),
    ]
    run = Run([*conversation, User(content="to Bo")], page=page)
    worker = Worker(ScriptedModel({"": lines([says("")] * 2 + [says("done")])}), run)
    assert await worker.complete(5, [User(content="to Bo")], after=mark(conversation[-1])) == says("done")
    assert worker.heard == run.messages
    assert worker.model.prompts[0].instructions == BRIEF.instructions


async def test_without_a_tail_the_run_is_asked() -> None:
    worker = Worker(ScriptedModel({"": lines([says("done")])}), Run([HEARD]))
    await worker.complete(1, None, brief=BRIEF)
    assert worker.heard == [HEARD]
    assert worker.run.queries == [ConversationQuery(agent="bank", start=0, stop=1)]


async def test_of_a_large_tail_only_the_tail_is_asked_for() -> None:
    reply, large = calls(("pay", "call_0", {"amount": 5})), Tool(tool_call_id="call_0", content="x" * 9_000)
    worker = Worker(ScriptedModel({"": lines([reply, says("done")])}), Run([HEARD, recorded(reply), large]))
    await worker.complete(1, [HEARD], brief=BRIEF)
    await worker.complete(3, None, after=mark(recorded(reply)))
    assert worker.heard == worker.run.messages
    assert worker.run.queries == [ConversationQuery(agent="bank", start=2, stop=3)]


@pytest.mark.parametrize("small", [True, False], ids=["small tail", "large tail"])
async def test_a_reply_that_the_run_never_took_is_forgotten(small: bool) -> None:
    """The worker answered too late, and another attempt was faster."""
    taken: list[Message] = [HEARD, Assistant(content="taken"), User(content="so?")]
    worker = Worker(ScriptedModel({"": lines([says("too late"), says("done")])}), Run(taken))
    await worker.complete(1, [HEARD], brief=BRIEF)
    await worker.complete(3, taken[2:] if small else None, after=mark(taken[1]))
    assert worker.heard == taken


async def test_a_memory_that_does_not_fit_is_never_used() -> None:
    other: list[Message] = [HEARD, Assistant(content="of another past"), User(content="so?")]
    worker = Worker(ScriptedModel({"": lines([says("of this past"), says("done")])}), Run(other))
    await worker.complete(1, [HEARD], brief=BRIEF)
    await worker.complete(3, other[2:], after=mark(other[1]))
    assert worker.heard == other
    assert len(worker.run.queries) == 1


async def test_a_retry_begins_where_the_attempt_before_it_did() -> None:
    said, more = Assistant(content="said"), User(content="more")
    busy = [ModelFailure("busy", final=False) for _ in range(2)]
    worker = Worker(Unreliable(*busy), Run([HEARD, said, more]))
    for _ in busy:
        with pytest.raises(ApplicationError, match="busy"):
            await worker.complete(3, [more], after=mark(said))
    await worker.complete(3, [more], after=mark(said))
    assert worker.heard == worker.run.messages
    assert len(worker.run.queries) == 1  # the worker knew nothing at first; its retries did


async def test_a_busy_run_is_asked_again() -> None:
    worker = Worker(Unreliable(), Run([HEARD]))
    for status in (RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE):
        worker.run.errors.append(RPCError("busy", status, b""))
    await worker.complete(1, None)
    assert len(worker.run.queries) == 3


async def test_a_run_that_is_gone_is_not_asked_again() -> None:
    worker = Worker(Unreliable(), Run([HEARD]))
    worker.run.errors.append(RPCError("gone", RPCStatusCode.NOT_FOUND, b""))
    with pytest.raises(RPCError, match="gone"):
        await worker.complete(1, None)


@pytest.mark.parametrize("run", [Run([HEARD]), Run([HEARD, HEARD], brief=None)], ids=["messages", "brief"])
async def test_a_run_that_does_not_know_what_is_asked_is_an_error_and_no_loop(run: Run) -> None:
    worker = Worker(Unreliable(), run)
    async with asyncio.timeout(5):
        with pytest.raises(ApplicationError, match="knows no 2 messages of 'bank'"):
            await worker.complete(2, None)


@pytest.mark.parametrize(
    ("failure", "non_retryable", "delay"),
    [
        (ModelFailure("bad request", final=True), True, None),
        (ModelFailure("busy", final=False), False, None),
        (ModelFailure("busy", final=False, retry_after=1.5), False, timedelta(seconds=1.5)),
    ],
    ids=["final", "passing", "with a time"],
)
async def test_a_failure_tells_temporal_whether_and_when_to_try_again(
    failure: ModelFailure, non_retryable: bool, delay: timedelta | None
) -> None:
    with pytest.raises(ApplicationError) as caught:
        await Worker(Unreliable(failure)).complete(1, [HEARD], brief=BRIEF)
    error = caught.value
    assert (error.message, error.type) == (str(failure), "ModelFailure")
    assert (error.non_retryable, error.next_retry_delay) == (non_retryable, delay)
    assert error.category == ApplicationErrorCategory.BENIGN
    assert error.__cause__ is None


async def test_an_unknown_provider_is_final_and_names_those_there_are() -> None:
    brief = BRIEF.model_copy(update={"model": ModelSpec(provider="openay")})
    with pytest.raises(ApplicationError, match="no model provider 'openay'; it has: other") as caught:
        await Worker(Unreliable()).complete(1, [HEARD], brief=brief)
    assert caught.value.non_retryable


@pytest.mark.parametrize("content", ["x" * 1_000_001, "预" * 400_000], ids=["ascii", "wide"])
async def test_a_reply_too_large_for_a_payload_is_final(content: str) -> None:
    with pytest.raises(ApplicationError, match="larger than 1 MB") as caught:
        await Worker(ScriptedModel({"": lines([says(content)])})).complete(1, [HEARD], brief=BRIEF)
    assert caught.value.non_retryable


async def test_a_long_call_is_heard_of_and_a_short_one_is_not() -> None:
    class Slow:
        async def complete(self, prompt: Prompt) -> Reply:
            await asyncio.sleep(0.5)
            return says("done")

    async def beats(model: Any) -> int:
        count = 0

        def beat(*details: Any) -> None:
            nonlocal count
            count += 1

        environment = ActivityEnvironment()
        environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=0.3))
        environment.on_heartbeat = beat
        request = ModelRequest(agent="bank", length=1, tail=(HEARD,), brief=BRIEF)
        await environment.run(ModelActivities({"": model}).complete, request)
        return count

    assert await beats(Slow()) >= 2
    assert await beats(Unreliable()) == 0


def conversation(size: int, page: str = "") -> Conversation:
    return Conversation(BRIEF, Kept(TypeAdapter(Message), [User(content="x" * size)]), page)


def test_a_worker_remembers_the_latest_conversations_only() -> None:
    remembered = Remembered(most=2)
    for agent in "abc":
        remembered.put(("w", agent), conversation(1))
    assert not remembered.take(("w", "a"), "").messages
    assert len(remembered.take(("w", "b"), "").messages) == 1
    assert not remembered.take(("w", "b"), "").messages


def test_a_worker_remembers_no_more_than_fits() -> None:
    remembered = Remembered(most_bytes=3_000)
    for n in range(100):
        remembered.put(("w", str(n)), conversation(1_000))
    assert [n for n in range(100) if remembered.take(("w", str(n)), "").messages] == [98, 99]
    for n in range(100):
        remembered.put(("w", "same"), remembered.take(("w", "same"), "") if n else conversation(1_000))
    remembered.put(("w", "other"), conversation(1_000))
    assert remembered.take(("w", "same"), "").messages


def test_a_worker_remembers_a_conversation_from_its_newest_page_only() -> None:
    """After a page turn old results may be stubs; and what nobody asks for any more takes no room."""
    remembered = Remembered(most_bytes=3_000)
    remembered.put(("w", "a"), conversation(2_000, "page 1"))
    assert not remembered.take(("w", "a"), "page 2").messages
    assert not remembered.take(("w", "a"), "page 1").messages
    remembered.put(("w", "b"), conversation(2_000, "page 1"))
    assert remembered.take(("w", "b"), "page 1").messages


def test_a_conversation_that_two_attempts_remember_is_counted_once() -> None:
    remembered = Remembered(most_bytes=3_000)
    for _ in range(10):
        remembered.put(("w", "a"), conversation(1_000))
    remembered.put(("w", "b"), conversation(1_000))
    assert remembered.take(("w", "a"), "").messages
