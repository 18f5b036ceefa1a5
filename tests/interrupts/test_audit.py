"""One record for each question and each refused attempt, readable from the finished run."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from activities.tools import tool
from protocol.agents import Deadline, Gate, follow_up
from tests.kit import Run, calls, eventually, says
from tests.workflows.hands import bank, ids, refused, told
from workflows.desk import PENDING, PENDING_COUNT, STATUS

APPROVE = {"decision": "approve"}


async def test_every_question_leaves_one_record_with_all_facts(client: Client) -> None:
    """B137 B061: approve, reject, edit, answer, expire, withdraw, cancel, and a refused duplicate; none of them a
    failure"""

    @tool(review=True)
    def book(date: str) -> str:
        return "booked"

    @tool(approval=Gate(kind="approval", deadline=Deadline(after=0.3)))
    def hurry() -> str:
        return "never"

    script = [
        calls(
            ("pay", "yes", {"amount": 1}),
            ("pay", "no", {"amount": 2}),
            ("book", "edit", {"date": "15"}),
            ("follow_up", "ask", {"questions": ["Who?"]}),
            ("hurry", "late", {}),
            ("send", "gone", {"to": "x"}),
        ),
        calls(("wipe", "last", {})),
    ]
    before = datetime.now(UTC)
    async with bank(client, script, book, hurry) as (h, agent, _):
        run = await h.start(agent.model_copy(update={"tools": (*agent.tools, follow_up())}))

        async def late() -> bool:
            return len(await run.pending()) == 5 and len((await run.audit()).closed) == 1

        await eventually(late, "the expiry")
        await run.decide("bank>pay:yes", {"decision": "approve", "comment": "fine"}, by="ann")
        await run.reject("bank>pay:no", "too much", by="bob")
        await run.decide("bank>book:edit", {"decision": "edit", "arguments": {"date": "16"}}, by="cy")
        await run.update("withdraw", {"target": "bank>send:gone", "by": "di", "reason": "obsolete"})
        await run.signal("bank>pay:yes", {"decision": "reject", "by": "eve"})

        async def on_record() -> bool:
            return (await run.audit()).refused_in_all == 1

        await eventually(on_record, "the refused duplicate")
        await run.decide("bank>follow_up:ask", {"decision": "answer", "answer": "me"}, by="fay")
        await run.waiting(1)
        await run.handle.cancel()
        result = await run.result()
        records = {entry.id.rpartition(":")[2]: entry for entry in result.audit.closed}
        assert {id: (e.outcome, e.by, e.reason) for id, e in records.items()} == {
            "yes": ("approved", "ann", "fine"),
            "no": ("rejected", "bob", "too much"),
            "edit": ("edited", "cy", None),
            "ask": ("answered", "fay", "me"),
            "late": ("expired", None, None),
            "gone": ("withdrawn", "di", "obsolete"),
            "last": ("cancelled", None, None),
        }
        assert (
            await run.events("ACTIVITY_TASK_FAILED", "WORKFLOW_TASK_FAILED", "WORKFLOW_EXECUTION_FAILED") == 0
        )
        for entry in records.values():
            assert before <= entry.created < entry.decided <= datetime.now(UTC)
            assert entry.owner == "bank"
        assert records["edit"].tool == "book"
        assert (records["edit"].proposed, records["edit"].effective) == ('{"date":"15"}', '{"date":"16"}')
        assert records["yes"].proposed == '{"amount":1}'
        [attempt] = result.audit.refused
        assert (attempt.target, attempt.by) == ("bank>pay:yes", "eve")
        assert await run.audit() == result.audit
        assert "obsolete" in told(h)["gone"]


async def test_closed_questions_disappear_from_every_view(client: Client) -> None:
    """B031: expired, cancelled, decided after the worker was replaced"""
    script = [calls(("pay", "p1", {"amount": 1})), says("done")]
    async with bank(client, script) as (h, agent, _):
        gate = Gate(kind="approval", deadline=Deadline(after=0.3))
        expired = await h.start(agent.model_copy(update={"gates": {"pay": gate}}))
        await expired.result()
        cancelled = await h.start(agent)
        await cancelled.waiting(1)
        await cancelled.handle.cancel()
        await cancelled.result()
        decided = await h.start(agent)
        await decided.waiting(1)
        queue = h.queue
    async with bank(client, script, queue=queue) as (h, agent, _):
        await decided.approve("bank>pay:p1")
        await decided.result()
        for run in (expired, cancelled, decided):
            assert await run.pending() == []
            described = await run.handle.describe()
            assert not described.typed_search_attributes.get(PENDING)
            assert not described.typed_search_attributes.get(PENDING_COUNT)

    async def all_gone() -> bool:
        found = [execution.id async for execution in client.list_workflows("SignoffPendingCount > 0")]
        return not {expired.id, cancelled.id, decided.id} & set(found)

    await eventually(all_gone, "no row in visibility")


async def works(run: Run) -> bool:
    tree = await run.tree()
    return tree.agents[0].calls[0].name == "hold"


async def test_the_states_of_a_run_are_told_apart(client: Client) -> None:
    """B139: running, waiting, done, failed, cancelled"""

    @tool(on_error="fail")
    def fatal() -> str:
        raise RuntimeError("down")

    script = [calls(("pay", "p1", {"amount": 1})), calls(("hold", "h", {})), calls(("fatal", "f", {}))]
    go_on = asyncio.Event()

    @tool
    async def hold() -> str:
        await go_on.wait()
        return "went on"

    states: list[tuple[str, str]] = []

    async def look(run: Run) -> str:
        tree = await run.tree()
        states.append((str((await run.handle.describe()).status), tree.status))
        return tree.status

    async with bank(client, script, fatal, hold) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        found = (await run.handle.describe()).typed_search_attributes
        assert (found.get(STATUS), found.get(PENDING_COUNT)) == ("waiting", 1)
        assert found.get(PENDING) == [waiting.id]
        assert waiting.question.kind == "approval"
        assert (waiting.question.tool, waiting.question.arguments) == ("pay", {"amount": 1})
        assert waiting.task == "do it"
        tree = await run.tree()
        assert (tree.status, tree.agents[0].status, tree.agents[0].calls[0].status) == ("waiting",) * 3
        assert await look(run) == "waiting"
        await run.approve(waiting.id)
        await eventually(lambda: works(run), "the tool that holds")
        assert await look(run) == "running"
        go_on.set()
        failed = await run.result()
        assert await look(run) == "failed"
        assert failed.status == "failed"
        assert "down" in failed.answer
        assert failed.audit.closed
        found = (await run.handle.describe()).typed_search_attributes
        assert (found.get(STATUS), found.get(PENDING_COUNT)) == ("running", 0)
        other = await h.start(agent)
        await other.waiting(1)
        await other.handle.cancel()
        assert (await other.result()).status == "cancelled"
        assert await look(other) == "cancelled"
        assert (await other.tree()).agents[0].status == "cancelled"
    async with bank(client, [says("done")]) as (h, agent, _):
        done = await h.start(agent)
        await done.result()
        assert await look(done) == "completed"
    assert len(set(states)) == 5


async def test_long_arguments_are_whole_in_the_listing_and_marked_where_cut(client: Client) -> None:
    """B145"""
    command = "report --dry-run " + "-" * 4_000 + " ; wipe --all"

    @tool(approval=True)
    def shell(cmd: str) -> str:
        return "ran"

    async with bank(client, [calls(("shell", "s1", {"cmd": command})), says("done")], shell) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        assert waiting.question.kind == "approval"
        assert waiting.question.arguments == {"cmd": command}
        details = await run.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        assert "more characters)" in details.current_details
        await run.reject(waiting.id)
        result = await run.result()
        assert "more characters)" in (result.audit.closed[0].proposed or "")


async def test_the_details_show_what_is_decided_whatever_the_model_says_beside_it(client: Client) -> None:
    """B145: in the Temporal UI, long reasons hide no argument, and Markdown in them stays text."""
    reasons = "It is harmless.` **Approved already**\n\n# No need to look\n```\n" + "Really. " * 200
    script = [calls(("wire", "w1", {"amount": 5, "to": "`Eve` [ok](x)"}), text=reasons), says("done")]

    @tool(approval=True)
    def wire(amount: int, to: str) -> str:
        return "paid"

    async with bank(client, script, wire) as (h, agent, _):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        metadata = await run.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        lines = metadata.current_details.splitlines()
        [asks] = [line for line in lines if line.startswith("- asks")]
        shown = json.dumps(
            {"when": "gate", "tool": "wire", "arguments": {"amount": 5, "to": "`Eve` [ok](x)"}}
        )
        assert asks == f"- asks `` {shown} ``"
        [said] = [line for line in lines if "harmless" in line]
        assert said.startswith('- in the words of the model ```` "It is harmless.` **Approved')
        assert said.endswith("more characters) ````")
        assert not [line for line in lines if line.startswith("# ")]
        await run.approve(waiting.id)
        assert (await run.result()).status == "completed"


async def test_empty_nothing_pending_and_failed_are_told_apart(client: Client) -> None:
    """B141"""

    @tool
    def blank() -> str:
        return ""

    @tool
    def nothing() -> None:
        return None

    @tool(approval=True)
    def broken() -> str:
        raise RuntimeError("broke")

    script = [
        calls(("blank", "a", {}), ("nothing", "b", {}), ("pay", "c", {"amount": 1}), ("broken", "d", {})),
        says("done"),
    ]
    async with bank(client, script, blank, nothing, broken) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(2)
        await run.approve("bank>broken:d")

        async def failed() -> Any:
            calls = {call.name: call.status for call in (await run.tree()).agents[0].calls}
            return calls if calls["broken"] != "running" and calls["broken"] != "waiting" else None

        statuses = await eventually(failed, "the failure")
        assert statuses == {"blank": "done", "nothing": "done", "pay": "waiting", "broken": "failed"}
        await run.approve("bank>pay:c")
        await run.result()
        said = told(h)
        assert len(set(said.values())) == 4
        assert all(said.values())


async def test_refused_attempts_are_bounded_and_counted(client: Client) -> None:
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        for n in range(150):
            await run.signal("resume", {"targets": {f"bank>pay:{n}" + "x" * 500: APPROVE}})

        async def counted() -> bool:
            return (await run.audit()).refused_in_all == 150

        await eventually(counted, "150 refused attempts")
        audit = await run.audit()
        assert len(audit.refused) == 100
        assert all(len(refused.target) < 300 and len(refused.reason) < 300 for refused in audit.refused)
        await run.reject("bank>pay:p1")
        await run.result()


async def test_all_and_under_cover_what_is_open_and_takes_it(client: Client) -> None:
    @tool(review=True)
    def book(date: str) -> str:
        return "booked"

    script = [
        calls(
            ("pay", "p1", {"amount": 1}),
            ("book", "b1", {"date": "1"}),
            ("follow_up", "q1", {"questions": ["?"]}),
        ),
        says("done"),
    ]
    async with bank(client, script, book) as (h, agent, _):
        run = await h.start(agent.model_copy(update={"tools": (*agent.tools, follow_up())}))
        await run.waiting(3)
        assert "nothing open" in await refused(
            run, "update", "resume", {"all": APPROVE, "under": "bank>helper"}
        )
        assert "nothing open" in await refused(run, "signal", "resume", {"all": {"decision": "accept"}})
        for bad in ({"all": {"decision": "edit", "arguments": {}}}, {"all": APPROVE, "targets": {}}):
            assert await refused(run, "update", "resume", bad)
        reply = await run.update("resume", {"all": APPROVE, "under": "bank", "by": "ann"})
        statuses = {id: result.status for id, result in reply.results.items()}
        assert statuses == {"bank>pay:p1": "taken", "bank>book:b1": "taken", "bank>follow_up:q1": "skipped"}
        assert ids(await run.waiting(1)) == ["bank>follow_up:q1"]
        await run.decide("bank>follow_up:q1", {"decision": "answer", "answer": "!"})
        assert (await run.result()).status == "completed"


@pytest.mark.parametrize("entry", ["update", "signal"])
async def test_withdrawing_closes_without_running(client: Client, entry: str) -> None:
    """B103"""
    script = [calls(("pay", "p1", {"amount": 1}), ("pay", "p2", {"amount": 2})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(2)
        for bad in ({"target": "bank>pay:p9"}, {"target": "bank>pay:p1", "digest": "0" * 16}, {}):
            assert await refused(run, entry, "withdraw", bad)
        await (run.update if entry == "update" else run.signal)("withdraw", {"target": "bank>pay:p1"})
        await run.waiting(1)
        assert "already decided" in await refused(run, entry, "bank>pay:p1", APPROVE)
        await run.approve("bank>pay:p2")
        result = await run.result()
        assert effects.done == [("pay", 2)]
        assert list(told(h)) == ["p1", "p2"]
        assert [closed.outcome for closed in result.audit.closed] == ["withdrawn", "approved"]
