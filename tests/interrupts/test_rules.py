"""Conditional gates, deny gates, and approvals that are remembered: for the same call again, and nothing wider."""

import json
from typing import Annotated, Any

import pytest
from pydantic import Field
from temporalio.client import Client

from activities.tools import tool
from protocol.agents import Chat, Gate, Supervisor
from tests.kit import by_agent, calls, eventually, house, says
from tests.workflows.hands import bank, refused, told


class Moves:
    def __init__(self) -> None:
        self.done: list[float] = []

    def tool(self) -> Any:
        moves = self

        @tool(approval=lambda args: args.amount > 1_000)
        def move(amount: float) -> str:
            moves.done.append(amount)
            return f"moved {amount}"

        return move


@pytest.mark.parametrize(
    ("written", "asks"),
    [
        ("999.99", False),
        ("1000", False),
        ("1000.01", True),
        ("1e3", False),
        ("-5000", False),
        ("1" + "0" * 30, True),
        ('"5000"', None),
        ("null", None),
        ("true", None),
        ("[5000]", None),
    ],
)
async def test_a_condition_sees_validated_arguments(client: Client, written: str, asks: bool | None) -> None:
    """B150: free, gated, or (None) refused before anybody is asked"""
    moves = Moves()
    script = [calls(("move", "m1", f'{{"amount": {written}}}')), says("done")]
    async with bank(client, script, moves.tool()) as (h, agent, _):
        run = await h.start(agent)
        if asks:
            [waiting] = await run.waiting(1)
            assert moves.done == []
            await run.approve(waiting.id)
        await run.result()
        assert moves.done == ([] if asks is None else [float(written)])
        assert (await run.events("ACTIVITY_TASK_FAILED")) == 0


async def test_an_error_in_a_condition_asks(client: Client) -> None:
    """B150"""
    done: list[str] = []

    @tool(review=lambda args: args.nothing_of_that_name > 5)
    def act(what: str) -> str:
        done.append(what)
        return "acted"

    async with bank(client, [calls(("act", "a1", {"what": "x"})), says("done")], act) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "review"
        assert done == []
        await run.decide(waiting.id, {"decision": "edit", "arguments": {"what": "y"}})
        await run.result()
        assert done == ["y"]
        assert "A person changed the arguments" in told(h)["a1"]


async def test_a_rejected_condition_runs_nothing(client: Client) -> None:
    moves = Moves()
    script = [calls(("move", "m1", {"amount": 5_000})), says("done")]
    async with bank(client, script, moves.tool()) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        await run.reject(waiting.id, "too much")
        await run.result()
        assert moves.done == []
        assert "too much" in told(h)["m1"]


async def test_a_denied_tool_never_runs_and_nobody_is_asked(client: Client) -> None:
    """B149"""
    done: list[str] = []

    @tool(deny=True)
    def wreck() -> str:
        done.append("wreck")
        return "wrecked"

    async with bank(client, [calls(("wreck", "w1", {})), says("done")], wreck) as (h, agent, _):
        run = await h.start(agent)
        result = await run.result()
        assert done == []
        assert told(h)["w1"].startswith("tool 'wreck' disapproved")
        assert result.audit.closed == []


DELETES = [
    calls(("delete", "d1", '{"id": 1, "deep": true}')),
    calls(("delete", "d2", '{"id": 2, "deep": true}')),
    calls(("delete", "d3", '{"deep": true, "id": 1}')),
    says("done"),
]


@pytest.mark.parametrize("remember", [True, False])
async def test_a_remembered_approval_covers_the_same_call_and_no_other(
    client: Client, remember: bool
) -> None:
    """B146 B147"""
    gone: list[int] = []

    @tool(approval=True)
    def delete(id: int, deep: bool) -> str:
        gone.append(id)
        return "deleted"

    async with bank(client, DELETES, delete) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        decision = {"decision": "approve", **({"remember": "call"} if remember else {})}
        await run.decide("bank>delete:d1", decision)

        async def second() -> bool:
            return [each.id for each in await run.pending()] == ["bank>delete:d2"]

        await eventually(second, "the other call waits")
        assert gone == [1]
        await run.reject("bank>delete:d2")
        if not remember:
            [third] = await run.waiting(1)
            assert third.id == "bank>delete:d3"
            await run.approve(third.id)
        await run.result()
        assert gone == [1, 1]


async def test_a_remembered_approval_is_its_agents_own(client: Client) -> None:
    """B146"""
    gone: list[int] = []

    @tool(approval=True)
    def delete(id: int) -> str:
        gone.append(id)
        return "deleted"

    same = calls(("delete", "d", {"id": 1}))
    script = by_agent(
        {
            "lead": [
                calls(("transfer_to_agent", "a", {"agent_name": "one"})),
                calls(("transfer_to_agent", "b", {"agent_name": "two"})),
                says("done"),
            ],
            "one": [same, says("one done")],
            "two": [same, says("two done")],
        }
    )
    tree = Supervisor(
        name="lead", agents=tuple(Chat(name=name, tools=(delete.spec,)) for name in ("one", "two"))
    )
    async with house(client, [delete], script) as h:
        run = await h.start(tree)
        [first] = await run.waiting(1)
        await run.decide(first.id, {"decision": "approve", "remember": "call"})

        async def second() -> bool:
            return [each.id for each in await run.pending()] == ["lead>two>delete:d"]

        await eventually(second, "the other agent's call waits")
        await run.reject("lead>two>delete:d")
        await run.result()
        assert gone == [1]


async def test_only_what_exists_can_be_remembered(client: Client) -> None:
    """B149"""
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent, interrupt_before=("pay",))
        await run.waiting(1)
        for scope in ("session", "forever", "", True, ["call"]):
            bad = {"targets": {"bank>pay:p1": {"decision": "approve", "remember": scope}}}
            assert "remember" in await refused(run, "update", "resume", bad), json.dumps(scope)
        # A breakpoint has nothing to remember.
        bad = {"targets": {"bank>pay:p1": {"decision": "approve", "remember": "call"}}}
        assert "remember" in await refused(run, "update", "resume", bad)
        await run.approve("bank>pay:p1")

        async def gate() -> bool:
            return [each.id for each in await run.pending()] == ["bank>pay:p1~2"]

        await eventually(gate, "the gate after the breakpoint")
        await run.decide("bank>pay:p1~2", {"decision": "approve", "remember": "call"})
        await run.result()
        assert effects.done == [("pay", 1)]


async def test_a_remembered_approval_is_of_its_gate_alone(client: Client) -> None:
    """B149: the same activity with the same arguments under another gate asks all the same"""
    done: list[int] = []

    @tool(approval=True)
    def act(n: int) -> str:
        done.append(n)
        return "acted"

    stricter = act.spec.model_copy(update={"name": "act_big", "activity": "act", "gate": Gate(kind="review")})
    script = [calls(("act", "a", {"n": 1})), calls(("act_big", "b", {"n": 1})), says("done")]
    async with house(client, [act], script) as h:
        run = await h.start(Chat(name="lead", tools=(act.spec, stricter)))
        await run.waiting(1)
        await run.decide("lead>act:a", {"decision": "approve", "remember": "call"})

        async def asks() -> bool:
            return [each.id for each in await run.pending()] == ["lead>act_big:b"]

        await eventually(asks, "the other gate")
        assert done == [1]
        await run.reject("lead>act_big:b")
        await run.result()
        assert done == [1]


async def test_deny_beats_a_remembered_approval(client: Client) -> None:
    """B149: where an approval of the same call is remembered elsewhere"""
    done: list[int] = []

    @tool(approval=True)
    def act(n: Annotated[int, Field(ge=0)]) -> str:
        done.append(n)
        return "acted"

    script = by_agent(
        {
            "lead": [
                calls(("act", "a", {"n": 1})),
                calls(("guarded", "g", {"request": "act"})),
                says("done"),
            ],
            "guarded": [calls(("act", "a", {"n": 1})), says("could not")],
        }
    )
    guarded = Chat(name="guarded", tools=(act.spec,), gates={"act": Gate(kind="deny", reason="not here")})
    async with house(client, [act], script) as h:
        run = await h.start(Chat(name="lead", tools=(act.spec,), agents=(guarded,)))
        [waiting] = await run.waiting(1)
        await run.decide(waiting.id, {"decision": "approve", "remember": "call"})
        await run.result()
        assert done == [1]
        assert "not here" in told(h, agent="guarded")["a"]
