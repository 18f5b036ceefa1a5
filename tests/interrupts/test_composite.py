"""One call that works through several items: what is done is never done again, each of the others is decided apart."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from activities.tools import CompositeInterrupt, interrupt_state, resume_context, tool
from tests.kit import calls, eventually, says
from tests.workflows.hands import bank, both_entries, ids, send, told

CALL = "bank>work:w1"


class Items:
    """Ten items; those in *asks* need a person. `hold` keeps the next run of the tool from ending."""

    def __init__(self, asks: tuple[str, ...] = ("3", "6", "9")) -> None:
        self.asks, self.done, self.runs = asks, list[str](), 0
        self.hold: asyncio.Event | None = None

    def tool(self) -> Any:
        items = self

        @tool
        async def work(count: int) -> str:
            items.runs += 1
            outcome: dict[str, str] = dict(interrupt_state(dict[str, str]).state or {})
            parts: dict[str, Any] = {}
            for name in map(str, range(count)):
                if name in outcome:
                    continue
                if name not in items.asks:
                    items.done.append(name)
                    outcome[name] = "done"
                    continue
                answer = resume_context(bool, part=name)
                if not answer.is_target:
                    parts[name] = {"item": name}
                    continue
                outcome[name] = "allowed" if answer.data else "refused"
                if answer.data:
                    items.done.append(name)
            if items.hold is not None:
                await items.hold.wait()
            if parts:
                raise CompositeInterrupt({"open": len(parts)}, outcome, parts=parts, expects=bool)
            return ",".join(outcome[str(n)] for n in range(count))

        return work


YES = {"decision": "resume", "data": True}
NO = {"decision": "resume", "data": False}


@both_entries
@pytest.mark.parametrize("order", [("3", "6", "9"), ("9", "3", "6")], ids=["in order", "in another order"])
async def test_the_items_that_ask_are_decided_apart_and_the_others_done_once(
    client: Client, entry: str, order: tuple[str, ...]
) -> None:
    """C004 C005 C006"""
    items = Items()
    script = [calls(("work", "w1", {"count": 10})), says("done")]
    async with bank(client, script, items.tool()) as (h, agent, _):
        run = await h.start(agent)
        before = await run.waiting(3)
        assert ids(before) == [f"{CALL}>{n}" for n in ("3", "6", "9")]
        for n, name in enumerate(order):
            await send(run, entry, {f"{CALL}>{name}": NO if name == "6" else YES})
            left = await run.waiting(2 - n) if n < 2 else []
            # The others keep their id, question and created time.
            assert [each for each in before if each.id in ids(left)] == left
        await run.result()
        assert told(h)["w1"] == "done,done,done,allowed,done,done,refused,done,done,allowed"
        assert sorted(items.done) == ["0", "1", "2", "3", "4", "5", "7", "8", "9"]
        await run.replay()


async def test_two_are_decided_while_the_call_runs(client: Client) -> None:
    items = Items()
    script = [calls(("work", "w1", {"count": 10})), says("done")]
    async with bank(client, script, items.tool()) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(3)
        items.hold = asyncio.Event()
        await run.decide(f"{CALL}>3", YES)

        async def running_again() -> bool:
            return items.runs == 2

        await eventually(running_again, "the second run of the tool")
        await run.decide(f"{CALL}>9", NO)
        await run.decide(f"{CALL}>6", YES)
        items.hold.set()
        result = await run.result()
        assert told(h)["w1"].split(",")[3::3] == ["allowed", "allowed", "refused"]
        assert items.runs == 3  # both answers went into one run
        assert len(items.done) == len(set(items.done)) == 9
        assert [entry.outcome for entry in result.audit.closed] == ["resumed"] * 3


async def test_it_goes_on_with_another_worker(client: Client) -> None:
    items = Items()
    script = [calls(("work", "w1", {"count": 10})), says("done")]
    async with bank(client, script, items.tool()) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(3)
        await run.decide(f"{CALL}>3", YES)
        await run.waiting(2)
        queue = h.queue
    async with bank(client, script, items.tool(), queue=queue) as (h, agent, _):
        await run.update("resume", {"targets": {f"{CALL}>6": YES, f"{CALL}>9": YES}})
        await run.result()
        assert len(items.done) == len(set(items.done)) == 10


async def test_a_part_that_is_not_asked_again_is_withdrawn_and_a_late_answer_unused(client: Client) -> None:
    hold = asyncio.Event()
    runs: list[int] = []

    @tool
    async def work() -> str:
        runs.append(1)
        if not interrupt_state().was_interrupted:
            raise CompositeInterrupt("which?", None, parts={"a": 1, "b": 2, "c": 3})
        await hold.wait()
        return "a was enough"

    async with bank(client, [calls(("work", "w1", {})), says("done")], work) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(3)
        await run.decide(f"{CALL}>a", {"decision": "resume", "data": 1})

        async def again() -> bool:
            return len(runs) == 2

        await eventually(again, "the second run")
        await run.decide(f"{CALL}>b", {"decision": "resume", "data": 2})
        hold.set()
        result = await run.result()
        outcomes = {entry.id: entry.outcome for entry in result.audit.closed}
        assert outcomes == {f"{CALL}>a": "resumed", f"{CALL}>b": "unused", f"{CALL}>c": "withdrawn"}


async def test_a_part_asked_again_with_other_info_supersedes_the_old_one(client: Client) -> None:
    @tool
    def work() -> str:
        if resume_context(part="b").is_target:
            return f"b is {resume_context(int, part='b').data}"
        first = not interrupt_state().was_interrupted
        parts = {"a": "x", "b": "old"} if first else {"b": "new"}
        raise CompositeInterrupt("which?", None, parts=parts)

    async with bank(client, [calls(("work", "w1", {})), says("done")], work) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(2)
        await run.decide(f"{CALL}>a", {"decision": "resume"})

        async def replaced() -> bool:
            return ids(await run.pending()) == [f"{CALL}>b~2"]

        await eventually(replaced, "the new question")
        await run.decide(f"{CALL}>b~2", {"decision": "resume", "data": 7})
        result = await run.result()
        assert told(h)["w1"] == "b is 7"
        assert {entry.id: entry.outcome for entry in result.audit.closed}[f"{CALL}>b"] == "superseded"
