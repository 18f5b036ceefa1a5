"""Sequences of agents and steps on one conversation, and what ends them."""

from typing import Any

import pytest
from temporalio.client import Client

from activities.tools import tool
from protocol import texts
from protocol.agents import AnyAgent, Chat, Deadline, Gate, Loop, Review, Sequential, Step
from tests.agents.hands import Hands, by_address, contents, ids, told
from tests.kit import Run, calls, house, says

PAY: Any = {"to": "B", "amount": 5}
PAID = {"to": "B", "amount": 5}


async def test_every_agent_of_a_sequence_runs_once_around_its_waits(client: Client) -> None:
    """B120 C072 C107: planner and executor wait once each, the validator runs, nothing is asked or done again."""
    hands = Hands()
    waits = [calls(("pay", "p1", PAY)), says("agreed")]
    script = by_address({"flow>planner": waits, "flow>executor": waits, "flow>validator": [says("valid")]})
    children = tuple(Chat(name=name, tools=hands.specs) for name in ("planner", "executor", "validator"))
    async with house(client, hands.all, script) as h:
        run = await h.start(Sequential(name="flow", children=children))
        assert await ids(run, 1) == ["flow>planner>pay:p1"]
        await run.approve("flow>planner>pay:p1")
        assert await ids(run, 1) == ["flow>executor>pay:p1"]
        await run.approve("flow>executor>pay:p1")
        result = await run.result()
        await run.replay()
    assert (result.status, result.answer) == ("completed", "valid")
    assert [prompt.agent for prompt in h.model.prompts] == [
        "flow>planner",
        "flow>planner",
        "flow>executor",
        "flow>executor",
        "flow>validator",
    ]
    assert contents(h.model.prompts[-1].messages) == ["do it", "[planner]: agreed", "[executor]: agreed"]
    assert hands.ran == ["pay B 5", "pay B 5"]


async def test_a_step_runs_a_tool_on_constants_and_on_the_previous_answer(client: Client) -> None:
    hands = Hands()
    script = by_address({"flow>writer": [says("a poem")], "flow>critic": [says("nice")]})
    flow = Sequential(
        name="flow",
        children=(
            Chat(name="writer"),
            Step(name="show", tool=hands.look.spec, input="what"),
            Step(name="pay_writer", tool=hands.pay.spec, arguments=PAID),
            Chat(name="critic"),
        ),
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(flow)
        [waiting] = await run.waiting(1)
        assert (waiting.id, waiting.question.kind) == ("flow>pay_writer", "approval")
        await run.approve(waiting.id)
        result = await run.result()
    assert hands.ran == ["look a poem", "pay B 5"]
    assert contents(h.model.prompts[-1].messages)[1:] == [
        "[writer]: a poem",
        "[show]: looked at a poem",
        "[pay_writer]: paid 5 to B",
    ]
    assert result.answer == "nice"


@pytest.mark.parametrize("breaks", ["interrupt_before", "interrupt_after"])
async def test_a_rejected_check_keeps_the_payment_from_starting(client: Client, breaks: str) -> None:
    """The node's own code does not change: a rejection ends the sequence, and no later child starts."""
    hands = Hands()
    flow = Sequential(
        name="bank",
        children=(
            Step(name="kyc", tool=hands.look.spec, arguments={"what": "passport"}),
            Step(name="payment", tool=hands.pay.spec, arguments=PAID),
        ),
    )
    async with house(client, hands.all) as h:
        stops: dict[str, Any] = {breaks: ("kyc",)}
        run = await h.start(flow, **stops)
        [waiting] = await run.waiting(1)
        assert waiting.id == "bank>kyc"
        await run.reject(waiting.id, "forged")
        result = await run.result()
        await run.replay()
    said = texts.disapproved if breaks == "interrupt_before" else texts.withheld
    assert (result.status, result.answer) == ("rejected", said("kyc", "forged"))
    assert hands.ran == ([] if breaks == "interrupt_before" else ["look passport"])


async def test_a_gated_step_that_is_rejected_ends_the_sequence(client: Client) -> None:
    hands = Hands()
    flow = Sequential(
        name="bank",
        children=(
            Step(name="payment", tool=hands.pay.spec, arguments=PAID),
            Step(name="receipt", tool=hands.look.spec, arguments={"what": "receipt"}),
        ),
    )
    async with house(client, hands.all) as h:
        run = await h.start(flow)
        await run.reject(*await ids(run, 1))
        assert (await run.result()).status == "rejected"
    assert hands.ran == []


async def test_a_node_may_say_in_writing_that_a_rejection_does_not_end_the_sequence(client: Client) -> None:
    hands = Hands()
    flow = Sequential(
        name="bank",
        children=(
            Step(name="kyc", tool=hands.look.spec, arguments={"what": "passport"}, on_reject="continue"),
            Step(name="receipt", tool=hands.look.spec, arguments={"what": "receipt"}),
        ),
    )
    async with house(client, hands.all) as h:
        run = await h.start(flow, interrupt_before=("kyc",))
        await run.reject(*await ids(run, 1))
        assert (await run.result()).status == "completed"
    assert hands.ran == ["look receipt"]


async def test_a_step_asks_before_by_its_gate_and_after_in_this_order(client: Client) -> None:
    """Each is an interrupt of its own at the step's address; the tool runs between the gate and the last one."""
    hands = Hands()
    async with house(client, hands.all) as h:
        run = await h.start(
            Sequential(name="bank", children=(Step(name="out", tool=hands.pay.spec, arguments=PAID),)),
            interrupt_before=("out",),
            interrupt_after=("bank>out",),
        )
        asked = []
        for ran in (0, 0, 1):
            [waiting] = await run.waiting(1)
            assert len(hands.ran) == ran
            asked.append((waiting.id, waiting.question.when, waiting.question.result))
            await run.approve(waiting.id)
        assert (await run.result()).answer == "paid 5 to B"
    assert asked == [
        ("bank>out", "before", None),
        ("bank>out~2", "gate", None),
        ("bank>out~3", "after", "paid 5 to B"),
    ]


async def test_a_failing_child_ends_the_sequence_with_status_failed(client: Client) -> None:
    """C113 C114: what comes after it does not start; the run fails and carries its result."""
    hands = Hands()
    flow = Sequential(
        name="flow",
        children=(
            Step(name="bad", tool=hands.boom.spec),
            Step(name="later", tool=hands.look.spec, arguments={"what": "it"}),
        ),
    )
    async with house(client, hands.all) as h:
        run = await h.start(flow)
        result = await run.result()
    assert result.status == "failed"
    assert "db down" in result.answer
    assert hands.ran == ["boom"]


async def test_a_step_whose_input_does_not_fit_fails_before_anybody_is_asked(client: Client) -> None:
    @tool(approval=True)
    def count(many: int) -> str:
        raise AssertionError("it must not run")

    flow = Sequential(
        name="flow", children=(Chat(name="writer"), Step(name="count", tool=count.spec, input="many"))
    )
    async with house(client, [count], [says("several")]) as h:
        result = await (await h.start(flow)).result()
    assert result.status == "failed"
    assert result.answer.startswith("The arguments of 'count' cannot be used")
    assert not result.audit.closed


@pytest.mark.parametrize(
    ("on_expiry", "status", "ran"),
    [("reject", "rejected", 0), ("approve", "completed", 1), ("fail", "failed", 0)],
)
async def test_a_deadline_ends_a_step_as_it_says(
    client: Client, on_expiry: Any, status: str, ran: int
) -> None:
    hands = Hands()
    gate = Gate(kind="approval", deadline=Deadline(after=0.3, on_expiry=on_expiry))
    step = Step(name="out", tool=hands.pay.spec.model_copy(update={"gate": gate}), arguments=PAID)
    async with house(client, hands.all) as h:
        result = await (await h.start(Sequential(name="bank", children=(step,)))).result()
    assert (result.status, len(hands.ran)) == (status, ran)
    assert [entry.outcome for entry in result.audit.closed] == ["expired"]


def the_nested_tree(hands: Hands) -> AnyAgent:
    """A step, below a loop, below a sequence, below an agent that is a tool of the root."""
    pay = Step(name="out", tool=hands.pay.spec, arguments=PAID)
    loop = Loop(name="twice", children=(pay, Review(name="enough")), max_rounds=3)
    return Chat(
        name="root",
        agents=(Sequential(name="line", children=(Chat(name="opening"), loop)),),
        tools=hands.specs,
    )


async def test_an_interrupt_at_any_depth_has_its_full_path_with_visits(client: Client) -> None:
    """C042 C043 C073 C094: each level goes on exactly where it stood, and a second round has addresses of its own."""
    hands = Hands()
    script = by_address(
        {"root": [calls(("line", "l", {"request": "go"})), says("done")], "root>line>opening": [says("open")]}
    )
    async with house(client, hands.all, script, max_cached_workflows=0) as h:
        run = await h.start(the_nested_tree(hands))
        await approve_in_turn(
            run,
            [
                ("root>line>twice>out", {"decision": "approve"}),
                ("root>line>twice>enough", {"decision": "revise", "feedback": "again"}),
                ("root>line>twice>out#2", {"decision": "approve"}),
                ("root>line>twice>enough#2", {"decision": "accept"}),
            ],
        )
        result = await run.result()
    assert told(result.transcript) == {"l": "paid 5 to B"}
    assert hands.ran == ["pay B 5", "pay B 5"]
    assert len(h.model.requests("opening")) == 1


async def approve_in_turn(run: Run, decisions: list[tuple[str, dict[str, str]]]) -> None:
    """Decide one question after the other; each must be the only one open, under the id given."""
    for id, decision in decisions:
        assert await ids(run, 1) == [id]
        await run.decide(id, decision)
