"""Large results, large arguments, many calls at once, and values of every type."""

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from temporalio.client import Client

from activities.tools import StatefulInterrupt, interrupt_state, resume_context, tool
from protocol.run import RunResult
from tests.kit import Run, calls, eventually, says
from tests.play import TurnsAtEveryChance
from tests.workflows.hands import bank, ids, told


async def test_a_large_result_is_cut_to_head_and_tail(client: Client) -> None:
    """B122"""

    @tool(approval=True)
    def read(kind: str) -> str:
        return "x" * 3_000_000 + "END" if kind == "text" else "😀" * 3_000_000

    script = [calls(("read", "r1", {"kind": "text"}), ("read", "r2", {"kind": "emoji"})), says("done")]
    async with bank(client, script, read) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(2)
        await run.update("resume", {"all": {"decision": "approve"}})
        assert (await run.result()).status == "completed"
        for id in ("r1", "r2"):
            assert len(told(h)[id].encode()) < 400_000
            assert "characters hidden" in told(h)[id]
        assert told(h)["r1"].endswith("END")
        hidden = 3_000_003 - told(h)["r1"].count("x") - len("END")
        assert f"{hidden} characters hidden" in told(h)["r1"]
        assert await run.events("ACTIVITY_TASK_FAILED", "WORKFLOW_TASK_FAILED") == 0


async def test_many_medium_results_and_large_arguments_together(client: Client) -> None:
    """B123"""

    @tool
    def fetch(page: int) -> str:
        return str(page) * 500_000

    @tool(approval=True)
    def store(text: str) -> str:
        return f"stored {len(text)}"

    asked = [("fetch", f"f{n}", {"page": n}) for n in range(10)]
    script = [calls(*asked, ("store", "s1", {"text": "y" * 300_000})), says("done")]
    async with bank(client, script, fetch, store) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "approval"
        assert len(waiting.question.arguments["text"]) == 300_000
        await run.approve(waiting.id)
        result = await run.result()
        assert result.status == "completed"
        assert told(h)["s1"] == "stored 300000"
        assert len(result.model_dump_json()) < 1_000_000


class Colour(Enum):
    RED = "red"


@dataclass
class Inner:
    when: datetime
    exact: Decimal


@dataclass
class Outer:
    colour: Colour
    inner: Inner
    nothing: int | None
    empty: list[str]
    pair: tuple[int, str]


OUTER = Outer(Colour.RED, Inner(datetime(2026, 1, 2, 3, 4, tzinfo=UTC), Decimal("0.10")), None, [], (1, "a"))


@pytest.mark.parametrize("turns", [False, True], ids=["one page", "page turned"])
async def test_state_and_data_come_back_as_what_they_were(client: Client, turns: bool) -> None:
    """B126"""
    seen: list[Any] = []

    @tool
    def keep() -> str:
        state = interrupt_state(Outer)
        if not state.was_interrupted:
            raise StatefulInterrupt({"shown": OUTER}, OUTER, expects=Inner)
        seen.extend([state.state, resume_context(Inner).data])
        return "kept"

    options: dict[str, Any] = {"workflows": [TurnsAtEveryChance]} if turns else {"max_cached_workflows": 0}
    async with bank(client, [calls(("keep", "k1", {})), says("done")], keep, **options) as (h, agent, _):
        started = await h.start(agent)
        run = Run(client.get_workflow_handle(started.id, result_type=RunResult))
        [waiting] = await run.waiting(1)
        data = {"when": "2026-01-02T03:04:00Z", "exact": "0.10"}
        await run.decide(waiting.id, {"decision": "resume", "data": data})
        assert ((await run.result()).pages > 0) == turns
        assert told(h)["k1"] == "kept"
        assert seen == [OUTER, OUTER.inner]


async def test_a_hundred_calls_of_which_forty_are_decided_in_any_order(client: Client) -> None:
    """None is run again, whatever the order"""
    ran: list[int] = []

    @tool
    async def free(n: int) -> str:
        ran.append(n)
        return "ok"

    @tool(approval=True)
    async def gated(n: int) -> str:
        ran.append(n)
        return "ok"

    asked = [("gated" if n < 40 else "free", f"c{n}", {"n": n}) for n in range(100)]
    order = list(asked)
    random.Random(7).shuffle(order)
    async with bank(client, [calls(*order), says("done")], free, gated) as (h, agent, _):
        run = await h.start(agent)
        waiting = ids(await run.waiting(40))
        random.Random(8).shuffle(waiting)
        for id in waiting:
            await run.approve(id)
        assert (await run.result()).status == "completed"
        assert sorted(ran) == list(range(100))
        assert list(told(h)) == [id for _, id, _ in order]
        assert await run.events("ACTIVITY_TASK_SCHEDULED") == 102


async def test_a_waiting_question_adds_nothing_but_its_upsert(client: Client) -> None:
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        before = await run.events()
        await asyncio.sleep(1)
        assert await run.events() == before
        assert await run.events("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES") == 1
        assert await run.events("TIMER_STARTED") == 0
        await run.reject("bank>pay:p1")
        await run.result()


async def test_search_attributes_stay_below_what_the_server_allows(client: Client) -> None:
    """Over 2,048 bytes of ids the server would terminate the run; the count says how many there are."""
    asked = [("pay", "长" * 15 + str(n), {"amount": 1}) for n in range(60)]
    async with bank(client, [calls(*asked), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(60)

        async def counted() -> bool:
            found = (await run.handle.describe()).search_attributes
            return found.get("SignoffPendingCount") == [60] and 0 < len(found["SignoffPending"]) < 60

        await eventually(counted, "the count")
        await run.update("resume", {"all": {"decision": "approve"}})
        assert (await run.result()).status == "completed"
        assert effects.count("pay") == 60
