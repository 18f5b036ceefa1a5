"""Plans: what the planner, the executor and the replanner hear, and where it ends."""

from typing import Any

import pytest
from temporalio.client import Client

from activities.scripted_model import Prompt
from protocol import texts
from protocol.agents import Chat, PlanExecute
from protocol.messages import Reply
from tests.agents.hands import Hands, by_address, contents, ids
from tests.kit import calls, house, says

BOOK: Any = {"what": "flight", "date": "15"}


def planner(hands: Hands, **more: Any) -> PlanExecute:
    return PlanExecute(
        name="trip",
        planner=Chat(name="planner"),
        executor=Chat(name="executor", tools=hands.specs),
        replanner=Chat(name="replanner"),
        **more,
    )


def plan(*steps: str) -> Reply:
    return calls(("plan", "c", {"steps": list(steps)}))


def respond(text: str) -> Reply:
    return calls(("respond", "c", {"response": text}))


async def test_an_edit_is_on_the_record_that_the_replanner_reads(client: Client) -> None:
    """B157 C134 C135 C139: it hears that a person changed the date, and what it plans next is gated anew."""
    hands = Hands()
    script = by_address(
        {
            "trip>planner": [plan("book the flight", "book the hotel")],
            "trip>executor": [calls(("book", "b", BOOK)), says("the flight is booked")],
            "trip>replanner": [plan("book the hotel for the 16th")],
            "trip>executor#2": [calls(("book", "b", {"what": "hotel", "date": "16"})), says("hotel booked")],
            "trip>replanner#2": [respond("a trip on the 16th")],
        }
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(planner(hands), "a trip on the 15th")
        edit = {"decision": "edit", "arguments": {"what": "flight", "date": "16"}}
        assert await ids(run, 1) == ["trip>executor>book:b"]
        await run.decide("trip>executor>book:b", edit)
        [second] = await run.waiting(1)
        assert (second.id, second.question.kind) == ("trip>executor#2>book:b", "review")
        await run.approve(second.id)
        result = await run.result()
        await run.replay()
    assert result.answer == "a trip on the 16th"
    assert hands.ran == ["book flight 16", "book hotel 16"]
    [first_record] = contents(h.model.requests("replanner")[0])
    assert "a person changed the arguments of 'book' to" in first_record
    assert '"date":"16"' in first_record
    [objective] = contents(h.model.requests("planner")[0])
    assert objective == texts.objective("a trip on the 15th")
    [step] = contents(h.model.requests("executor")[0])
    assert step.startswith(objective)
    assert step.endswith("## Your step now\nbook the flight")
    [step] = contents(h.model.requests("executor")[2])
    assert "1. book the flight\n   Result: the flight is booked" in step
    assert step.endswith("## Your step now\nbook the hotel for the 16th")


async def test_a_refused_step_is_told_once_and_finished_steps_stay_finished(client: Client) -> None:
    """B158 C138: the reason is in the record; the replanner may plan something cheaper; the first step ran once."""
    hands = Hands()
    script = by_address(
        {
            "trip>planner": [plan("look", "book hotel", "leave")],
            "trip>executor": [calls(("look", "l", {"what": "map"})), says("looked")],
            "trip>replanner": [plan("book hotel", "leave")],
            "trip>executor#2": [calls(("book", "b", {"what": "palace", "date": "1"})), says("refused")],
            "trip>replanner#2": [plan("book a cheaper hotel", "leave")],
            "trip>executor#3": [calls(("book", "b", {"what": "hostel", "date": "1"})), says("booked")],
            "trip>replanner#3": [plan("leave")],
            "trip>executor#4": [says("left")],
            "trip>replanner#4": [respond("we are away")],
        }
    )
    async with house(client, hands.all, script) as h:
        run = await h.start(planner(hands))
        [palace] = await ids(run, 1)
        await run.reject(palace, "hotel too dear")
        await run.approve(*await ids(run, 1))
        result = await run.result()
    assert (result.status, result.answer) == ("completed", "we are away")
    assert hands.ran == ["look map", "book hostel 1"]
    records = [contents(request)[0] for request in h.model.requests("replanner")]
    assert [record.count("hotel too dear") for record in records] == [0, 1, 1, 1]


async def test_a_person_who_always_refuses_ends_it_at_the_limit_of_replans(client: Client) -> None:
    """B158 P028: bounded by max_rounds, with a status that names it and the record of what was done."""
    hands = Hands()

    def script(prompt: Prompt) -> Reply:
        who = prompt.agent.partition(">")[2].partition("#")[0]
        if who != "executor":
            return plan("book a room")
        return says("refused") if len(prompt.messages) > 1 else calls(("book", "b", BOOK))

    async with house(client, hands.all, script) as h:
        run = await h.start(planner(hands, max_rounds=10))
        for _ in range(10):
            [asked] = await ids(run, 1)
            await run.reject(asked, "no")
        result = await run.result()
    assert result.status == "stopped"
    assert result.answer.startswith(f"{texts.after_rounds(10)}\n\n## Done so far\n1. book a room")
    assert hands.ran == []


@pytest.mark.parametrize(
    "useless",
    [
        says("I would pay, then rest"),
        Reply(),
        calls(("plan", "c", {"steps": []})),
        calls(("plan", "c", '{"steps": ["a"')),
        calls(("plan", "c", {"steps": "pay"})),
        calls(("pland", "c", {"steps": ["pay"]})),
        respond("too early"),
    ],
    ids=["text", "empty", "no steps", "broken", "no list", "unknown tool", "respond"],
)
async def test_a_planner_without_a_plan_is_told_so_and_may_mend_it(client: Client, useless: Reply) -> None:
    """C133: text alone or a malformed call is answered, and is not the end."""
    hands = Hands()
    script = by_address(
        {
            "trip>planner": [useless, plan("rest")],
            "trip>executor": [says("rested")],
            "trip>replanner": [respond("ok")],
        }
    )
    async with house(client, hands.all, script) as h:
        result = await (await h.start(planner(hands))).result()
    assert (result.status, result.answer) == ("completed", "ok")
    answered = h.model.requests("planner")[1][-1].content or ""
    assert answered.startswith(
        (texts.EMPTY_REPLY, texts.must_call(["plan"]), "The arguments of 'plan'", "There is no tool")
    )


async def test_a_planner_that_never_plans_is_stopped(client: Client) -> None:
    """Words alone end after three replies in a row, malformed calls at the agent's own limit of turns."""
    hands = Hands()
    async with house(client, hands.all, lambda prompt: says("let me think")) as h:
        words = await (await h.start(planner(hands))).result()
    async with house(client, hands.all, lambda prompt: calls(("plan", "c", "{"))) as h:
        broken = await (await h.start(planner(hands))).result()
    assert words.status == broken.status == "stopped"
    assert words.answer == "the model gave no answer in 3 replies in a row"
    assert broken.answer == texts.after_turns(20)


async def test_an_executor_that_fails_is_told_to_the_replanner(client: Client) -> None:
    hands = Hands()
    script = by_address(
        {
            "trip>planner": [plan("look for ever")],
            "trip>executor": [calls(("look", f"l{n}", {"what": "it"})) for n in range(20)],
            "trip>replanner": [respond("it cannot be done")],
        }
    )
    async with house(client, hands.all, script) as h:
        result = await (await h.start(planner(hands))).result()
    assert (result.status, result.answer) == ("completed", "it cannot be done")
    [record] = contents(h.model.requests("replanner")[0])
    assert f"Result: agent 'executor' stopped: {texts.after_turns(20)}" in record


async def test_planner_and_replanner_are_offered_what_they_choose_from(client: Client) -> None:
    """C136 C137: the planner must plan; the replanner plans or responds; the executor has the tools alone."""
    hands = Hands()
    script = by_address(
        {
            "trip>planner": [plan("rest")],
            "trip>executor": [says("rested")],
            "trip>replanner": [respond("ok")],
        }
    )
    async with house(client, hands.all, script) as h:
        await (await h.start(planner(hands))).result()
    offers = {p.agent: ([offer.name for offer in p.offers], p.must_call) for p in h.model.prompts}
    assert offers == {
        "trip>planner": (["plan"], True),
        "trip>executor": (["look", "pay", "book", "boom"], False),
        "trip>replanner": (["plan", "respond"], True),
    }
