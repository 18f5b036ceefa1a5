"""Supervisors: whatever happens below, control comes back with an answer."""

from typing import Any

import pytest
from temporalio.client import Client

from protocol import texts
from protocol.agents import Chat, Loop, Parallel, PlanExecute, Review, Sequential, Step, Supervisor
from protocol.messages import Reply
from scenarios import SCENARIOS
from tests.agents.hands import Hands, by_address, contents, ids, told
from tests.kit import calls, eventually, house, says

PAY: Any = {"to": "B", "amount": 5}


def transfers(*agents: str, request: str = "") -> Reply:
    """A reply of transfers, one per agent."""
    more = {"request": request} if request else {}
    return calls(
        *(("transfer_to_agent", f"t{n}", {"agent_name": name, **more}) for n, name in enumerate(agents, 1))
    )


async def test_control_comes_back_after_every_agent_also_after_a_question(client: Client) -> None:
    """C077 C089 C104 C120 C123 C124 C127 P035: a transfer is answered by the agent's last words."""
    hands = Hands()
    script = by_address(
        {
            "boss": [transfers("a"), transfers("b", request="now pay"), says("balance known, payment made")],
            "boss>a": [calls(("look", "l", {"what": "balance"})), says("the balance is 5")],
            "boss>b": [calls(("pay", "p", PAY)), says("paid")],
        }
    )
    agents = (Chat(name="a", description="Knows.", tools=hands.specs), Chat(name="b", tools=hands.specs))
    async with house(client, hands.all, script) as h:
        run = await h.start(Supervisor(name="boss", agents=agents), "look, then pay")
        assert await ids(run, 1) == ["boss>b>pay:p"]
        assert len(h.model.requests("boss")) == 2
        await run.approve("boss>b>pay:p")
        result = await run.result()
        await run.replay()
    assert result.answer == "balance known, payment made"
    assert [prompt.agent for prompt in h.model.prompts] == [
        "boss",
        "boss>a",
        "boss>a",
        "boss",
        "boss>b",
        "boss>b",
        "boss",
    ]
    assert told(result.transcript) == {"t1": "the balance is 5", "call_2": "paid"}
    assert contents(h.model.requests("b")[0]) == ["look, then pay", "[a]: the balance is 5", "now pay"]
    assert [offer.name for offer in h.model.prompts[0].offers] == ["transfer_to_agent"]
    assert "- a: Knows.\n- b" in h.model.prompts[0].offers[0].description


async def test_several_transfers_in_one_reply_are_all_carried_out(client: Client) -> None:
    """At once, each under its own address, also two to one agent; one that waits holds no other."""
    hands = Hands()
    script = by_address(
        {
            "boss": [transfers("a", "b", "a"), says("all three")],
            "boss>a": [calls(("pay", "p", PAY)), says("A1")],
            "boss>a#2": [calls(("pay", "p", PAY)), says("A2")],
            "boss>b": [says("B")],
        }
    )
    agents = (Chat(name="a", tools=hands.specs), Chat(name="b"))
    async with house(client, hands.all, script) as h:
        run = await h.start(Supervisor(name="boss", agents=agents))
        assert sorted(await ids(run, 2)) == ["boss>a#2>pay:p", "boss>a>pay:p"]

        async def b_spoke() -> bool:
            return bool(h.model.requests("b"))

        await eventually(b_spoke, "the answer of b")
        await run.reject("boss>a#2>pay:p")
        await run.approve("boss>a>pay:p")
        result = await run.result()
    assert told(result.transcript) == {"t1": "A1", "t2": "B", "t3": "A2"}
    assert (hands.ran, len(h.model.requests("boss"))) == (["pay B 5"], 2)


async def test_an_unknown_agent_is_told_and_is_not_the_end(client: Client) -> None:
    """P018: the supervisor reads who exists and goes on."""
    script = by_address({"boss": [transfers("nobody", "a"), says("fine")], "boss>a": [says("A")]})
    async with house(client, [], script) as h:
        run = await h.start(Supervisor(name="boss", agents=(Chat(name="a"),)))
        result = await run.result()
    assert (result.status, result.answer) == ("completed", "fine")
    assert told(result.transcript) == {"t1": texts.unknown_agent("nobody", ["a"]), "t2": "A"}


SUBS: dict[str, tuple[Any, dict[str, list[Reply]], str, dict[str, Any], str]] = {
    "plan_execute": (
        PlanExecute(
            name="sub",
            planner=Chat(name="planner"),
            executor=Chat(name="executor", tools=(Hands().pay.spec,)),
            replanner=Chat(name="replanner"),
        ),
        {
            "boss>sub>planner": [calls(("plan", "x", {"steps": ["pay"]}))],
            "boss>sub>executor": [calls(("pay", "p", PAY)), says("paid")],
            "boss>sub>replanner": [calls(("respond", "x", {"response": "the plan is done"}))],
        },
        "boss>sub>executor>pay:p",
        {"decision": "approve"},
        "the plan is done",
    ),
    "loop": (
        Loop(name="sub", children=(Chat(name="writer"), Review(name="reviewer"))),
        {"boss>sub>writer": [says("a poem")]},
        "boss>sub>reviewer",
        {"decision": "accept"},
        "a poem",
    ),
    "sequential": (
        Sequential(
            name="sub", children=(Chat(name="first"), Step(name="out", tool=Hands().pay.spec, arguments=PAY))
        ),
        {"boss>sub>first": [says("first")]},
        "boss>sub>out",
        {"decision": "approve"},
        "paid 5 to B",
    ),
    "parallel": (
        Parallel(
            name="sub", children=(Chat(name="first"), Step(name="out", tool=Hands().pay.spec, arguments=PAY))
        ),
        {"boss>sub>first": [says("first")]},
        "boss>sub>out",
        {"decision": "approve"},
        "[first]: first\n\n[out]: paid 5 to B",
    ),
    "supervisor": (
        Supervisor(name="sub", agents=(Chat(name="money", tools=(Hands().pay.spec,)),)),
        {
            "boss>sub": [transfers("money"), says("my agent paid")],
            "boss>sub>money": [calls(("pay", "p", PAY)), says("paid")],
        },
        "boss>sub>money>pay:p",
        {"decision": "approve"},
        "my agent paid",
    ),
}


@pytest.mark.parametrize("kind", SUBS)
async def test_control_comes_back_whatever_the_agent_is(client: Client, kind: str) -> None:
    """P025 P026 P027 C128 C132 C139: nothing below starts over, the approval is not lost, the supervisor sums up."""
    sub, scripts, asked, decision, answer = SUBS[kind]
    hands = Hands()
    script = by_address({"boss": [transfers("sub"), says("summary")], **scripts})
    async with house(client, hands.all, script, max_cached_workflows=0) as h:
        run = await h.start(Supervisor(name="boss", agents=(sub,)))
        [waiting] = await run.waiting(1)
        assert waiting.id == asked
        await run.decide(waiting.id, decision)
        result = await run.result()
    assert result.answer == "summary"
    assert told(result.transcript) == {"t1": answer}
    assert h.model.prompts[-1].agent == "boss"
    assert len(hands.ran) == (0 if kind == "loop" else 1)
    spoken = [prompt.agent for prompt in h.model.prompts]
    said = {address: spoken.count(address) for address in scripts}
    assert said == {address: len(replies) for address, replies in scripts.items()}


async def test_a_rejection_below_comes_up_as_text(client: Client) -> None:
    hands = Hands()
    step = Step(name="out", tool=hands.pay.spec, arguments=PAY)
    script = by_address({"boss": [transfers("sub"), says("not paid, then")]})
    async with house(client, hands.all, script) as h:
        run = await h.start(Supervisor(name="boss", agents=(Sequential(name="sub", children=(step,)),)))
        [asked] = await ids(run, 1)
        await run.reject(asked, "too dear")
        result = await run.result()
    assert result.status == "completed"
    assert told(result.transcript)["t1"] == f"agent 'sub' rejected: {texts.disapproved('pay', 'too dear')}"


async def test_the_nested_pattern_goes_on_with_a_new_worker(client: Client) -> None:
    """B064: three levels down; after the decision the replanner and the supervisor have their turns."""
    scenario = SCENARIOS["nested"]
    async with house(client, scenario.tools, scenario.script) as h:
        run = await h.start_json(scenario.request(provider=""))
        [waiting] = await run.waiting(1)
        assert waiting.id == "pm_supervisor>project_execution_agent>executor#3>allocate_budget:call_1"
    async with house(client, scenario.tools, scenario.script, queue=h.queue) as second:
        assert await run.waiting(1) == [waiting]
        await run.approve(waiting.id)
        result = await run.result()
        await run.replay()
    assert result.status == "completed"
    spoken = [prompt.agent.rpartition(">")[2].partition("#")[0] for prompt in second.model.prompts]
    assert spoken[:2] == ["executor", "replanner"]
    assert spoken[-1] == "pm_supervisor"
    allocated = [entry for entry in result.audit.closed if entry.tool == "allocate_budget"]
    assert [entry.outcome for entry in allocated] == ["approved"]
    scheduled = [event.activity_task_scheduled_event_attributes for event in (await run.history()).events]
    assert [each.activity_type.name for each in scheduled].count("allocate_budget") == 1
