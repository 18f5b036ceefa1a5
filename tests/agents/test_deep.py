"""Deep agents: tasks for sub-agents, a list of things to do, questions from below."""

from typing import Any

from temporalio.client import Client

import client as verbs
from protocol import texts
from protocol.agents import GENERAL_PURPOSE, Chat, Deep, follow_up
from protocol.interrupts import FollowUp
from tests.agents.hands import Hands, by_address, contents, ids, told
from tests.kit import Run, calls, eventually, house, says

PAY: Any = {"to": "B", "amount": 5}


def task(id: str, agent: str, description: str = "work") -> tuple[str, str, Any]:
    return ("task", id, {"subagent_type": agent, "description": description})


async def test_tasks_of_one_reply_run_at_once_and_a_question_holds_only_its_own(client: Client) -> None:
    """B094 C147 P029: the row shows the question and the path; the answer goes on with that researcher alone."""
    script = by_address(
        {
            "lead": [
                calls(task("t1", "researcher", "tech"), task("t2", "researcher", "oil")),
                says("both known"),
            ],
            "lead>researcher": [
                calls(("follow_up", "q1", {"questions": ["Which sector?", "Which year?"]})),
                says("tech 2025"),
            ],
            "lead>researcher#2": [says("oil is oil")],
        }
    )
    lead = Deep(name="lead", agents=(Chat(name="researcher", tools=(follow_up(),)),))
    async with house(client, [], script) as h:
        run = await h.start(lead, "research")
        [waiting] = await run.waiting(1)

        async def second_is_done() -> bool:
            return len(h.model.requests("researcher")) == 2

        await eventually(second_is_done, "the other researcher")
        assert waiting.id == "lead>researcher>follow_up:q1"
        assert waiting.owner == "lead>researcher"
        assert isinstance(waiting.question, FollowUp)
        assert waiting.question.questions == ("Which sector?", "Which year?")
        assert waiting.task == "research"
        assert len(h.model.requests("lead")) == 1
        await run.decide(waiting.id, {"decision": "answer", "answers": ["tech", "2025"]})
        result = await run.result()
        await run.replay()
    assert [prompt.agent for prompt in h.model.prompts].count("lead>researcher#2") == 1
    assert told(h.model.requests("researcher")[-1]) == {"q1": "Which sector? tech\nWhich year? 2025"}
    assert told(result.transcript) == {"t1": "tech 2025", "t2": "oil is oil"}
    assert contents(h.model.prompts[1].messages) in (["tech"], ["oil"])


async def test_an_unknown_sub_agent_or_tool_is_told_and_is_not_the_end(client: Client) -> None:
    """C147: the model reads who exists; the other task of the reply is done."""
    script = by_address(
        {
            "lead": [calls(task("t1", "nobody"), task("t2", "a"), ("seek", "s1", {})), says("fine")],
            "lead>a": [says("A")],
        }
    )
    async with house(client, [], script) as h:
        result = await (await h.start(Deep(name="lead", agents=(Chat(name="a"),)))).result()
    assert result.answer == "fine"
    assert told(result.transcript) == {
        "t1": texts.unknown_agent("nobody", ["a", GENERAL_PURPOSE]),
        "t2": "A",
        "s1": texts.unknown_tool("seek", ["write_todos", "task"]),
    }


async def test_the_list_of_things_to_do_is_echoed(client: Client) -> None:
    """C143"""
    todos = [{"content": "研究", "status": "pending"}]
    async with house(client, [], [calls(("write_todos", "w", {"todos": todos})), says("listed")]) as h:
        result = await (await h.start(Deep(name="lead"))).result()
    assert told(result.transcript)["w"] == 'Updated todo list to [{"content":"研究","status":"pending"}]'


async def test_the_general_purpose_agent_has_the_same_tools_and_gates(client: Client) -> None:
    """It is included by default, asks under its own address, and cannot hand on tasks."""
    hands = Hands()
    script = by_address(
        {
            "lead": [calls(task("t1", GENERAL_PURPOSE, "pay")), says("done")],
            f"lead>{GENERAL_PURPOSE}": [calls(("pay", "p", PAY)), says("paid")],
        }
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(Deep(name="lead", instructions="Be brief.", tools=hands.specs))
        assert await ids(run, 1) == [f"lead>{GENERAL_PURPOSE}>pay:p"]
        await run.approve(f"lead>{GENERAL_PURPOSE}>pay:p")
        await run.result()
    inner = next(prompt for prompt in h.model.prompts if prompt.agent.endswith(GENERAL_PURPOSE))
    assert inner.instructions == "Be brief."
    assert [offer.name for offer in inner.offers] == ["look", "pay", "book", "boom"]


async def test_without_anybody_to_hand_a_task_to_none_is_offered(client: Client) -> None:
    async with house(client, [], [says("alone")]) as h:
        await (await h.start(Deep(name="lead", general_purpose=False))).result()
    assert [offer.name for offer in h.model.prompts[0].offers] == ["write_todos"]


async def test_every_view_counts_all_that_waits(client: Client) -> None:
    """B011: three gated calls and one in a sub-agent of the same reply; then two decisions."""
    hands = Hands()
    pays = [("pay", f"p{n}", PAY) for n in range(3)]
    script = by_address(
        {
            "lead_b011": [calls(*pays, task("t1", "clerk")), says("done")],
            "lead_b011>clerk": [calls(("pay", "p0", PAY)), says("paid")],
        }
    )
    lead = Deep(name="lead_b011", tools=hands.specs, agents=(Chat(name="clerk", tools=hands.specs),))
    door = verbs.Client(client)

    async def counted(run: Run, left: int) -> bool:
        row = next((row for row in (await door.inbox(agent="lead_b011")).rows if row.id == run.id), None)
        page = await door.pending(run.id)
        return row is not None and (row.count, len(row.ids), page.count) == (left, left, left)

    async with house(client, hands.all, script) as h:
        run = await h.start(lead)
        waiting = await ids(run, 4)
        await eventually(lambda: counted(run, 4), "4 in every view")
        await run.update("resume", {"targets": {id: {"decision": "reject"} for id in waiting[:2]}})
        await eventually(lambda: counted(run, 2), "2 in every view")
        await run.update("resume", {"all": {"decision": "reject"}})
        await run.result()
