"""Which decision counts: the first that is whole, for its own question, once."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from protocol.agents import Chat
from protocol.run import RunRequest, RunResult
from protocol.views import Listed
from tests.kit import Run, calls, eventually, house, says
from tests.workflows.hands import ENTRIES, Effects, bank, both_entries, ids, refused, send

APPROVE = {"decision": "approve"}
ONE_PAYMENT = [calls(("pay", "p1", {"amount": 1})), says("done")]
P1 = "bank>pay:p1"


@both_entries
async def test_the_first_of_simultaneous_decisions_counts(client: Client, entry: str) -> None:
    """B023"""
    async with bank(
        client, [calls(("pay", "p1", {"amount": 1}), ("pay", "p2", {"amount": 2})), says("done")]
    ) as (
        h,
        agent,
        effects,
    ):
        run = await h.start(agent)
        await run.waiting(2)
        sent = await asyncio.gather(
            *(send(run, entry, {P1: APPROVE}) for _ in range(2)), return_exceptions=True
        )
        await run.waiting(1)
        late = await refused(run, entry, "resume", {"targets": {P1: APPROVE}})
        assert "already decided" in late
        if entry == "update":
            assert sorted(isinstance(each, WorkflowUpdateFailedError) for each in sent) == [False, True]
        await run.approve("bank>pay:p2")
        result = await run.result()
        assert effects.count("pay", 1) == 1
        assert all("already decided" in r.reason for r in result.audit.refused)
        assert result.audit.refused_in_all == (0 if entry == "update" else 2)


@both_entries
async def test_two_equal_calls_are_two_questions(client: Client, entry: str) -> None:
    """B026"""
    async with bank(
        client, [calls(("send", "b1", {"to": "7"}), ("send", "b2", {"to": "7"})), says("done")]
    ) as (h, agent, effects):
        run = await h.start(agent)
        first, second = await run.waiting(2)
        await send(run, entry, {first.id: APPROVE})
        assert ids(await run.waiting(1)) == [second.id]

        async def pressed() -> bool:
            return effects.count("send") == 1

        await eventually(pressed, "pressed once")
        await run.reject(second.id)
        await run.result()
        assert effects.count("send") == 1


@both_entries
async def test_a_late_decision_never_moves_a_later_call(client: Client, entry: str) -> None:
    """B027"""
    script = [calls(("pay", "r1", {"amount": 10})), calls(("pay", "r2", {"amount": 10_000})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {"bank>pay:r1": {"decision": "reject", "reason": "too low"}})

        async def second() -> bool:
            return ids(await run.pending()) == ["bank>pay:r2"]

        await eventually(second, "the second question")
        assert "already decided" in await refused(run, entry, "resume", {"targets": {"bank>pay:r1": APPROVE}})
        assert effects.count("pay") == 0
        await run.reject("bank>pay:r2")
        await run.result()


async def test_a_repeated_request_gets_the_same_reply_and_has_no_second_effect(client: Client) -> None:
    """B029"""
    script = [calls(("pay", "p1", {"amount": 1}), ("pay", "p2", {"amount": 2})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(2)
        replies = [await run.approve(P1, request_id="req-1") for _ in range(3)]
        assert replies[0] == replies[1] == replies[2]
        assert replies[0].results[P1].status == "taken"
        again = {"targets": {P1: APPROVE}, "request_id": "req-2"}
        assert "already decided" in await refused(run, "update", "resume", again)
        other = {"targets": {"bank>pay:p2": APPROVE}, "request_id": "req-1"}
        assert "used for another request" in await refused(run, "update", "resume", other)
        await run.reject("bank>pay:p2")
        await run.result()
        assert effects.done == [("pay", 1)]


@both_entries
@pytest.mark.parametrize(
    "wrong",
    ["bank>pay:call_999", " bank>pay:p1", "bank>pay:p1 ", "Bank>pay:p1", "bank>pay:p1>", "bank>pay:p1~2", ""],
)
async def test_an_unknown_id_is_refused_and_told_what_waits(client: Client, entry: str, wrong: str) -> None:
    """B030"""
    async with bank(client, ONE_PAYMENT) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        assert P1 in await refused(run, entry, "resume", {"targets": {wrong: APPROVE}})
        await run.approve(P1)
        await run.result()
        assert effects.count("pay") == 1


NO_DECISIONS: list[Any] = [
    {},
    {"targets": {P1: {}}},
    {"targets": {P1: {"decision": None}}},
    {"targets": {P1: {"decision": ""}}},
    {"targets": {P1: None}},
    {"targets": {}},
    {"targets": None},
    [],
    {"targets": []},
    {"targets": {P1: {"decision": "approve", "extra": 1}}},
    {"targets": {P1: {"decision": "approve"}}, "surprise": True},
    {"targets": {P1: {"decision": "approve"}, "bank>pay:p2": None}},
]
NO_APPROVALS: list[Any] = [
    *({"approved": value} for value in ("false", "true", 1, 1.0, "yes", [True], True)),
    {"approval": {"approved": True}},
    *(
        {"decision": value}
        for value in ("APPROVE", "approved", "Approve ", " approve", "yes", True, 1, ["approve"])
    ),
    {"decision": "approve", "comment": 5},
    {"decision": "approve", "remember": "session"},
    {"decision": "approve", "remember": ""},
    "approve",
    True,
    1,
]


@both_entries
@pytest.mark.parametrize("named", [False, True], ids=["resume", "named"])
async def test_only_a_well_formed_approve_executes(client: Client, entry: str, named: bool) -> None:
    """B033 B034"""
    async with bank(client, ONE_PAYMENT) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        if not named:
            for bad in NO_DECISIONS:
                assert await refused(run, entry, "resume", bad)
        for bad in NO_APPROVALS:
            name, value = (P1, bad) if named else ("resume", {"targets": {P1: bad}})
            reason = await refused(run, entry, name, value)
            wrong = set(bad) - {"decision"} if isinstance(bad, dict) and "decision" in bad else set[str]()
            wrong = wrong or {"decision" if isinstance(bad, dict) else "object"}
            assert all(field in reason for field in wrong), (json.dumps(bad), reason)
        assert effects.count("pay") == 0
        await run.approve(P1)
        await run.result()
        assert effects.count("pay") == 1
        await run.replay()


async def test_a_refused_update_leaves_nothing_in_history(client: Client) -> None:
    async with bank(client, ONE_PAYMENT) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        before = await run.events()
        for bad in (*NO_DECISIONS, {"targets": {"bank>pay:nope": APPROVE}}):
            with pytest.raises(WorkflowUpdateFailedError):
                await run.update("resume", bad)
        assert await run.events() == before
        await run.approve(P1)
        await run.result()


@both_entries
async def test_a_decision_can_be_named_by_the_interrupt_itself(client: Client, entry: str) -> None:
    async with bank(client, ONE_PAYMENT) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        await (run.update if entry == "update" else run.signal)(P1, {"decision": "approve", "by": "张伟"})
        result = await run.result()
        assert effects.count("pay") == 1
        assert result.audit.closed[0].by == "张伟"


async def test_a_decision_for_another_run_or_a_changed_question_is_refused(client: Client) -> None:
    """B078: a decision for an earlier run of the same workflow id never reaches a newer one."""
    async with bank(client, ONE_PAYMENT) as (h, agent, effects):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        for wrong in ({"run": "01a22f00-0000-7000-8000-000000000000"}, {"digest": "0" * 16}):
            assert await refused(run, "update", "resume", {"targets": {P1: APPROVE}, **wrong})
            assert await refused(run, "signal", "resume", {"targets": {P1: APPROVE}, **wrong})
        await run.approve(P1, run=waiting.run, digest=waiting.digest)
        await run.result()
        assert effects.count("pay") == 1


async def test_a_decision_for_an_earlier_run_of_the_same_id_is_refused(client: Client) -> None:
    """B078: the same question under the same address, in a later run of the same workflow id"""
    async with bank(client, [*ONE_PAYMENT, *ONE_PAYMENT]) as (h, agent, effects):
        id = f"again-{uuid.uuid4()}"
        earlier = await h.start(agent, id=id)
        [seen] = await earlier.waiting(1)
        await earlier.reject(P1)
        await earlier.result()
        later = await h.start(agent, id=id)
        [waiting] = await later.waiting(1)
        assert (waiting.id, waiting.digest) == (seen.id, seen.digest)
        assert waiting.run != seen.run
        stale = {"targets": {P1: APPROVE}, "run": seen.run, "digest": seen.digest}
        for entry in ENTRIES:
            assert "earlier run" in await refused(later, entry, "resume", stale)
        assert effects.count("pay") == 0
        await later.approve(P1, run=waiting.run)
        await later.result()
        assert effects.count("pay") == 1


async def test_the_listed_fields_are_all_that_is_needed_to_decide(client: Client) -> None:
    """B078 B119: a service that never started the run decides it from the listing alone."""
    async with bank(client, ONE_PAYMENT) as (h, agent, effects):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        stranger = await Client.connect(client.service_client.config.target_host)  # the stock converter
        handle = stranger.get_workflow_handle(waiting.workflow_id)
        answer = {**waiting.answers[0], "run": waiting.run, "digest": waiting.digest}
        await handle.execute_update(waiting.id, answer)
        await run.result()
        assert effects.count("pay") == 1


@both_entries
async def test_no_caller_is_told_of_an_error_when_the_decision_was_the_last_thing_needed(
    client: Client, entry: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B107, and the worker warns of no handler that was left unfinished"""
    async with bank(client, ONE_PAYMENT) as (h, agent, effects):
        for _ in range(30):
            run = await h.start(agent)
            await run.waiting(1)
            await send(run, entry, {P1: APPROVE})
            assert (await run.result()).status == "completed"
        assert effects.count("pay") == 30
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def play_bot(client: Client, count: int) -> None:
    async with bank(client, ONE_PAYMENT) as (h, agent, effects):

        async def once() -> None:
            run = await h.start(agent)

            async def visible() -> list[Listed] | None:
                return await run.pending() or None

            [found] = await eventually(visible, "something to decide")
            await run.approve(found.id)
            assert (await run.result()).status == "completed"

        for _ in range(count // 5):
            await asyncio.gather(*(once() for _ in range(5)))
        assert effects.count("pay") == count


async def test_a_question_that_is_visible_can_be_decided(client: Client) -> None:
    """B143, 50 runs"""
    await play_bot(client, 50)


@pytest.mark.slow
async def test_a_question_that_is_visible_can_be_decided_a_hundred_times(client: Client) -> None:
    """B143"""
    await play_bot(client, 100)


async def test_a_message_before_the_first_task_is_safe(client: Client) -> None:
    """B110: a decision, a query and an update sent while no worker runs."""
    handle = await client.start_workflow(
        "AgentRun",
        {"task": "go", "agent": {"kind": "chat", "name": "bank", "tools": []}},
        id="early",
        task_queue="early",
        start_signal=P1,
        start_signal_args=[{"decision": "approve"}],
    )
    run = Run(client.get_workflow_handle(handle.id))
    await run.signal("resume", {"targets": {P1: APPROVE}})
    update = asyncio.create_task(run.approve(P1))
    query = asyncio.create_task(run.pending())
    async with house(client, [], [says("done")], queue="early"):
        assert await query == []
        with pytest.raises(WorkflowUpdateFailedError) as refusal:
            await update
        assert "nothing waits" in str(refusal.value.cause)
        result = await client.get_workflow_handle(handle.id).result()
        assert result["status"] == "completed"
        assert result["audit"]["refused_in_all"] == 2
        await run.replay()


async def test_an_early_decision_is_for_no_later_question(client: Client) -> None:
    """B110: sent before the first task, it is refused; the call that then asks under this address waits"""
    effects = Effects()
    pay = effects.tools()["pay"]
    handle = await client.start_workflow(
        "AgentRun",
        RunRequest(task="go", agent=Chat(name="bank", tools=(pay.spec,))),
        id="early-approve",
        task_queue="early-approve",
        result_type=RunResult,
        start_signal=P1,
        start_signal_args=[APPROVE],
    )
    run = Run(handle)
    async with house(client, [pay], ONE_PAYMENT, queue="early-approve"):
        await run.waiting(1)
        assert effects.done == []
        await run.reject(P1)
        result = await run.result()
        assert effects.done == []
        assert result.audit.refused_in_all == 1
        await run.replay()


async def test_a_cold_worker_behaves_like_a_warm_one(client: Client) -> None:
    """B113"""
    script = [calls(("pay", "p1", {"amount": 1}), ("send", "s1", {"to": "x"})), says("done")]
    async with bank(client, script, max_cached_workflows=0) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(2)
        await run.approve(P1)
        await run.reject("bank>send:s1", "no")
        await run.result()
        assert effects.done == [("pay", 1)]
