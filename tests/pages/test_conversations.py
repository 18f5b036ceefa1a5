"""Conversations: a run that stays open, hears what is said to it in a valid order, and ends when it is told to."""

import asyncio
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.model import Prompt
from protocol.messages import Assistant, Reply, User
from protocol.run import RunResult
from tests.kit import Run, calls, eventually, says
from tests.play import TurnsAtEveryChance, assert_valid, decided, pending
from tests.workflows.hands import bank, both_entries, refused, send, told
from workflows.agent_run import AgentRun


def said(prompt: Prompt) -> list[str]:
    return [message.content or "" for message in prompt.messages if isinstance(message, User)]


def echo(prompt: Prompt) -> Reply:
    """Pays when it is asked to, and repeats the last thing it heard otherwise."""
    last = prompt.messages[-1]
    turns = sum(isinstance(message, Assistant) for message in prompt.messages)
    if isinstance(last, User) and "pay" in (last.content or ""):
        return calls(("pay", f"p{turns}", {"amount": 1}))
    return says(f"heard: {last.content}")


async def speak(run: Run, entry: str, text: str) -> None:
    if entry == "update":
        await run.update("say", {"text": text, "by": "ann"})
    else:
        await run.signal("say", {"text": text})


async def turns(run: Run, count: int) -> None:
    async def there() -> bool:
        return (await run.tree()).agents[0].turns == count

    await eventually(there, f"{count} turns")


@both_entries
async def test_a_conversation_goes_on_after_a_rejection(client: Client, entry: str) -> None:
    """B059"""
    async with bank(client, echo) as (h, agent, effects):
        run = await h.start(agent, task="pay A", chat=True)
        [waiting] = await run.waiting(1)
        await send(run, entry, {waiting.id: {"decision": "reject", "reason": "no"}})
        await turns(run, 2)
        await speak(run, entry, "hello again")
        await turns(run, 3)
        await (run.update if entry == "update" else run.signal)("end", {})
        result = await run.result()
        assert (result.status, result.answer) == ("completed", "heard: hello again")
        assert said(h.model.prompts[-1]) == ["pay A", "hello again"]
        assert effects.done == []
        await run.replay()


@both_entries
async def test_what_is_said_while_a_call_waits_is_heard_after_it(client: Client, entry: str) -> None:
    """B088"""
    async with bank(client, echo) as (h, agent, effects):
        run = await h.start(agent, task="pay A", chat=True)
        [waiting] = await run.waiting(1)
        await speak(run, entry, "actually, tell me the weather")
        await speak(run, entry, "please")
        assert len(h.model.prompts) == 1
        await send(run, entry, {waiting.id: {"decision": "approve"}})
        await turns(run, 2)
        roles = [message.role for message in h.model.prompts[1].messages]
        assert roles == ["user", "assistant", "tool", "user", "user"]
        assert_valid(h.model.prompts[1].messages)
        await run.update("end", {})
        assert (await run.result()).answer == "heard: please"
        assert effects.count("pay") == 1


@both_entries
async def test_empty_words_are_refused_and_change_nothing(client: Client, entry: str) -> None:
    """B090"""
    async with bank(client, echo) as (h, agent, effects):
        run = await h.start(agent, task="pay A", chat=True)
        [waiting] = await run.waiting(1)
        for bad in ({"text": ""}, {"text": None}, {"text": "  "}, {}, "hello"):
            assert await refused(run, entry, "say", bad)
        for _ in range(100):
            await run.pending()
        assert len(h.model.prompts) == 1
        await run.approve(waiting.id)
        await turns(run, 2)
        await run.update("end", {})
        await run.result()
        assert said(h.model.prompts[-1]) == ["pay A"]
        assert effects.count("pay") == 1


@both_entries
async def test_a_run_that_is_no_conversation_hears_nothing(client: Client, entry: str) -> None:
    async with bank(client, [calls(("pay", "p", {"amount": 1})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        assert "no conversation" in await refused(run, entry, "say", {"text": "hello"})
        assert "no conversation" in await refused(run, entry, "end", {})
        await run.reject("bank>pay:p")
        await run.result()


async def test_what_was_said_before_the_end_is_still_heard(client: Client) -> None:
    async with bank(client, echo) as (h, agent, _):
        run = await h.start(agent, task="pay A", chat=True)
        [waiting] = await run.waiting(1)
        await run.update("say", {"text": "one more"})
        await run.update("end", {})
        assert "ended" in await refused(run, "update", "say", {"text": "too late"})
        await run.reject(waiting.id)
        assert (await run.result()).answer == "heard: one more"


async def test_the_turn_limit_is_per_message(client: Client) -> None:
    async with bank(client, echo) as (h, agent, _):
        run = await h.start(agent.model_copy(update={"max_turns": 2}), task="one", chat=True)
        for n in range(2, 7):
            await turns(run, n - 1)
            await run.update("say", {"text": f"number {n}"})
        await turns(run, 6)
        await run.update("end", {})
        assert (await run.result()).answer == "heard: number 6"


async def test_a_limit_in_a_conversation_is_noted_and_the_conversation_goes_on(client: Client) -> None:
    def busy(prompt: Prompt) -> Reply:
        if "stop" in said(prompt)[-1]:
            return says("stopped")
        return calls(("note", f"n{len(prompt.messages)}", {"text": "x"}))

    async with bank(client, busy) as (h, agent, _):
        run = await h.start(agent.model_copy(update={"max_turns": 3}), task="go", chat=True)
        await turns(run, 3)
        await run.update("say", {"text": "stop"})
        await turns(run, 4)
        await run.update("end", {})
        result = await run.result()
        assert result.answer == "stopped"
        assert any("max_turns" in note.text for note in result.audit.notes)
        assert len(told(h)) == 3


async def test_a_limit_is_noted_once_however_often_the_page_is_turned(client: Client) -> None:
    def busy(prompt: Prompt) -> Reply:
        if len(said(prompt)) > 1:
            return says("stopped")
        return calls(("note", f"n{len(prompt.messages)}", {"text": "x"}))

    async with bank(client, busy, workflows=[TurnsWhenRefused]) as (h, agent, _):
        started = await h.start(agent.model_copy(update={"max_turns": 2}), task="go", chat=True)
        run = Run(client.get_workflow_handle(started.id, result_type=RunResult))
        await turns(run, 2)
        for page in range(1, 4):
            await run.signal("say", {"text": ""})

            async def turned(page: int = page) -> bool:
                found = [e async for e in client.list_workflows(f"WorkflowId = '{run.id}'")]
                return len(found) == page + 1

            await eventually(turned, f"page turn {page}")
        await run.update("say", {"text": "stop"})
        await turns(run, 3)
        await run.update("end", {})
        result = await run.result()
        assert (result.pages, result.answer) == (3, "stopped")
        assert ["max_turns" in note.text for note in result.audit.notes] == [True]


@both_entries
async def test_a_conversation_goes_on_over_page_turns(client: Client, entry: str) -> None:
    """Everything that was said is heard once, in its order; every payment is decided once."""
    async with bank(client, echo, workflows=[TurnsAtEveryChance]) as (h, agent, effects):
        started = await h.start(agent, task="pay 0", chat=True)
        run = Run(client.get_workflow_handle(started.id, result_type=RunResult))
        for n in range(1, 13):
            text = f"pay {n}" if n % 3 == 0 else f"number {n}"
            if entry == "signal":
                await run.signal("say", {"text": text})
            else:
                await say_again(run, {"text": text, "request_id": f"r{n}"})
        ended = asyncio.create_task(run.result())
        if entry == "signal":
            await run.signal("end", {})
        else:
            await say_again(run, {"request_id": "end"}, name="end")
        sent: set[str] = set()
        while not ended.done():
            await asyncio.wait([ended], timeout=0.05)
            for listed in [each for each in await pending(run) if each.id not in sent]:
                if await decided(run, listed, {"decision": "approve"}):
                    sent.add(listed.id)
        result = await ended
        assert result.status == "completed"
        assert result.pages >= 1
        words = [message.content for message in result.transcript if isinstance(message, User)]
        assert words == ["pay 0", *(f"pay {n}" if n % 3 == 0 else f"number {n}" for n in range(1, 13))]
        assert_valid(result.transcript)
        assert effects.count("pay") == len(sent) == len(result.audit.closed)


async def say_again(run: Run, request: dict[str, Any], *, name: str = "say") -> None:
    """Say it as a client does: again under the same request id when a page turn ate the reply."""

    async def taken() -> bool:
        try:
            await run.update(name, request)
        except RPCError as error:
            if error.status not in (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.UNAVAILABLE):
                raise
            return False
        return True

    await eventually(taken, name)


@workflow.defn(name="AgentRun")
class TurnsWhenRefused(AgentRun):
    """Turns the page whenever something was refused in it."""

    @workflow.init
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._before = self._state.board.audit.refused_in_all

    @workflow.run
    async def run(self, *args: Any) -> Any:
        return await super().run(*args)

    def page_is_full(self) -> bool:
        return self._state.board.audit.refused_in_all > self._before


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_conversation_of_a_thousand_turns(client: Client) -> None:
    """Linear in history, bounded in what the worker keeps; pages are turned by the run itself."""
    async with bank(client, echo) as (h, agent, _):
        run = await h.start(agent, task="0 " + "x" * 900, chat=True)
        unbound = Run(client.get_workflow_handle(run.id))
        for n in range(1_000):
            if n:
                await unbound.update("say", {"text": f"{n} " + "x" * 900})

            async def answered(n: int = n) -> bool:
                return len(h.model.prompts) > n

            await eventually(answered, f"turn {n}")
        await unbound.update("end", {})
        result = await run.result()
        assert result.status == "completed"
        assert result.answer.startswith("heard: 999 ")
        assert result.left_out > 0
        assert [len(prompt.messages) for prompt in h.model.prompts] == list(range(1, 2_000, 2))


async def test_words_that_are_sent_again_are_heard_once(client: Client) -> None:
    async with bank(client, echo) as (h, agent, _):
        run = await h.start(agent, task="hello", chat=True)
        await turns(run, 1)
        for _ in range(2):
            await run.update("say", {"text": "once", "request_id": "r1"})
        other = {"text": "twice", "request_id": "r1"}
        assert "used for another request" in await refused(run, "update", "say", other)
        await turns(run, 2)
        await run.update("end", {"request_id": "r2"})
        result = await run.result()
        assert result.answer == "heard: once"
        assert said(h.model.prompts[-1]) == ["hello", "once"]
