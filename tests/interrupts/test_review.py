"""Review and edit: an edit changes arguments and nothing else, and the model is told."""

from typing import Annotated, Any

import pytest
from pydantic import Field
from temporalio.client import Client

from activities.tools import tool
from protocol.agents import Chat, Gate, Supervisor
from tests.kit import by_agent, calls, eventually, house, says
from tests.workflows.hands import bank, both_entries, refused, send, told

F1 = "bank>book:f1"


def booking(done: list[dict[str, Any]]) -> Any:
    @tool(review=True)
    def book(date: str, seat: str = "economy") -> str:
        done.append({"date": date, "seat": seat})
        return f"booked {seat}"

    return book


BOOK = [calls(("book", "f1", {"date": "2025-10-15", "seat": "economy"})), says("done")]


@both_entries
async def test_the_model_is_told_of_the_change_and_of_the_arguments_that_ran(
    client: Client, entry: str
) -> None:
    """B043"""
    done: list[dict[str, Any]] = []
    changed = {"date": "2025-10-16", "seat": "公务舱"}
    async with bank(client, BOOK, booking(done)) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "review"
        await send(run, entry, {F1: {"decision": "edit", "arguments": changed}})
        result = await run.result()
        assert done == [changed]
        assert "A person changed the arguments" in told(h)["f1"]
        assert '"seat": "公务舱"' in told(h)["f1"]
        assert "booked 公务舱" in told(h)["f1"]
        [assistant, *_] = [m for m in result.transcript if m.role == "assistant"]
        assert "2025-10-15" in assistant.tool_calls[0].function.arguments
        entry_ = result.audit.closed[0]
        assert entry_.outcome == "edited"
        assert "2025-10-16" in (entry_.effective or "")
        assert "2025-10-15" in (entry_.proposed or "")


@both_entries
async def test_no_need_to_edit_runs_it_as_it_is(client: Client, entry: str) -> None:
    done: list[dict[str, Any]] = []
    async with bank(client, [*BOOK], booking(done)) as (h, agent, _):
        for decision in (
            {"decision": "approve"},
            {"decision": "edit", "arguments": {"seat": "economy", "date": "2025-10-15"}},
        ):
            run = await h.start(agent)
            await run.waiting(1)
            await send(run, entry, {F1: decision})
            result = await run.result()
            assert told(h)["f1"] == "booked economy"
            assert result.audit.closed[0].outcome == "approved"


@both_entries
async def test_an_edit_cannot_change_the_tool(client: Client, entry: str) -> None:
    """B042"""
    done: list[dict[str, Any]] = []
    async with bank(client, BOOK, booking(done)) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        for decision in (
            {"decision": "edit", "tool": "wipe", "args": {}},
            {"decision": "edit", "tool": "wipe", "arguments": {}},
            {"decision": "edit", "arguments": '{"date": "x"}'},
            {"decision": "edit"},
        ):
            assert await refused(run, entry, "resume", {"targets": {F1: decision}})
        fitting = {"decision": "edit", "tool": "wipe", "arguments": {"date": "2026-01-02"}}
        assert "unknown field" in await refused(run, entry, "resume", {"targets": {F1: fitting}})
        assert done == []
        assert effects.done == []
        await run.reject(F1)
        await run.result()


@both_entries
async def test_edited_arguments_are_validated_before_anything_runs(client: Client, entry: str) -> None:
    """B045 B051"""
    moved: list[float] = []

    @tool(review=True)
    def move(to: str, amount: Annotated[float, Field(gt=0)]) -> str:
        moved.append(amount)
        return "moved"

    async with bank(client, [calls(("move", "m1", {"to": "A", "amount": 1})), says("done")], move) as (
        h,
        agent,
        _,
    ):
        run = await h.start(agent)
        await run.waiting(1)
        for arguments, *fields in (
            ({"to": "A"}, "amount"),
            ({"to": "A", "amount": "lots"}, "amount"),
            ({"to": "A", "amount": -5}, "amount"),
            ({"to": "A", "amount": 5, "is_admin": True, "amount_2": ""}, "is_admin", "amount_2"),
        ):
            decision = {"decision": "edit", "arguments": arguments}
            reason = await refused(run, entry, "resume", {"targets": {"bank>move:m1": decision}})
            assert all(field in reason for field in fields), reason
        assert moved == []
        await send(run, entry, {"bank>move:m1": {"decision": "edit", "arguments": {"to": "A", "amount": 5}}})
        await run.result()
        assert moved == [5]


async def test_an_edit_works_from_no_arguments(client: Client) -> None:
    """B048"""
    asked: list[str] = []

    @tool(review=True)
    def search(q: str = "") -> str:
        asked.append(q)
        return "found"

    async with bank(client, [calls(("search", "e1", "")), says("done")], search) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "review"
        assert waiting.question.arguments == {}
        await run.decide(waiting.id, {"decision": "edit", "arguments": {"q": "北京 天气"}})
        await run.result()
        assert asked == ["北京 天气"]


@pytest.mark.parametrize(
    ("decision", "ran"),
    [
        ({"decision": "approve"}, ["8.8.8.8"]),
        ({"decision": "edit", "arguments": {"ioc": "1.2.3.4"}}, ["1.2.3.4"]),
        ({"decision": "reject", "reason": "not needed"}, []),
    ],
    ids=["approve", "edit", "reject"],
)
async def test_every_decision_works_at_depth(
    client: Client, decision: dict[str, Any], ran: list[str]
) -> None:
    """B049"""
    looked: list[str] = []

    @tool(review=True)
    def lookup(ioc: str) -> str:
        looked.append(ioc)
        return f"{ioc} is known"

    script = by_agent(
        {
            "soc": [calls(("transfer_to_agent", "t1", {"agent_name": "analyst"})), says("reported")],
            "analyst": [calls(("lookup", "l1", {"ioc": "8.8.8.8"})), says("the analyst's last word")],
        }
    )
    tree = Supervisor(name="soc", agents=(Chat(name="analyst", tools=(lookup.spec,)),))
    async with house(client, [lookup], script) as h:
        run = await h.start(tree)
        [waiting] = await run.waiting(1)
        assert waiting.id == "soc>analyst>lookup:l1"
        await run.decide(waiting.id, decision)
        await run.result()
        assert looked == ran
        assert told(h, agent="soc")["t1"] == "the analyst's last word"
        if decision["decision"] == "reject":
            assert "not needed" in told(h, agent="analyst")["l1"]


@both_entries
async def test_a_decided_review_cannot_be_decided_again(client: Client, entry: str) -> None:
    """B052"""
    done: list[dict[str, Any]] = []
    script = [
        calls(("book", "f1", {"date": "1"}), ("pay", "p1", {"amount": 1})),
        says("done"),
    ]
    async with bank(client, script, booking(done)) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(2)
        await send(run, entry, {F1: {"decision": "edit", "arguments": {"date": "2"}}})

        async def booked() -> bool:
            return len(done) == 1

        await eventually(booked, "the booking")
        for again in ({"decision": "edit", "arguments": {"date": "3"}}, {"decision": "reject"}):
            assert "already decided" in await refused(run, entry, "resume", {"targets": {F1: again}})
        await run.reject("bank>pay:p1")
        await run.result()
        assert done == [{"date": "2", "seat": "economy"}]


@both_entries
async def test_a_decision_must_fit_the_kind_of_the_question(client: Client, entry: str) -> None:
    """B040 B091: answers, each to its question, in order"""
    from protocol.agents import follow_up

    script = [
        calls(("pay", "p1", {"amount": 1}), ("follow_up", "q1", {"questions": ["Sector?", "Period?"]})),
        says("done"),
    ]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent.model_copy(update={"tools": (*agent.tools, follow_up())}))
        await run.waiting(2)
        pay, ask = "bank>pay:p1", "bank>follow_up:q1"
        for id, decision, fits in (
            (pay, {"decision": "answer", "answer": "yes"}, "approve or reject"),
            (pay, {"decision": "edit", "arguments": {"amount": 2}}, "approve or reject"),
            (pay, {"decision": "accept"}, "approve or reject"),
            (pay, {"decision": "resume", "data": {"approved": True}}, "approve or reject"),
            (ask, {"decision": "approve"}, "answer"),
            (ask, {"decision": "reject"}, "answer"),
            (ask, {"decision": "answer", "answers": ["one"]}, "2 answers"),
            (ask, {"decision": "answer", "answer": "  "}, "answer"),
            (ask, {"decision": "answer", "answers": ["one", ""]}, "answers"),
            (ask, {"decision": "answer", "answer": "x", "answers": ["y", "z"]}, "either"),
        ):
            assert fits in await refused(run, entry, "resume", {"targets": {id: decision}})
        assert effects.done == []
        await send(run, entry, {pay: {"decision": "reject"}})
        await run.decide(ask, {"decision": "answer", "answers": ["tech", "last quarter"]})
        await run.result()
        assert told(h)["q1"] == "Sector? tech\nPeriod? last quarter"


@both_entries
async def test_a_comment_is_kept_and_told(client: Client, entry: str) -> None:
    """B041"""
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        decision = {"decision": "approve", "comment": "OK, but tell the client"}
        await send(run, entry, {"bank>pay:p1": decision}, by="li.wei")
        result = await run.result()
        assert "OK, but tell the client" in told(h)["p1"]
        closed = result.audit.closed[0]
        assert (closed.by, closed.reason) == ("li.wei", "OK, but tell the client")


@both_entries
async def test_the_reply_is_the_result_and_nothing_before_it_is_repeated(client: Client, entry: str) -> None:
    """B021 B091"""
    from protocol.agents import follow_up

    questions = ["Sector?", "Period?", "Risk appetite?"]
    script = [
        calls(("lookup", "s1", {})),
        calls(("follow_up", "q1", {"questions": questions})),
        says("done"),
    ]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent.model_copy(update={"tools": (*agent.tools, follow_up())}))
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "follow_up"
        assert waiting.question.questions == tuple(questions)
        await send(run, entry, {waiting.id: {"decision": "answer", "answer": "tech; last quarter; balanced"}})
        await run.result()
        assert told(h)["q1"] == "tech; last quarter; balanced"
        assert effects.count("lookup") == 1
        assert len(h.model.prompts) == 3


async def test_an_agents_gate_replaces_the_tools_own(client: Client) -> None:
    async with bank(client, [calls(("note", "n1", {"text": "a"})), says("done")]) as (h, agent, effects):
        run = await h.start(agent.model_copy(update={"gates": {"note": Gate(kind="review")}}))
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "review"
        await run.reject(waiting.id)
        await run.result()
        assert effects.done == []
