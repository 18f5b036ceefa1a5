"""Tools that stop and ask from inside: an event, not a failure, with an answer that counts for its own question."""

from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from activities.tools import Interrupt, StatefulInterrupt, interrupt_state, resume_context, tool
from tests.kit import Run, calls, eventually, says
from tests.workflows.hands import bank, both_entries, ids, refused, send, told

TRANSFER = "bank>transfer:t1"


class TransferState(BaseModel):
    to: str
    amount: float


class ApprovalResult(BaseModel):
    approved: bool
    comment: str = ""


async def next_question(run: Run, id: str) -> Any:
    async def asked() -> Any:
        return next((each for each in await run.pending() if each.id == id), None)

    return await eventually(asked, f"the question {id}")


def transfer_tool(done: list[str], expects: Any = ApprovalResult) -> Any:
    """The three-phase tool: first run, resumed but not the target, resumed and the target."""

    @tool
    def transfer(to: str, amount: float) -> str:
        previous = interrupt_state(TransferState)
        if not previous.was_interrupted:
            if amount > 10_000:
                raise StatefulInterrupt(
                    {"reason": "over the limit", "amount": amount},
                    TransferState(to=to, amount=amount),
                    expects=expects,
                )
            done.append(f"{amount} to {to}")
            return "sent"
        assert previous.has_state
        answer = resume_context(ApprovalResult)
        if not answer.is_target:
            raise StatefulInterrupt({"reason": "still waiting"}, previous.state, expects=expects)
        if not answer.has_data or answer.data is None or not answer.data.approved:
            return f"refused: {answer.data.comment if answer.data else 'no data'}"
        assert previous.state is not None
        done.append(f"{previous.state.amount} to {previous.state.to}")
        return "sent after all"

    return transfer


@both_entries
@pytest.mark.parametrize(
    ("data", "said", "effects"),
    [
        ({"approved": True}, "sent after all", ["20000.0 to B"]),
        ({"approved": False, "comment": "too much"}, "refused: too much", []),
    ],
    ids=["approved", "refused"],
)
async def test_the_three_phase_tool_works_as_it_is_written(
    client: Client, entry: str, data: dict[str, Any], said: str, effects: list[str]
) -> None:
    """C001 C031"""
    done: list[str] = []
    script = [calls(("transfer", "t1", {"to": "B", "amount": 20_000})), says("done")]
    async with bank(client, script, transfer_tool(done)) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "custom"
        assert waiting.question.info == {"reason": "over the limit", "amount": 20_000}
        assert waiting.question.expects is not None
        await send(run, entry, {TRANSFER: {"decision": "resume", "data": data}})
        await run.result()
        assert told(h)["t1"] == said
        assert done == effects
        assert await run.events("ACTIVITY_TASK_FAILED", "ACTIVITY_TASK_TIMED_OUT") == 0
        await run.replay()


async def test_a_small_transfer_asks_nobody(client: Client) -> None:
    done: list[str] = []
    script = [calls(("transfer", "t1", {"to": "B", "amount": 5})), says("done")]
    async with bank(client, script, transfer_tool(done)) as (h, agent, _):
        run = await h.start(agent)
        assert (await run.result()).audit.closed == []
        assert done == ["5.0 to B"]


@both_entries
async def test_the_door_refuses_data_that_does_not_fit(client: Client, entry: str) -> None:
    """C032 P001: never a silent "no data", never an approval"""
    done: list[str] = []
    script = [calls(("transfer", "t1", {"to": "B", "amount": 20_000})), says("done")]
    async with bank(client, script, transfer_tool(done)) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        wrong: list[Any] = [None, "yes", {"approved": "true"}, {"approved": 1}, {"comment": "x"}, [], 5]
        for data in wrong:
            decision = {"decision": "resume", "data": data}
            assert await refused(run, entry, "resume", {"targets": {TRANSFER: decision}}), data
        assert done == []
        await send(run, entry, {TRANSFER: {"decision": "resume", "data": {"approved": True}}})
        await run.result()
        assert done == ["20000.0 to B"]


async def test_without_expects_data_of_another_type_reopens_the_question(client: Client) -> None:
    done: list[str] = []
    script = [calls(("transfer", "t1", {"to": "B", "amount": 20_000})), says("done")]
    async with bank(client, script, transfer_tool(done, expects=None)) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        await run.decide(TRANSFER, {"decision": "resume", "data": {"approved": "maybe"}})
        again = await next_question(run, f"{TRANSFER}~2")
        assert again.question.info == {"reason": "over the limit", "amount": 20_000}
        assert "ApprovalResult" in again.question.problem
        assert done == []
        await run.decide(again.id, {"decision": "resume", "data": {"approved": True}})
        await run.result()
        assert done == ["20000.0 to B"]


@both_entries
async def test_an_answer_to_the_first_question_never_counts_for_the_second(
    client: Client, entry: str
) -> None:
    """P008: amount first, then risk"""

    @tool
    def transfer() -> str:
        state = interrupt_state(dict[str, Any])
        if not state.was_interrupted:
            raise StatefulInterrupt("amount?", {"step": 1})
        answer = resume_context(str)
        if state.state == {"step": 1}:
            raise StatefulInterrupt("risk?", {"step": 2, "amount": answer.data})
        assert state.state is not None
        return f"{state.state['amount']} at {answer.data} risk"

    async with bank(client, [calls(("transfer", "t1", {})), says("done")], transfer) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {TRANSFER: {"decision": "resume", "data": "500"}})
        second = await next_question(run, f"{TRANSFER}~2")
        assert second.question.info == "risk?"
        for late in (TRANSFER,):
            reason = await refused(
                run, entry, "resume", {"targets": {late: {"decision": "resume", "data": "none"}}}
            )
            assert "already decided" in reason
        await send(run, entry, {second.id: {"decision": "resume", "data": "low"}})
        await run.result()
        assert told(h)["t1"] == "500 at low risk"


async def test_a_tool_cannot_swallow_its_own_question(client: Client) -> None:
    @tool
    def careless() -> str:
        if interrupt_state().was_interrupted:
            return f"told {resume_context(int).data}"
        try:
            raise Interrupt("how many?", expects=int)
        except Exception:
            return "swallowed"

    async with bank(client, [calls(("careless", "t1", {})), says("done")], careless) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        await run.decide(waiting.id, {"decision": "resume", "data": 7})
        await run.result()
        assert told(h)["t1"] == "told 7"


async def test_state_of_another_type_is_an_error_that_names_both(client: Client) -> None:
    """C029"""

    @tool
    def confused() -> str:
        if interrupt_state(TransferState).was_interrupted:
            return "never"
        raise StatefulInterrupt("go on?", ["a", "list"])

    async with bank(client, [calls(("confused", "t1", {})), says("done")], confused) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        await run.decide(waiting.id, {"decision": "resume"})
        await run.result()
        assert "list" in told(h)["t1"]
        assert "TransferState" in told(h)["t1"]


async def test_a_withdrawn_question_from_inside_ends_its_call_alone(client: Client) -> None:
    done: list[str] = []
    script = [
        calls(("transfer", "t1", {"to": "B", "amount": 20_000}), ("pay", "p1", {"amount": 1})),
        says("done"),
    ]
    async with bank(client, script, transfer_tool(done)) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(2)
        await run.update("withdraw", {"target": TRANSFER, "reason": "obsolete"})
        assert ids(await run.waiting(1)) == ["bank>pay:p1"]
        await run.approve("bank>pay:p1")
        result = await run.result()
        assert done == []
        assert effects.done == [("pay", 1)]
        assert "withdrawn" in told(h)["t1"]
        assert [entry.outcome for entry in result.audit.closed] == ["withdrawn", "approved"]
