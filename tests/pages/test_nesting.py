"""Everything that a call can wait for, at every depth, told the same whether or not the page is turned meanwhile."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from activities.tools import FunctionTool, StatefulInterrupt, interrupt_state, resume_context, tool
from protocol.agents import Chat, Loop, PlanExecute, Review, Sequential, Step, Supervisor, follow_up
from protocol.messages import Reply
from protocol.run import RunResult
from protocol.views import Listed
from tests.kit import Run, by_agent, calls, house, says
from tests.play import TurnsAtEveryChance, TurnsAtRandom, decided, pending, snapshot
from tests.workflows.hands import Effects
from workflows.agent_run import AgentRun


class Seat(BaseModel):
    seat: str


class Asked(BaseModel):
    tries: int


def tools(effects: Effects) -> dict[str, FunctionTool]:
    @tool
    def check(name: str) -> str:
        return effects("check", name)

    @tool(approval=True)
    async def pay(amount: int) -> str:
        await asyncio.sleep(0.01)
        return effects("pay", amount)

    @tool(review=True)
    def book(hotel: str) -> str:
        return effects("book", hotel)

    @tool(approval=lambda args: args.to == "stranger")
    def send(to: str) -> str:
        return effects("send", to)

    @tool
    async def note(text: str) -> str:
        await asyncio.sleep(0.03)
        return effects("note", text)

    @tool
    def choose_seat() -> str:
        before = interrupt_state(Asked)
        tries = before.state.tries if before.state is not None else 0
        resume = resume_context(Seat)
        if tries < 2 or resume.data is None:
            raise StatefulInterrupt(f"which seat? ({tries})", Asked(tries=tries + 1), expects=Seat)
        return effects("seat", resume.data.seat)

    return {each.spec.name: each for each in (check, pay, book, send, note, choose_seat)}


def tree(tools: Mapping[str, FunctionTool]) -> Sequential:
    def specs(*names: str) -> Any:
        return tuple(tools[name].spec for name in names)

    works = PlanExecute(
        name="project",
        planner=Chat(name="planner"),
        executor=Chat(name="executor", tools=specs("pay", "note")),
        replanner=Chat(name="replanner"),
    )
    poem = Loop(name="editor", children=(Chat(name="writer"), Review(name="reviewer")), max_rounds=5)
    clerk = Chat(name="clerk", tools=(*specs("pay", "send", "book", "choose_seat", "note"), follow_up()))
    lead = Supervisor(name="lead", agents=(clerk, works, poem))
    kyc = Step(name="kyc", tool=tools["check"].spec, arguments={"name": "Ann"})
    return Sequential(name="desk", children=(kyc, lead))


def script() -> dict[str, Sequence[Reply]]:
    def over_to(id: str, name: str) -> tuple[str, str, dict[str, str]]:
        return ("transfer_to_agent", id, {"agent_name": name, "request": f"work, {name}"})

    return {
        "lead": [
            calls(
                over_to("t1", "clerk"), over_to("t2", "project"), over_to("t3", "editor"), text="all at once"
            ),
            says("everybody is done"),
        ],
        "clerk": [
            calls(
                ("pay", "p1", {"amount": 1}),
                ("send", "s1", {"to": "stranger"}),
                ("note", "n1", {"text": "clerk"}),
                ("book", "b1", {"hotel": "Ritz"}),
            ),
            calls(
                ("pay", "p1", {"amount": 2}),
                ("choose_seat", "c1", {}),
                ("follow_up", "f1", {"questions": ["when?"]}),
            ),
            says("clerk is done"),
        ],
        "planner": [calls(("plan", "x1", {"steps": ["pay", "note"]}))],
        "executor": [
            calls(("pay", "p1", {"amount": 3}), ("note", "n1", {"text": "step"})),
            says("step is done"),
        ],
        "replanner": [calls(("plan", "x2", {"steps": ["note"]}))],
        "writer": [says("a poem")],
    }


def decide(listed: Listed) -> dict[str, Any]:
    """One answer for each question, by its id and kind alone: modes may ask in another order."""
    match listed.question.kind:
        case "review":
            return {"decision": "edit", "arguments": {"hotel": "Savoy"}}
        case "feedback":
            return (
                {"decision": "accept"} if "#3" in listed.id else {"decision": "revise", "feedback": "shorter"}
            )
        case "follow_up":
            return {"decision": "answer", "answer": "tomorrow"}
        case "custom":
            return {"decision": "resume", "data": {"seat": "12A"}}
        case _:
            if "executor#2>pay" in listed.id:
                return {"decision": "reject", "reason": "too much"}
            return {"decision": "approve", "comment": "fine" if listed.question.when == "gate" else None}


@dataclass
class Told:
    """What a run told to people, models and the world; equal for equal runs, however their pages were turned."""

    asked: dict[str, str]
    outcomes: dict[str, str]
    effects: list[tuple[str, Any]]
    prompts: str
    answer: str


async def play(client: Client, workflow_class: type) -> tuple[Told, RunResult]:
    effects = Effects()
    hands = tools(effects)
    scripted = by_agent(script())

    def model(prompt: Any) -> Reply:
        if prompt.agent.endswith("replanner#2"):
            return calls(("respond", "x3", {"response": "the project is done"}))
        return scripted(prompt)

    async with house(client, hands.values(), model, workflows=[workflow_class]) as h:
        started = await h.start(
            tree(hands),
            interrupt_before=("kyc", "clerk", "**>clerk>pay", "writer"),
            interrupt_after=("kyc", "lead", "**>clerk>pay", "executor"),
        )
        run = Run(client.get_workflow_handle(started.id, result_type=RunResult))
        ended = asyncio.create_task(run.result())
        asked: dict[str, Listed] = {}
        seen: dict[str, Listed] = {}
        async with asyncio.timeout(100):
            while not ended.done():
                await asyncio.wait([ended], timeout=0.02)
                waiting = await pending(run)
                for each in waiting:
                    assert seen.setdefault(each.id, each) == each, "a page turn changed a question"
                for each in [each for each in waiting if each.id not in asked][-1:]:
                    if await decided(run, each, decide(each)):
                        asked[each.id] = each
        result = await ended
        told = Told(
            asked={id: asked[id].digest for id in sorted(asked)},
            outcomes={entry.id: entry.outcome for entry in sorted(result.audit.closed, key=lambda e: e.id)},
            effects=sorted(effects.done, key=str),
            prompts=snapshot(h.model.prompts),
            answer=result.answer,
        )
        return told, result


@pytest.fixture(scope="module")
async def plain(client: Client) -> Told:
    told, result = await play(client, AgentRun)
    assert (result.status, result.pages) == ("completed", 0)
    assert "everybody is done" in result.answer
    return told


async def test_the_plain_run_asks_for_everything_there_is(plain: Told) -> None:
    clerk = "desk>lead>clerk"
    for id in (
        *("desk>kyc", "desk>kyc~2", clerk, f"{clerk}>pay:p1", f"{clerk}>pay:p1~2", f"{clerk}>pay:p1~3"),
        *(f"{clerk}>send:s1", f"{clerk}>book:b1", f"{clerk}>pay:p1#2~3", f"{clerk}>choose_seat:c1~2"),
        *(f"{clerk}>follow_up:f1", "desk>lead", "desk>lead>project>executor#2>pay:p1"),
        *("desk>lead>project>executor#2", "desk>lead>editor>reviewer#3", "desk>lead>editor>writer#3"),
    ):
        assert id in plain.asked
    assert plain.outcomes.keys() == plain.asked.keys()
    assert len(plain.effects) == len(set(plain.effects)) + 1  # the step takes its note twice
    assert ("book", "Savoy") in plain.effects


@pytest.mark.slow
async def test_pages_turned_at_every_question_change_nothing(client: Client, plain: Told) -> None:
    """B112: the same ids, digests, outcomes, effects and prompts, down to an agent below an agent below an agent"""
    told, result = await play(client, TurnsAtEveryChance)
    assert result.pages >= 5
    assert told == plain


@pytest.mark.slow
@pytest.mark.parametrize("time", range(5))
async def test_pages_turned_at_any_moment_change_nothing(client: Client, plain: Told, time: int) -> None:
    """B112"""
    told, _ = await play(client, TurnsAtRandom)
    assert told == plain
