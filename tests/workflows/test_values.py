"""Effects happen once, failures have words, and texts of every script pass unchanged."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from activities.tools import idempotency_key, tool
from protocol.messages import Reply
from tests.kit import calls, eventually, says
from tests.workflows.hands import bank, both_entries, send, told

APPROVE = {"decision": "approve"}


@both_entries
async def test_a_finished_call_is_not_repeated_by_a_decision(client: Client, entry: str) -> None:
    """B016, with another worker for the decision"""
    script = [calls(("note", "n1", {}), ("pay", "p1", {"amount": 1})), says("done")]
    async with bank(client, script, queue="moved") as (h, agent, before):
        run = await h.start(agent)
        await run.waiting(1)

        async def noted() -> bool:
            return before.count("note") == 1

        await eventually(noted, "the note is written")
    async with bank(client, script, queue="moved") as (_, _, after):
        await send(run, entry, {"bank>pay:p1": APPROVE})
        assert (await run.result()).status == "completed"
        assert (before.done, after.done) == ([("note", "")], [("pay", 1)])


async def test_a_tool_that_fails_after_its_effect_is_not_tried_again(client: Client) -> None:
    """B020: at most once by default"""
    rows: list[str] = []

    @tool(approval=True)
    def charge() -> str:
        rows.append(idempotency_key())
        raise TimeoutError("read timed out")

    async with bank(client, [calls(("charge", "p1", {})), says("done")], charge) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        await run.approve("bank>charge:p1")
        await run.result()
        assert len(rows) == 1
        assert "read timed out" in told(h)["p1"]
        assert "may have taken effect" in told(h)["p1"]


async def test_an_idempotent_tool_is_tried_again_with_the_same_key(client: Client) -> None:
    """B020: with a key per call"""
    rows: set[str] = set()
    tries: list[str] = []

    @tool(approval=True, attempts=3)
    def charge() -> str:
        tries.append(idempotency_key())
        rows.add(idempotency_key())
        if len(tries) == 1:
            raise TimeoutError("read timed out")
        return "charged"

    async with bank(client, [calls(("charge", "p1", {})), says("done")], charge) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        await run.approve("bank>charge:p1")
        await run.result()
        assert (len(tries), len(rows)) == (2, 1)
        assert told(h)["p1"] == "charged"


class Point(BaseModel):
    x: int


async def test_a_value_of_any_kind_becomes_a_message(client: Client) -> None:
    """B117 B141"""
    values: dict[str, Any] = {
        "object": object(),
        "set": {1},
        "nan": float("nan"),
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "bytes": b"abc",
        "decimal": Decimal("0.1"),
        "model": Point(x=1),
        "none": None,
        "empty": "",
        "surrogate": "a\ud800b",
    }

    @tool
    def give(kind: str) -> Any:
        return values[kind]

    asked = [("give", kind, {"kind": kind}) for kind in values]
    async with bank(client, [calls(*asked), says("done")], give) as (h, agent, _):
        run = await h.start(agent)
        assert (await run.result()).status == "completed"
        said = told(h)
        assert list(said) == list(values)
        assert all(said.values())
        assert said["model"] == '{"x":1}'
        assert said["decimal"] == '"0.1"'
        assert said["none"] != said["empty"]
        assert "failed" in said["object"]


async def test_a_failure_always_has_words_and_keeps_its_id(client: Client) -> None:
    """B015"""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @tool
    def fail(how: int) -> str:
        raise [ValueError(), asyncio.CancelledError(), Mute()][how]

    @tool
    async def fail_async(how: int) -> str:
        raise [ValueError(), asyncio.CancelledError(), Mute()][how]

    asked = [(name, f"{name}{how}", {"how": how}) for how in range(3) for name in ("fail", "fail_async")]
    async with bank(client, [calls(*asked, ("note", "n", {})), says("done")], fail, fail_async) as (
        h,
        agent,
        _,
    ):
        run = await h.start(agent)
        assert (await run.result()).status == "completed"
        said = told(h)
        assert len(said) == 7
        for name in ("fail", "fail_async"):
            assert "ValueError" in said[f"{name}0"]
            assert "CancelledError" in said[f"{name}1"]
            assert "Mute" in said[f"{name}2"]


@both_entries
async def test_texts_of_every_script_pass_unchanged(client: Client, entry: str) -> None:
    """B131"""
    texts = {"姓名": "王小明", "note": "👨‍👩‍👧 é السلام"}

    @tool(approval=True)
    def register(data: dict[str, str]) -> str:
        return data["姓名"] + data["note"]

    script = [
        calls(("register", "r1", {"data": texts})),
        calls(("register", "r2", {"data": texts})),
        says("好"),
    ]
    async with bank(client, script, register) as (h, agent, _):
        run = await h.start(agent, task="登记")
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "approval"
        assert waiting.question.arguments == {"data": texts}
        reason = "预算不足，请改为 ¥3000"
        await send(run, entry, {waiting.id: {"decision": "reject", "reason": reason}}, by="张伟")

        async def second() -> bool:
            return [each.id for each in await run.pending()] == ["bank>register:r2"]

        await eventually(second, "the second question")
        assert reason in told(h)["r1"]
        await run.approve("bank>register:r2")
        result = await run.result()
        assert told(h)["r2"] == "王小明👨‍👩‍👧 é السلام"
        assert (result.audit.closed[0].by, result.audit.closed[0].reason) == ("张伟", reason)
        assert "王小明" in (result.audit.closed[0].proposed or "")


@both_entries
async def test_control_characters_are_kept_visible_and_nothing_is_dropped(client: Client, entry: str) -> None:
    """B130"""

    @tool(approval=True)
    def write(text: str) -> str:
        return f"\x1b[2J{text}"

    script = [
        calls(("write", "w1", {"text": "a\u0000b"})),
        calls(("write", "w2", {"text": "c"})),
        says("done"),
    ]
    async with bank(client, script, write) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "approval"
        assert waiting.question.arguments == {"text": "a\u0000b"}
        await send(run, entry, {waiting.id: APPROVE})

        async def second() -> bool:
            return [each.id for each in await run.pending()] == ["bank>write:w2"]

        await eventually(second, "the second question")
        assert told(h)["w1"] == "\x1b[2Ja\u0000b"
        await send(run, entry, {"bank>write:w2": {"decision": "reject", "reason": "no\u0000"}})
        await run.result()
        assert "no\u0000" in told(h)["w2"]


async def test_a_refusal_of_the_model_is_an_answer_and_keeps_its_kind(client: Client) -> None:
    """B127: each kind of message survives the run"""
    script = [calls(("note", "n", {}), text="one moment"), Reply(refusal="I will not do that.")]
    async with bank(client, script) as (h, agent, _):
        run = await h.start(agent)
        result = await run.result()
        assert result.answer == "I will not do that."
        kinds = [message.role for message in result.transcript]
        assert kinds == ["user", "assistant", "tool", "assistant"]
        last = result.transcript[-1]
        assert last.role == "assistant"
        assert (last.content, last.refusal) == (None, "I will not do that.")


async def test_a_normal_pause_is_no_error(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """B142 B061: no error in the log, no failed event"""
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        await run.approve("bank>pay:p1")
        result = await run.result()
        assert result.audit.closed[0].outcome == "approved"
        assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
        assert (
            await run.events(
                "ACTIVITY_TASK_FAILED", "WORKFLOW_TASK_FAILED", "WORKFLOW_TASK_TIMED_OUT", "TIMER_STARTED"
            )
            == 0
        )


async def test_a_tool_that_no_worker_knows_did_not_run(client: Client) -> None:
    """Said as it is: nothing of it can have taken effect"""

    @tool
    def unknown() -> str:
        return "never"

    async with bank(client, [calls(("unknown", "u1", {})), says("done")]) as (h, agent, _):
        run = await h.start(agent.model_copy(update={"tools": (unknown.spec,)}))
        await run.result()
        assert told(h)["u1"] == "tool 'unknown' is not served by the worker that was asked: it did not run"
