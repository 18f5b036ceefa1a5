"""Branches at once: each with a conversation of its own, none held by the others."""

from typing import Any

from temporalio.client import Client

from protocol import texts
from protocol.agents import AnyAgent, Chat, Parallel, Sequential, Step
from tests.agents.hands import Hands, by_address, contents, ids
from tests.kit import calls, eventually, house, says

PAY: Any = {"to": "B", "amount": 5}


def three(hands: Hands) -> Parallel:
    return Parallel(name="fan", children=tuple(Chat(name=name, tools=hands.specs) for name in "xyz"))


async def test_only_the_target_moves_and_the_others_wait_unchanged(client: Client) -> None:
    """B072 C005 C074 C116 P013: what the untouched branches show is equal in every field, also after a cold start."""
    hands = Hands()
    waits = [calls(("pay", "p", PAY)), says("paid")]
    script = by_address({f"fan>{name}": waits for name in "xyz"})
    async with house(client, hands.all, script) as h:
        run = await h.start(three(hands))
        before = {listed.id: listed for listed in await run.waiting(3)}
        await run.approve("fan>y>pay:p")

        async def y_is_done() -> bool:
            return len(h.model.requests("y")) == 2

        await eventually(y_is_done, "the answer of y")
    async with house(client, hands.all, script, queue=h.queue):
        after = {listed.id: listed for listed in await run.waiting(2)}
        assert after == {id: before[id] for id in ("fan>x>pay:p", "fan>z>pay:p")}
        assert hands.ran == ["pay B 5"]
        await run.update("resume", {"all": {"decision": "approve"}})
        result = await run.result()
    assert (len(hands.ran), result.status) == (3, "completed")


async def test_finished_branches_are_kept_and_the_answers_stand_in_declaration_order(client: Client) -> None:
    """P023 P014 C044 C109 C117: the one that waits holds nobody; what follows hears all of them, once."""
    hands = Hands()
    script = by_address(
        {
            "line>first": [says("go")],
            "line>fan>a": [calls(("pay", "p", PAY)), says("A")],
            "line>fan>b": [calls(("pay", "p", PAY)), says("B")],
            "line>fan>c": [says("C")],
            "line>sum": [says("summed up")],
        }
    )
    fan = Parallel(name="fan", children=tuple(Chat(name=name, tools=hands.specs) for name in "abc"))
    line = Sequential(name="line", children=(Chat(name="first"), fan, Chat(name="sum")))
    async with house(client, hands.all, script) as h:
        run = await h.start(line)
        await run.waiting(2)
        await run.approve("line>fan>b>pay:p")
        assert await ids(run, 1) == ["line>fan>a>pay:p"]
        await run.reject("line>fan>a>pay:p")
        result = await run.result()
    assert result.answer == "summed up"
    spoken = [prompt.agent.rpartition(">")[2] for prompt in h.model.prompts]
    assert {name: spoken.count(name) for name in ("a", "b", "c", "sum")} == {"a": 2, "b": 2, "c": 1, "sum": 1}
    assert contents(h.model.requests("a")[0]) == ["do it", "[first]: go"]
    [heard] = h.model.requests("sum")
    assert contents(heard) == ["do it", "[first]: go", "[fan]: [a]: A\n\n[b]: B\n\n[c]: C"]


async def test_a_branch_that_fails_or_is_rejected_ends_alone(client: Client) -> None:
    """P024: an error in one branch and a question in another; the question stays, and is answered."""
    hands = Hands()
    children: tuple[AnyAgent, ...] = (
        Step(name="bad", tool=hands.boom.spec),
        Step(name="refused", tool=hands.pay.spec, arguments=PAY),
        Step(name="fine", tool=hands.pay.spec, arguments={"to": "C", "amount": 1}),
    )
    async with house(client, hands.all) as h:
        run = await h.start(Parallel(name="fan", children=children))
        assert sorted(await ids(run, 2)) == ["fan>fine", "fan>refused"]
        await run.reject("fan>refused", "no")
        await run.approve("fan>fine")
        result = await run.result()
        await run.replay()
    failed, refused, fine = result.answer.split("\n\n")
    assert failed.startswith("agent 'bad' failed: tool 'boom' failed: RuntimeError: db down")
    assert refused == f"agent 'refused' rejected: {texts.disapproved('pay', 'no')}"
    assert fine == "[fine]: paid 1 to C"
    assert result.status == "completed"


async def test_branches_that_all_end_without_an_answer_give_none(client: Client) -> None:
    hands = Hands()
    children = tuple(Step(name=name, tool=hands.pay.spec, arguments=PAY) for name in ("a", "b"))
    async with house(client, hands.all) as h:
        run = await h.start(Parallel(name="fan", children=children))
        for id in await ids(run, 2):
            await run.reject(id)
        assert (await run.result()).status == "rejected"


async def test_a_breakpoint_on_a_branch_holds_only_that_branch(client: Client) -> None:
    script = by_address({"fan>a": [says("A")], "fan>b": [says("B")]})
    async with house(client, [], script) as h:
        run = await h.start(
            Parallel(name="fan", children=(Chat(name="a"), Chat(name="b"))), interrupt_before=("b",)
        )
        [waiting] = await run.waiting(1)

        async def a_spoke() -> bool:
            return len(h.model.prompts) == 1

        await eventually(a_spoke, "the answer of a")
        await run.reject(waiting.id)
        result = await run.result()
    assert (result.status, len(h.model.prompts)) == ("completed", 1)
    assert result.answer == f"[a]: A\n\nagent 'b' rejected: {texts.disapproved('b', None)}"
