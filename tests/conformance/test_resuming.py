"""Answers that count, and answers that do not."""

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client

from activities.tools import Interrupt, StatefulInterrupt, interrupt_state, resume_context, tool
from client import Client as Verbs
from protocol.agents import Chat
from protocol.errors import SignoffError
from tests.agents.hands import Hands, ids, told
from tests.kit import Run, by_agent, calls, house, says

PAY: Any = {"to": "B", "amount": 5}


async def refused(run: Run, request: Any) -> str:
    """Why an update was refused; what waits is afterwards as it was before."""
    before = await run.pending()
    with pytest.raises(Exception, match="Workflow update failed") as failure:
        await run.update("resume", request)
    assert await run.pending() == before
    return str(failure.value.__cause__)


async def test_an_answer_without_a_decision_never_lets_a_call_run(client: Client) -> None:
    """P001: no data, data of the wrong kind, and a "no" in a shape that nobody reads are refused; it stays pending."""
    hands = Hands()
    async with house(client, hands.all, [calls(("pay", "p", PAY)), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        [id] = await ids(run, 1)
        for answer in (
            None,
            {},
            True,
            "approve",
            {"approved": False},
            {"Approved": True},
            {"decision": None},
            {"decision": "approve", "approved": False},
            {"decision": "resume"},
            {"decision": "edit", "arguments": PAY},
        ):
            await refused(run, {"targets": {id: answer}})
        assert hands.ran == []
        await run.reject(id)
        await run.result()
    assert hands.ran == []


async def test_only_an_id_that_waits_can_be_answered(client: Client) -> None:
    """P002 P005 P006 P007: unknown ids, the places above a question and whatever looks like an address are refused by
    name, with what waits; nothing above is a target of its own."""
    hands = Hands()
    script = by_agent(
        {
            "lead": [calls(("helper", "h", {"request": "x"})), says("done")],
            "helper": [calls(("pay", "p", PAY)), says("paid")],
        }
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="lead", agents=(Chat(name="helper", tools=hands.specs),)))
        [id] = await ids(run, 1)
        for wrong in (
            "lead",
            "lead>helper",
            f"{id}~2",
            f"{id}#2",
            f" {id}",
            id.upper(),
            "",
            str(uuid.uuid4()),
        ):
            why = await refused(run, {"targets": {wrong: {"decision": "approve"}}})
            assert id in why
        await run.approve(id)
        await run.result()
    assert hands.ran == ["pay B 5"]


async def test_an_answer_for_nobody_changes_nothing(client: Client) -> None:
    """C028 C076 P003: it is no approval of what waits, and nothing runs; what waits keeps its id."""
    hands = Hands()
    async with house(client, hands.all, [calls(("pay", "p", PAY)), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        [id] = await ids(run, 1)
        requests: list[Any] = [{}, {"targets": {}}, {"targets": None}]
        for request in requests:
            await refused(run, request)
        assert (await ids(run, 1), hands.ran) == ([id], [])
        await run.approve(id)
        await run.result()


async def test_a_call_approved_twice_runs_once(client: Client) -> None:
    """P004: the second answer is refused, also at the same moment."""
    hands = Hands()
    script = [calls(("pay", "p", PAY)), calls(("pay", "q", PAY)), says("done")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        [id] = await ids(run, 1)
        both = await asyncio.gather(*(run.approve(id) for _ in range(2)), return_exceptions=True)
        assert len([each for each in both if isinstance(each, BaseException)]) == 1
        assert await ids(run, 1) == ["bank>pay:q"]
        await refused(run, {"targets": {id: {"decision": "approve"}}})
        await run.reject("bank>pay:q")
        await run.result()
    assert hands.ran == ["pay B 5"]


async def test_a_tool_may_ask_twice_and_each_question_has_its_own_answer(client: Client) -> None:
    """P008 P015: behind its gate, about the amount, about the risk: three questions at one place, and one run."""
    seen: list[Any] = []

    @tool(approval=True)
    def transfer(amount: float) -> str:
        stage = interrupt_state(str).state
        answer = resume_context(str)
        seen.append((stage, answer.data))
        if stage is None:
            raise StatefulInterrupt(f"amount {amount}?", "amount")
        if stage == "amount":
            raise StatefulInterrupt("risk?", "risk")
        return f"transferred, {answer.data}"

    async with house(client, [transfer], [calls(("transfer", "t", {"amount": 1500})), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        place = "bank>transfer:t"
        assert await ids(run, 1) == [place]
        await run.approve(place)
        assert await ids(run, 1) == [f"{place}~2"]
        await refused(run, {"targets": {place: {"decision": "approve"}}})
        await run.decide(f"{place}~2", {"decision": "resume", "data": "amount ok"})
        assert await ids(run, 1) == [f"{place}~3"]
        await refused(run, {"targets": {f"{place}~2": {"decision": "resume", "data": "again"}}})
        await run.decide(f"{place}~3", {"decision": "resume", "data": "risk ok"})
        result = await run.result()
        await run.replay()
    assert told(result.transcript) == {"t": "transferred, risk ok"}
    assert seen == [(None, None), ("amount", "amount ok"), ("risk", "risk ok")]


async def test_a_failure_beside_a_question_loses_neither(client: Client) -> None:
    """P009: the failure is a tool message, the finished result is kept, the question stays and can be answered."""
    hands = Hands()
    script = [calls(("boom", "a", {}), ("pay", "b", PAY), ("look", "c", {"what": "x"})), says("done")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        await run.approve(*await ids(run, 1))
        result = await run.result()
    found = told(result.transcript)
    assert "db down" in found["a"]
    assert (found["b"], found["c"]) == ("paid 5 to B", "looked at x")
    assert sorted(hands.ran) == ["boom", "look x", "pay B 5"]


@pytest.mark.parametrize("id", ["dup", ""], ids=["equal", "missing"])
async def test_calls_with_equal_or_missing_ids_are_all_answered(client: Client, id: str) -> None:
    """P011 P012: one of them is done, two wait; each has its own place and message, and each approved one runs."""
    hands = Hands()
    script = [
        calls(("look", id, {"what": "x"}), ("pay", id, {"to": "A", "amount": 1}), ("pay", id, PAY)),
        says("done"),
    ]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        for waiting in await ids(run, 2):
            await run.approve(waiting)
        result = await run.result()
    assert sorted(hands.ran) == ["look x", "pay A 1", "pay B 5"]
    assert list(told(result.transcript).values()) == ["looked at x", "paid 1 to A", "paid 5 to B"]


async def test_a_run_that_does_not_exist_is_an_error_at_once(client: Client) -> None:
    """C150"""
    with pytest.raises(SignoffError, match="no run"):
        await Verbs(client).resume("never-started", {"targets": {"a>b:c": {"decision": "approve"}}})


async def test_an_interrupt_cannot_be_swallowed_by_the_tool_itself(client: Client) -> None:
    @tool
    def careful() -> str:
        try:
            if not resume_context().is_target:
                raise Interrupt("sure?")
        except Exception:
            return "went on without asking"
        return "asked"

    async with house(client, [careful], [calls(("careful", "c", {})), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        [id] = await ids(run, 1)
        await run.decide(id, {"decision": "resume"})
        assert told((await run.result()).transcript) == {"c": "asked"}
