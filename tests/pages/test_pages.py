"""Page turns: at any moment, for any nesting, with everything the run knows in its luggage."""

import asyncio
import random
from typing import Any

from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from activities.tools import tool
from protocol.agents import Chat, Deadline, Gate, Supervisor
from protocol.messages import Reply
from tests.kit import House, Run, by_agent, calls, eventually, house, says
from tests.play import TurnsAtEveryChance, TurnsAtRandom, decided, pending
from tests.workflows.hands import bank, ids, refused, told
from workflows.agent_run import AgentRun

APPROVE = {"decision": "approve"}


async def pages(client: Client, run: Run) -> int:
    return len([e async for e in client.list_workflows(f"WorkflowId = '{run.id}'")])


def unbound(h: House, run: Run) -> Run:
    return Run(h.client.get_workflow_handle(run.id, result_type=run.handle._result_type))


async def test_open_questions_survive_a_page_turn_unchanged(client: Client) -> None:
    """B112: same ids, digests and created times; one is decided, the other is not touched"""
    script = [calls(("pay", "p1", {"amount": 1}), ("pay", "p2", {"amount": 2})), says("done")]
    async with bank(client, script, workflows=[AgentRun]) as (h, agent, effects):
        run = await h.start(agent)
        before = await run.waiting(2)
        queue = h.queue
    async with bank(client, script, workflows=[TurnsOnNotes], queue=queue) as (h, agent, effects):
        await run.signal("resume", {"targets": {"bank>pay:nobody": APPROVE}})

        async def turned() -> bool:
            return await pages(client, run) == 2

        await eventually(turned, "a page turn")
        later = unbound(h, run)
        assert await later.waiting(2) == before
        await later.approve(before[0].id, digest=before[0].digest, run=before[0].run)
        assert await later.waiting(1) == before[1:]
        assert effects.done == [("pay", 1)]
        await later.reject(before[1].id)
        result = await later.result()
        assert [refusal.target for refusal in result.audit.refused] == ["bank>pay:nobody"]
        assert effects.done == [("pay", 1)]
        assert len(h.model.prompts) == 1  # the first turn was another worker's


@workflow.defn(name="AgentRun")
class TurnsOnNotes(AgentRun):
    """Turns the page once, when something was refused."""

    @workflow.init
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)

    @workflow.run
    async def run(self, *args: Any) -> Any:
        return await super().run(*args)

    def page_is_full(self) -> bool:
        return self._state.pages == 0 and bool(self._state.board.audit.refused)


async def test_a_request_id_is_remembered_over_a_page_turn(client: Client) -> None:
    script = [calls(("pay", "p1", {"amount": 1}), ("pay", "p2", {"amount": 2})), says("done")]
    async with bank(client, script, workflows=[TurnsOnNotes]) as (h, agent, effects):
        run = unbound(h, await h.start(agent))
        await run.waiting(2)
        first = await run.approve("bank>pay:p1", request_id="r1")
        await run.signal("resume", {"targets": {"bank>pay:nobody": APPROVE}})

        async def turned() -> bool:
            return await pages(client, run) == 2

        await eventually(turned, "a page turn")
        assert await run.approve("bank>pay:p1", request_id="r1") == first
        other = {"targets": {"bank>pay:p2": APPROVE}, "request_id": "r1"}
        assert "used for another request" in await refused(run, "update", "resume", other)
        await run.reject("bank>pay:p2")
        await run.result()
        assert effects.done == [("pay", 1)]


async def test_a_deadline_keeps_running_over_a_page_turn(client: Client) -> None:
    script = [calls(("pay", "p1", {"amount": 1})), says("done")]
    async with bank(client, script, workflows=[TurnsOnNotes]) as (h, agent, effects):
        gate = Gate(kind="approval", deadline=Deadline(after=3.0))
        run = unbound(h, await h.start(agent.model_copy(update={"gates": {"pay": gate}})))
        await run.waiting(1)
        await run.signal("resume", {"targets": {"bank>pay:nobody": APPROVE}})
        result = await run.result()
        assert result.pages == 1
        [closed] = result.audit.closed
        assert closed.outcome == "expired"
        assert (closed.decided - closed.created).total_seconds() == 3.0
        assert effects.done == []


class Tree:
    """A supervisor over two agents: gated payments beside free notes, over several turns."""

    def __init__(self) -> None:
        self.done: list[str] = []
        tree = self

        @tool(approval=True)
        async def pay(what: str) -> str:
            tree.done.append(what)
            return f"paid {what}"

        @tool
        async def note(what: str) -> str:
            await asyncio.sleep(0.02)
            tree.done.append(what)
            return f"noted {what}"

        self.tools = [pay, note]

    def agent(self) -> Supervisor:
        specs = tuple(each.spec for each in self.tools)
        return Supervisor(name="lead", agents=(Chat(name="one", tools=specs), Chat(name="two", tools=specs)))

    @staticmethod
    def lines() -> dict[str, list[Reply]]:
        def work(who: str) -> list[Reply]:
            return [
                calls(
                    ("pay", "p1", {"what": f"{who}-p1"}),
                    ("note", "n1", {"what": f"{who}-n1"}),
                    ("pay", "p2", {"what": f"{who}-p2"}),
                ),
                calls(("note", "n2", {"what": f"{who}-n2"}), ("pay", "p3", {"what": f"{who}-p3"})),
                says(f"{who} done"),
            ]

        both = calls(
            ("transfer_to_agent", "t1", {"agent_name": "one"}),
            ("transfer_to_agent", "t2", {"agent_name": "two"}),
        )
        return {"lead": [both, says("all done")], "one": work("one"), "two": work("two")}

    expected = sorted(f"{who}-{what}" for who in ("one", "two") for what in ("p1", "n1", "p2", "n2", "p3"))


async def chaos(h: House, tree: Tree, seed: int) -> tuple[Run, int]:
    """Decide everything at random moments, by update and by signal, until the run has ended."""
    chance = random.Random(seed)
    tree.done.clear()
    run = unbound(h, await h.start(tree.agent()))
    ended = asyncio.create_task(run.result())
    sent: set[str] = set()
    async with asyncio.timeout(90):
        while not ended.done():
            await asyncio.wait([ended], timeout=chance.uniform(0.01, 0.08))
            waiting = [each for each in await pending(run) if each.id not in sent]
            if not waiting:
                continue
            listed = chance.choice(waiting)
            if chance.random() < 0.5:
                await run.signal(listed.id, APPROVE)
                sent.add(listed.id)
            elif await decided(run, listed, APPROVE):
                sent.add(listed.id)
    result = await ended
    assert result.status == "completed", result.answer
    assert result.answer == "all done"
    assert sorted(tree.done) == tree.expected
    assert sorted(ids(result.audit.closed)) == sorted(sent)
    assert {entry.outcome for entry in result.audit.closed} == {"approved"}
    return run, result.pages


async def many(client: Client, runs: int, page_turns: int) -> None:
    tree = Tree()
    turned = played = 0
    async with house(client, tree.tools, by_agent(tree.lines()), workflows=[TurnsAtRandom]) as h:
        while played < runs or turned < page_turns:
            _, pages = await chaos(h, tree, seed=played)
            played += 1
            turned += pages
    assert turned >= page_turns


async def test_pages_turned_at_random_moments_lose_and_double_nothing(client: Client) -> None:
    await many(client, runs=3, page_turns=10)


async def test_a_flood_of_signals_turns_the_page_and_wedges_nothing(client: Client) -> None:
    script = [calls(("pay", "p1", {"amount": 1})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = unbound(h, await h.start(agent))
        await run.waiting(1)
        for _ in range(30):
            await asyncio.gather(
                *(run.signal("resume", {"targets": {"bank>pay:x": APPROVE}}) for _ in range(50))
            )

        async def counted() -> bool:
            return (await run.audit()).refused_in_all == 1_500

        await eventually(counted, "1,500 refused attempts")
        await run.approve("bank>pay:p1")
        result = await run.result()
        assert result.pages >= 1
        assert effects.count("pay") == 1


async def test_a_long_run_turns_its_page_by_weight_and_stubs_its_oldest_results(client: Client) -> None:
    """B121: 100 results of 20 KB on a first message of 100 KB; nothing near the server's limits"""

    @tool
    def read(page: int) -> str:
        return f"page {page} " + "x" * 20_000

    def script(prompt: Any) -> Reply:
        page = sum(message.role == "assistant" for message in prompt.messages)
        return calls(("read", f"r{page}", {"page": page})) if page < 100 else says("read it all")

    async with house(client, [read], script) as h:
        agent = Chat(name="reader", tools=(read.spec,), max_turns=200)
        run = unbound(h, await h.start(agent, task="t" * 100_000))
        result = await run.result()
        assert (result.status, result.answer) == ("completed", "read it all")
        assert result.pages >= 1
        assert any("left out" in note.text for note in result.audit.notes)
        assert [len(prompt.messages) for prompt in h.model.prompts] == list(range(1, 203, 2))
        last = told(h, agent="reader")
        assert "left out to keep" in last["r0"]
        assert last["r99"].startswith("page 99 ")
        total = 0
        async for page in client.list_workflows(f"WorkflowId = '{run.id}'"):
            history = await client.get_workflow_handle(page.id, run_id=page.run_id).fetch_history()
            sizes = [len(event.SerializeToString()) for event in history.events]
            assert max(sizes) < 2_000_000
            total += sum(sizes)
            assert not [
                e for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
            ]
        assert total < 10_000_000
        assert len(result.model_dump_json()) < 1_000_000


async def test_a_state_that_cannot_be_carried_goes_on_in_its_page(client: Client) -> None:
    """What cannot become a stub, like the arguments of calls, may be too much: no task fails for ever."""

    @tool
    def store(text: str) -> str:
        return "ok"

    def script(prompt: Any) -> Reply:
        n = sum(message.role == "assistant" for message in prompt.messages)
        return calls(("store", f"s{n}", {"text": "y" * 400_000})) if n < 6 else says("stored")

    async with house(client, [store], script) as h:
        run = unbound(h, await h.start(Chat(name="keeper", tools=(store.spec,))))
        result = await run.result()
        assert (result.status, result.answer) == ("completed", "stored")
        assert any("too large" in note.text for note in result.audit.notes)
        assert await run.events("WORKFLOW_TASK_FAILED") == 0


async def test_a_composite_call_is_carried_over(client: Client) -> None:
    from tests.interrupts.test_composite import CALL, YES, Items

    items = Items()
    script = [calls(("work", "w1", {"count": 10})), says("done")]
    async with bank(client, script, items.tool(), workflows=[TurnsAtEveryChance]) as (h, agent, _):
        run = unbound(h, await h.start(agent))
        for name in ("6", "3", "9"):

            async def asked(name: str = name) -> bool:
                return f"{CALL}>{name}" in ids(await pending(run))

            await eventually(asked, f"the part {name}")
            [listed] = [each for each in await run.pending() if each.id == f"{CALL}>{name}"]
            assert await decided(run, listed, YES)
        result = await run.result()
        assert result.pages >= 1
        assert len(items.done) == len(set(items.done)) == 10
