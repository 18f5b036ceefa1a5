"""Conversations: what is said while something waits, and after a rejection."""

from typing import Any

from temporalio.client import Client

from protocol import texts
from protocol.agents import Chat
from tests.agents.hands import Hands, ids, told
from tests.kit import Run, calls, eventually, house, says

PAY: Any = {"to": "B", "amount": 5}


async def test_a_conversation_goes_on_after_a_rejection(client: Client) -> None:
    """B059: the next message is a normal turn, in the right order."""
    hands = Hands()
    script = [calls(("pay", "p1", PAY)), says("then not"), says("hello to you")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs), "pay B", chat=True)
        await run.reject(*await ids(run, 1))
        await length(run, 4)
        await run.update("say", {"text": "hello again", "by": "ann"})
        await length(run, 6)
        await run.update("end", {})
        result = await run.result()
        await run.replay()
    assert [(message.role, message.content) for message in result.transcript] == [
        ("user", "pay B"),
        ("assistant", None),
        ("tool", texts.disapproved("pay", None)),
        ("assistant", "then not"),
        ("user", "hello again"),
        ("assistant", "hello to you"),
    ]


async def test_what_is_said_while_a_call_waits_is_heard_after_its_decision(client: Client) -> None:
    """B088: the call is neither dropped nor run by it, nothing is lost, and the history stays valid."""
    hands = Hands()
    script = [calls(("pay", "p1", PAY)), says("it is sunny")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs), "pay B", chat=True)
        [waiting] = await run.waiting(1)
        await run.update("say", {"text": "actually, cancel that and tell me the weather"})
        await run.signal("say", {"text": "please"})
        assert await run.pending() == [waiting]
        assert len(h.model.prompts) == 1
        await run.reject(waiting.id, "not any more")
        await run.update("end", {})
        result = await run.result()
        await run.replay()
    assert told(h.model.prompts[1].messages) == {"p1": texts.disapproved("pay", "not any more")}
    assert [message.content for message in h.model.prompts[1].messages[-2:]] == [
        "actually, cancel that and tell me the weather",
        "please",
    ]
    assert (result.answer, hands.ran) == ("it is sunny", [])


async def length(run: Run, messages: int) -> None:
    """Wait until the conversation has so many messages."""

    async def long_enough() -> bool:
        return (await run.transcript()).length == messages

    await eventually(long_enough, f"{messages} messages")
