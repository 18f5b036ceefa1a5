"""A rejection is information: it reaches the model as text, and the conversation stays valid."""

import pytest
from temporalio.client import Client

from protocol.messages import Assistant, Tool
from tests.kit import calls, says
from tests.workflows.hands import bank, both_entries, send, told

P1 = "bank>pay:p1"


@both_entries
async def test_every_call_has_one_tool_message_after_a_rejection(client: Client, entry: str) -> None:
    """B053"""
    script = [calls(("note", "f1", {}), ("pay", "g1", {"amount": 1})), says("done")]
    async with bank(client, script) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {"bank>pay:g1": {"decision": "reject"}})
        assert (await run.result()).status == "completed"
        assert list(told(h)) == ["f1", "g1"]


@both_entries
@pytest.mark.parametrize(
    "reason",
    [{}, {"reason": ""}, {"reason": None}, {"reason": "     "}],
    ids=["none", "empty", "null", "blank"],
)
async def test_a_rejection_without_words_has_a_text_of_its_own(
    client: Client, entry: str, reason: dict[str, str | None]
) -> None:
    """B054"""
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {P1: {"decision": "reject", **reason}})
        assert (await run.result()).status == "completed"
        assert told(h)["p1"] == "tool 'pay' disapproved. It did not run."
        assert effects.count("pay") == 0


@both_entries
async def test_a_reason_reaches_the_model_word_for_word(client: Client, entry: str) -> None:
    """B056"""
    reason = "超出单笔限额 — split into two ≤ ¥500 💸"
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {P1: {"decision": "reject", "reason": reason}})
        result = await run.result()
        assert told(h)["p1"].startswith(f"tool 'pay' disapproved, reason: {reason}")
        assert result.audit.closed[0].reason == reason


@both_entries
async def test_a_rejected_call_stays_in_the_conversation_and_never_runs(client: Client, entry: str) -> None:
    """B060"""
    script = [calls(("pay", "g1", {"amount": 1})), calls(("note", "f2", {"text": "b"})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {"bank>pay:g1": {"decision": "reject"}})
        result = await run.result()
        roles = [message.role for message in result.transcript]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
        _, first, rejected, second, noted, _ = result.transcript
        assert isinstance(first, Assistant)
        assert isinstance(second, Assistant)
        assert [call.id for call in (*first.tool_calls, *second.tool_calls)] == ["g1", "f2"]
        assert isinstance(rejected, Tool)
        assert isinstance(noted, Tool)
        assert (rejected.tool_call_id, noted.tool_call_id) == ("g1", "f2")
        assert "disapproved" in rejected.content
        assert noted.content == "note b done"
        assert effects.done == [("note", "b")]
        await run.replay()
