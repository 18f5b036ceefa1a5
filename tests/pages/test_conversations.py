"""Conversations: a run that stays open, hears what is said to it in a valid order, and ends when it is told to."""

import pytest
from temporalio.client import Client

from activities.model import Prompt
from protocol.messages import Assistant, Reply, User
from tests.kit import Run, calls, eventually, says
from tests.play import assert_valid
from tests.workflows.hands import bank, both_entries, refused, send, told


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
