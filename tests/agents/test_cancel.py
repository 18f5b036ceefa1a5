"""Cancelling, anywhere: what was done is kept, what was asked is closed, and the conversation stays valid."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from activities.model import Prompt
from activities.tools import CompositeInterrupt, FunctionTool, tool
from protocol import texts
from protocol.agents import (
    AnyAgent,
    Chat,
    Deep,
    Loop,
    Parallel,
    PlanExecute,
    Review,
    Sequential,
    Step,
    Supervisor,
)
from protocol.messages import Reply
from protocol.run import RunResult
from protocol.views import Listed
from scenarios import SCENARIOS
from tests.agents.hands import Hands, by_address, told
from tests.kit import House, Run, calls, eventually, house, says

PAY: Any = {"to": "B", "amount": 5}


class Held(Hands):
    """Hands with a tool that is in flight until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

        @tool
        async def slow() -> str:
            self.begun.set()
            await self.go.wait()
            self.ran.append("slow")
            return "slowly done"

        self.slow = slow

    @property
    def all(self) -> list[FunctionTool]:
        return [*super().all, self.slow]


class Hanging:
    """A model that never replies to an agent of a given name, and reads from a script for the others."""

    def __init__(self, name: str, script: Any) -> None:
        self.name, self.script = name, script
        self.asked = asyncio.Event()

    async def complete(self, prompt: Prompt) -> Reply:
        if prompt.agent.endswith(self.name):
            self.asked.set()
            await asyncio.Event().wait()
        reply: Reply = self.script(prompt)
        return reply


async def cancelled(run: Run) -> RunResult:
    """The result of a cancelled run, after what holds for every one of them was checked."""
    result = await run.result()
    assert result.status == "cancelled"
    described = await run.handle.describe()
    assert described.status == WorkflowExecutionStatus.COMPLETED
    told(result.transcript)
    for agent in (await run.tree()).agents:
        told((await run.transcript(agent=agent.address)).messages)
    assert await run.pending() == []
    await run.replay()
    return result


async def test_a_cancelled_run_keeps_what_was_done_and_closes_what_was_asked(client: Client) -> None:
    """C159 C151: it completes with status cancelled, also if nobody ever decides; the calls have their messages."""
    hands = Hands()
    script = [
        calls(("look", "l1", {"what": "it"}), ("pay", "p1", PAY), ("book", "b1", {"what": "x", "date": "y"}))
    ]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        await run.waiting(2)
        await looked(hands)
        await run.handle.cancel()
        result = await cancelled(run)
    assert told(result.transcript) == {"l1": "looked at it", "p1": texts.CANCELLED, "b1": texts.CANCELLED}
    assert [(entry.id, entry.outcome, entry.by) for entry in result.audit.closed] == [
        ("bank>pay:p1", "cancelled", None),
        ("bank>book:b1", "cancelled", None),
    ]
    assert hands.ran == ["look it"]
    assert len(h.model.prompts) == 1


async def test_a_tool_in_flight_comes_home(client: Client) -> None:
    """C156: an effect that has begun is waited for, runs once, and its result is told."""
    hands = Held()
    script = [calls(("slow", "s1", {}), ("pay", "p1", PAY)), says("never")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=(hands.slow.spec, hands.pay.spec)))
        await run.waiting(1)
        await hands.begun.wait()
        await run.handle.cancel()
        await closed(run)
        hands.go.set()
        result = await cancelled(run)
    assert told(result.transcript) == {"s1": "slowly done", "p1": texts.CANCELLED}
    assert hands.ran == ["slow"]
    assert len(h.model.prompts) == 1


async def test_a_tool_in_flight_comes_home_though_a_model_beside_it_is_cut_off(client: Client) -> None:
    """Branches: the model call of one is cancelled at once, the tool of the other is still waited for."""
    hands = Held()
    script = by_address({"fan>works": [calls(("slow", "s1", {}))]})
    model = Hanging("thinks", script)
    fan = Parallel(name="fan", children=(Chat(name="thinks"), Chat(name="works", tools=(hands.slow.spec,))))
    async with house(client, hands.all, model=model) as h:
        run = await h.start(fan)
        await asyncio.gather(model.asked.wait(), hands.begun.wait())
        await run.handle.cancel()
        await not_over(run)
        hands.go.set()
        result = await cancelled(run)
    assert result.answer == "cancelled\n\nDone before that:\n- fan>works>slow:s1: slowly done"


async def test_a_model_call_in_flight_is_cut_off(client: Client) -> None:
    """P031: nobody will hear its reply, so nobody waits for it; what earlier turns gave is kept."""
    hands = Hands()
    fixed = by_address({"bank": [calls(("look", "l1", {"what": "it"}))]})

    class Second(Hanging):
        async def complete(self, prompt: Prompt) -> Reply:
            if len(prompt.messages) > 1:
                self.asked.set()
                await asyncio.Event().wait()
            reply: Reply = self.script(prompt)
            return reply

    model = Second("", fixed)
    async with house(client, hands.all, model=model) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        await model.asked.wait()
        await run.handle.cancel()
        result = await cancelled(run)
    assert told(result.transcript) == {"l1": "looked at it"}


async def test_a_tool_that_comes_home_with_a_question_leaves_none_open(client: Client) -> None:
    held = Held()

    @tool
    async def asks() -> str:
        held.begun.set()
        await held.go.wait()
        raise CompositeInterrupt("which?", None, parts={"a": 1, "b": 2})

    async with house(client, [asks], [calls(("asks", "a1", {}))]) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        await held.begun.wait()
        await run.handle.cancel()
        await not_over(run)
        held.go.set()
        result = await cancelled(run)
    assert [(entry.id, entry.outcome) for entry in result.audit.closed] == [
        ("bank>asks:a1>a", "cancelled"),
        ("bank>asks:a1>b", "cancelled"),
    ]


async def test_a_decision_that_was_accepted_before_the_cancel_stays_on_record(client: Client) -> None:
    """C162: an approved call that had begun is finished and told; the reply that asked for it is not lost."""
    hands = Held()
    slow = hands.slow.spec.model_copy(update={"gate": hands.pay.spec.gate})
    async with house(client, hands.all, [calls(("slow", "s1", {}), text="I need this")]) as h:
        run = await h.start(Chat(name="bank", tools=(slow,)))
        [waiting] = await run.waiting(1)
        await run.approve(waiting.id, by="lee")
        await hands.begun.wait()
        await run.handle.cancel()
        await not_over(run)
        hands.go.set()
        result = await cancelled(run)
    assert told(result.transcript) == {"s1": "slowly done"}
    assert result.transcript[1].content == "I need this"
    assert [(entry.outcome, entry.by) for entry in result.audit.closed] == [("approved", "lee")]


async def test_a_run_that_is_over_cannot_be_cancelled_any_more(client: Client) -> None:
    """C152: its result stays what it was."""
    async with house(client, [], [says("done")]) as h:
        run = await h.start(Chat(name="bank"))
        before = await run.result()
        await run.handle.cancel()
        assert await run.result() == before
    assert before.status == "completed"


async def test_a_run_cancelled_before_it_starts_does_nothing(client: Client) -> None:
    """C151 P032 C168: no model or tool call; a result all the same."""
    async with house(client, []) as h:
        pass
    fan = Parallel(name="fan", children=(Chat(name="a"), Chat(name="b")))
    run = await h.start(fan)
    await run.handle.cancel()
    async with house(client, [], [says("never")], queue=h.queue) as second:
        result = await cancelled(run)
    assert result.answer == "cancelled"
    assert second.model.prompts == []


HANDS = Hands()
WAITS = [calls(("pay", "p1", PAY)), says("never")]
PLAN = [calls(("plan", "plan1", {"steps": ["pay", "rest"]}))]
MONEY = Chat(name="money", tools=(HANDS.pay.spec,))
FREE = Chat(name="free")

# A tree, what its agents say until somebody waits, and what a cancelled run has to keep.
TREES: dict[str, tuple[AnyAgent, dict[str, list[Reply]], str]] = {
    "chat": (Chat(name="r", agents=(MONEY,)), {"r": [calls(("money", "t", {"request": "x"}))]}, "cancelled"),
    "sequential": (
        Sequential(name="r", children=(FREE, MONEY)),
        {"r>free": [says("FREE")]},
        "cancelled\n\nDone before that:\n- r>free: FREE",
    ),
    "step": (
        Sequential(name="r", children=(FREE, Step(name="money", tool=HANDS.pay.spec, arguments=PAY))),
        {"r>free": [says("FREE")]},
        "cancelled\n\nDone before that:\n- r>free: FREE",
    ),
    "parallel": (
        Parallel(name="r", children=(FREE, MONEY)),
        {"r>free": [says("FREE")]},
        "cancelled\n\nDone before that:\n- r>free: FREE",
    ),
    "parallel of steps": (
        Parallel(
            name="r",
            children=(FREE, Step(name="money", tool=HANDS.pay.spec, arguments=PAY)),
        ),
        {"r>free": [says("FREE")]},
        "cancelled\n\nDone before that:\n- r>free: FREE",
    ),
    "loop": (
        Loop(name="r", children=(FREE, Review(name="money"))),
        {"r>free": [says("FREE")]},
        "cancelled\n\nDone before that:\n- r>free: FREE",
    ),
    "supervisor": (
        Supervisor(name="r", agents=(MONEY,)),
        {"r": [calls(("transfer_to_agent", "t", {"agent_name": "money"}))]},
        "cancelled",
    ),
    "deep": (
        Deep(name="r", agents=(MONEY,)),
        {"r": [calls(("task", "t", {"subagent_type": "money", "description": "x"}))]},
        "cancelled",
    ),
    "plan_execute": (
        PlanExecute(name="r", planner=Chat(name="planner"), executor=MONEY, replanner=Chat(name="replanner")),
        {"r>planner": PLAN},
        'cancelled\n\nDone before that:\n- r>planner: plan {"steps":["pay","rest"]}',
    ),
}


@pytest.mark.parametrize("kind", TREES)
async def test_every_kind_of_agent_can_be_cancelled_while_it_waits(client: Client, kind: str) -> None:
    """C140 C163: cancelling reaches what is below by itself, whatever the root is."""
    tree, scripts, answer = TREES[kind]
    script = by_address({"r>money": WAITS, **scripts})
    async with house(client, HANDS.all, script) as h:
        run = await h.start(tree)
        [waiting] = await run.waiting(1)
        await everybody_spoke(h, scripts)
        await run.handle.cancel()
        result = await cancelled(run)
    assert [(entry.id, entry.outcome) for entry in result.audit.closed] == [(waiting.id, "cancelled")]
    assert result.answer == answer
    assert set(told(result.transcript).values()) <= {texts.cancelled_below("money")}
    assert HANDS.ran == []


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_scenario_can_be_cancelled_at_its_first_question(client: Client, name: str) -> None:
    scenario = SCENARIOS[name]
    async with house(client, scenario.tools, scenario.script) as h:
        run = await h.start_json(scenario.request(provider=""))
        waiting = await eventually(lambda: asked(run), "a question")
        await run.handle.cancel()
        result = await cancelled(run)
    assert {entry.id for entry in result.audit.closed} >= {listed.id for listed in waiting}
    assert {entry.outcome for entry in result.audit.closed} == {"cancelled"}


async def test_what_a_sub_agent_had_done_is_kept(client: Client) -> None:
    """Its conversation ends with the run, so its finished calls stand in the run's answer."""
    hands = Hands()
    script = by_address(
        {
            "lead": [calls(("helper", "h1", {"request": "x"}))],
            "lead>helper": [calls(("look", "l1", {"what": "it"})), calls(("pay", "p1", PAY))],
        }
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="lead", agents=(Chat(name="helper", tools=hands.specs),)))
        await run.waiting(1)
        await run.handle.cancel(reason="no budget")
        result = await cancelled(run)
    assert told(result.transcript) == {"h1": texts.cancelled_below("helper")}
    assert result.answer == "cancelled: no budget\n\nDone before that:\n- lead>helper>look:l1: looked at it"


async def test_a_conversation_can_be_cancelled_between_two_messages(client: Client) -> None:
    async with house(client, [], [says("hello")]) as h:
        run = await h.start(Chat(name="bank"), "hi", chat=True)

        async def answered() -> bool:
            return (await run.transcript()).length == 2

        await eventually(answered, "the first answer")
        await run.handle.cancel()
        result = await cancelled(run)
    assert [message.content for message in result.transcript] == ["hi", "hello"]


async def test_a_withdrawn_call_is_answered_and_its_sibling_runs(client: Client) -> None:
    """B103: the history stays valid, the withdrawn call does not run, the conversation goes on."""
    hands = Hands()
    script = [calls(("pay", "p1", PAY), ("pay", "p2", PAY)), says("one of two")]
    async with house(client, hands.all, script) as h:
        run = await h.start(Chat(name="bank", tools=hands.specs))
        await run.waiting(2)
        await run.update("withdraw", {"target": "bank>pay:p1", "reason": "not needed"})
        await run.approve("bank>pay:p2")
        result = await run.result()
        await run.replay()
    assert told(h.model.prompts[1].messages) == {
        "p1": texts.withdrawn("pay", "not needed"),
        "p2": "paid 5 to B",
    }
    assert (result.answer, hands.ran) == ("one of two", ["pay B 5"])


# ------------------------------------------------------------------------------------------ waiting for it


async def asked(run: Run) -> list[Listed] | None:
    return await run.pending() or None


async def looked(hands: Hands) -> None:
    async def ran() -> bool:
        return bool(hands.ran)

    await eventually(ran, "the first tool's effect")


async def closed(run: Run) -> None:
    """Wait until the cancel was heard: nothing is open any more."""

    async def nothing_waits() -> bool:
        return not await run.pending()

    await eventually(nothing_waits, "the cancel")


async def not_over(run: Run) -> None:
    """Wait until the cancel was taken by a workflow task that completed, and see that the run goes on."""

    async def heard() -> bool:
        events = (await run.history()).events
        request = [
            e.event_id for e in events if e.HasField("workflow_execution_cancel_requested_event_attributes")
        ]
        done = [e.event_id for e in events if e.HasField("workflow_task_completed_event_attributes")]
        return bool(request) and done[-1] > request[0]

    await eventually(heard, "the cancel")
    assert (await run.handle.describe()).status == WorkflowExecutionStatus.RUNNING


async def everybody_spoke(h: House, scripts: dict[str, list[Reply]]) -> None:
    async def spoke() -> bool:
        return {*scripts} <= {prompt.agent for prompt in h.model.prompts}

    await eventually(spoke, "everybody's words")
