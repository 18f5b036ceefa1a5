"""How a tool stops, what a person sees, and what the tool sees when it runs again."""

from dataclasses import dataclass
from typing import Any

import pytest
from temporalio.client import Client

from activities.tools import (
    CompositeInterrupt,
    Interrupt,
    StatefulInterrupt,
    interrupt_state,
    resume_context,
    tool,
)
from protocol.address import Address
from protocol.agents import Chat, ModelSpec, Sequential, Step
from protocol.interrupts import Custom
from tests.agents.hands import Hands, contents, ids, told
from tests.kit import Run, by_agent, calls, house, says

Seen = tuple[Any, ...]


@dataclass
class State:
    to: str


@dataclass
class Answer:
    yes: bool


class Asking:
    """A tool in three phases: it stops, stops again if the answer was not for it, and acts on the answer."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

        @tool
        def send(to: str) -> str:
            previous, resume = interrupt_state(State), resume_context(Answer)
            self.seen.append((to, previous.was_interrupted, previous.state, resume.is_target, resume.data))
            if not previous.was_interrupted or not resume.is_target:
                raise StatefulInterrupt({"send to": to}, State(to), expects=Answer)
            assert previous.state is not None
            if resume.data is None or not resume.data.yes:
                return "not sent"
            return f"sent to {previous.state.to}"

        self.send = send


async def resume(run: Run, id: str, data: Any = None) -> None:
    await run.decide(id, {"decision": "resume", "data": data})


async def test_a_stopped_tool_finds_its_state_and_the_answer_again(client: Client) -> None:
    """C001 C002 C015 C050 C070: under the arguments it had; one question, whose id is the place of the call."""
    asking = Asking()
    script = by_agent(
        {
            "lead": [calls(("helper", "h1", {"request": "send"})), says("done")],
            "helper": [calls(("send", "s1", {"to": "A"})), says("it was sent")],
        }
    )
    async with house(client, [asking.send], script) as h:
        run = await h.start(Chat(name="lead", agents=(Chat(name="helper", tools=h.specs),)))
        [waiting] = await run.waiting(1)
        assert waiting.id == "lead>helper>send:s1"
        assert isinstance(waiting.question, Custom)
        assert waiting.question.info == {"send to": "A"}
        await resume(run, waiting.id, {"yes": True})
        await run.result()
    assert asking.seen == [("A", False, None, False, None), ("A", True, State("A"), True, Answer(True))]
    assert told(h.model.requests("helper")[1]) == {"s1": "sent to A"}


async def test_two_calls_of_one_tool_are_told_apart_and_a_third_starts_clean(client: Client) -> None:
    """C007 C008 C009 C010 C036 C078: each has a state of its own; who was not answered is not run again; a later call
    knows of nothing."""
    asking = Asking()
    script = [
        calls(("send", "call_1", {"to": "A"}), ("send", "call_2", {"to": "B"})),
        calls(("send", "call_3", {"to": "C"})),
        says("done"),
    ]
    async with house(client, [asking.send], script) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        assert sorted(await ids(run, 2)) == ["bank>send:call_1", "bank>send:call_2"]
        await resume(run, "bank>send:call_1", {"yes": True})
        assert await ids(run, 1) == ["bank>send:call_2"]
        await resume(run, "bank>send:call_2", {"yes": False})
        assert await ids(run, 1) == ["bank>send:call_3"]
        await resume(run, "bank>send:call_3", {"yes": True})
        result = await run.result()
    assert told(result.transcript) == {"call_1": "sent to A", "call_2": "not sent", "call_3": "sent to C"}
    assert sorted(asking.seen[:2]) == [("A", False, None, False, None), ("B", False, None, False, None)]
    assert asking.seen[2:] == [
        ("A", True, State("A"), True, Answer(True)),
        ("B", True, State("B"), True, Answer(False)),
        ("C", False, None, False, None),
        ("C", True, State("C"), True, Answer(True)),
    ]


async def test_finished_calls_of_a_batch_are_kept_while_others_wait(client: Client) -> None:
    """C062: two are done and never run again, two wait and run with their arguments; four results, in call order."""
    asking, hands = Asking(), Hands()
    script = [
        calls(
            ("send", "1", {"to": "A"}),
            ("send", "2", {"to": "B"}),
            ("look", "3", {"what": "x"}),
            ("look", "4", {"what": "y"}),
        ),
        says("done"),
    ]
    async with house(client, [asking.send, hands.look], script) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        for id in await ids(run, 2):
            await resume(run, id, {"yes": True})
        result = await run.result()
    assert list(told(result.transcript).items()) == [
        ("1", "sent to A"),
        ("2", "sent to B"),
        ("3", "looked at x"),
        ("4", "looked at y"),
    ]
    assert sorted(hands.ran) == ["look x", "look y"]


async def test_a_call_may_ask_for_each_of_its_parts(client: Client) -> None:
    """C004 C005 C006 C016 C069: a question per part, decided in any order; what is done is never done again."""
    done: list[str] = []

    @tool
    def batch() -> str:
        finished: dict[str, Any] = interrupt_state(dict).state or {}
        for part in ("p0", "p1", "p2"):
            answer = resume_context(part=part)
            if part not in finished and answer.is_target:
                done.append(part)
                finished[part] = answer.data
        if open := [part for part in ("p0", "p1", "p2") if part not in finished]:
            raise CompositeInterrupt("batch", finished, parts={part: f"do {part}?" for part in open})
        return str(sorted(finished.items(), key=lambda item: item[0]))

    async with house(client, [batch], [calls(("batch", "b", {})), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        rows = {listed.id: listed for listed in await run.waiting(3)}
        assert sorted(rows) == [f"bank>batch:b>p{n}" for n in range(3)]
        targets = {"bank>batch:b>p0": "zero", "bank>batch:b>p2": None}
        await run.update(
            "resume", {"targets": {id: {"decision": "resume", "data": d} for id, d in targets.items()}}
        )
        [left] = await run.waiting(1)
        assert left == rows["bank>batch:b>p1"]
        await resume(run, left.id)
        result = await run.result()
    assert told(result.transcript) == {"b": "[('p0', 'zero'), ('p1', None), ('p2', None)]"}
    assert sorted(done) == ["p0", "p1", "p2"]


async def test_a_composite_without_parts_is_a_plain_question(client: Client) -> None:
    """C017 C018"""

    @tool
    def batch() -> str:
        if not resume_context().is_target:
            raise CompositeInterrupt("all of it?", None, parts={})
        return "done"

    async with house(client, [batch], [calls(("batch", "b", {})), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        [waiting] = await run.waiting(1)
        assert waiting.id == "bank>batch:b"
        await resume(run, waiting.id)
        assert told((await run.result()).transcript) == {"b": "done"}


async def test_a_question_in_an_agent_below_an_agent_is_reached_by_its_id(client: Client) -> None:
    """C011: through every layer; only the asking tool sees the answer."""
    asking = Asking()
    script = by_agent(
        {
            "outer": [calls(("middle", "m", {"request": "x"})), says("outer done")],
            "middle": [calls(("inner", "i", {"request": "x"})), says("middle done")],
            "inner": [calls(("send", "s", {"to": "A"})), says("inner done")],
        }
    )
    inner = Chat(name="inner", tools=(asking.send.spec,))
    outer = Chat(name="outer", agents=(Chat(name="middle", agents=(inner,)),))
    async with house(client, [asking.send], script) as h:
        run = await h.start(outer)
        assert await ids(run, 1) == ["outer>middle>inner>send:s"]
        await resume(run, "outer>middle>inner>send:s", {"yes": True})
        result = await run.result()
    assert result.answer == "outer done"
    assert told(h.model.requests("inner")[1]) == {"s": "sent to A"}


def test_outside_of_a_run_a_tool_can_stop_and_knows_of_no_answer() -> None:
    """C019 C020 C030 C033"""
    asking = Asking()
    with pytest.raises(StatefulInterrupt) as stopped:
        asking.send(to="A")
    assert (stopped.value.info, stopped.value.state) == ({"send to": "A"}, State("A"))
    assert asking.seen == [("A", False, None, False, None)]


async def test_state_of_another_type_is_an_error_that_names_both(client: Client) -> None:
    """C029: never a silent "no state"."""

    @tool
    def forgetful() -> str:
        interrupt_state(State)
        raise StatefulInterrupt("?", ["not", "a", "State"])

    async with house(client, [forgetful], [calls(("forgetful", "f", {})), says("done")]) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        await resume(run, *await ids(run, 1))
        result = await run.result()
    assert "the state is a list, not a State" in told(result.transcript)["f"]


async def test_no_data_is_an_answer_and_data_of_another_type_is_refused_at_the_door(client: Client) -> None:
    """C031 C032"""
    seen: list[Seen] = []

    @tool
    def asks(strict: bool) -> str:
        answer = resume_context(Answer)
        if not answer.is_target:
            raise Interrupt("?", expects=Answer) if strict else Interrupt("?")
        seen.append((strict, answer.has_data, answer.data))
        return "told"

    script = [calls(("asks", "a", {"strict": True}), ("asks", "b", {"strict": False})), says("done")]
    async with house(client, [asks], script) as h:
        run = await h.start(Chat(name="bank", tools=h.specs))
        await run.waiting(2)
        for wrong in ("yes", {"yes": "true"}, {"yes": 1}, {}, {"no": True}, None):
            with pytest.raises(Exception, match="Workflow update failed"):
                await resume(run, "bank>asks:a", wrong)
        await resume(run, "bank>asks:b")
        await resume(run, "bank>asks:a", {"yes": True})
        await run.result()
    assert sorted(seen) == [(False, False, None), (True, True, Answer(True))]


def test_an_address_is_written_from_its_segments_and_appending_leaves_it_alone() -> None:
    """C034 C035"""
    root = Address.root("bank")
    call = root.child("agent", 2).call("pay", "c1")
    assert [str(address) for address in (root, call)] == ["bank", "bank>agent#2>pay:c1"]
    assert Address.parse(str(call)) == call
    assert call != root.child("agent", 2).call("pay", "c2") != root.child("agent").call("pay", "c1")


async def test_breakpoints_between_two_steps_stop_twice_and_repeat_nothing(client: Client) -> None:
    """C040 C048: after the first and before the second, each with the input that had reached it."""
    hands = Hands()
    inner = Sequential(
        name="inner",
        children=(
            Chat(name="writer"),
            Step(name="print", tool=hands.look.spec, input="what"),
            Step(name="bind", tool=hands.look.spec, arguments={"what": "book"}),
        ),
    )
    async with house(client, hands.all, [says("a poem")]) as h:
        run = await h.start(
            Sequential(name="flow", children=(inner,)),
            interrupt_before=("writer", "bind"),
            interrupt_after=("print",),
        )
        asked = []
        for _ in range(3):
            [waiting] = await run.waiting(1)
            asked.append((waiting.id, waiting.question.when, list(hands.ran)))
            await run.approve(waiting.id)
        await run.result()
    assert asked == [
        ("flow>inner>writer", "before", []),
        ("flow>inner>print", "after", ["look a poem"]),
        ("flow>inner>bind", "before", ["look a poem"]),
    ]
    assert hands.ran == ["look a poem", "look book"]
    assert contents(h.model.prompts[0].messages) == ["do it"]


async def test_what_a_model_is_told_to_use_holds_for_its_agent_alone(client: Client) -> None:
    """C059 C118: options belong to the agent in whose data they stand."""
    children = (Chat(name="a", model=ModelSpec(options={"temperature": 0})), Chat(name="b"))
    async with house(client, [], by_agent({"a": [says("A")], "b": [says("B")]})) as h:
        await (await h.start(Sequential(name="s", children=children))).result()
    assert {p.agent: p.model.options for p in h.model.prompts} == {"s>a": {"temperature": 0}, "s>b": {}}
