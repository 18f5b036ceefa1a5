"""Deadlines, on the server's own time skipping: three days pass in a second."""

import shutil
import sysconfig
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from activities.tools import StatefulInterrupt, interrupt_state, resume_context, tool
from client import Client as Starting
from converter import DATA_CONVERTER
from protocol.agents import Chat, Deadline, Escalation, Gate, Supervisor
from protocol.run import RunRequest, RunResult
from tests.kit import Run, by_agent, calls, eventually, house, says
from tests.workflows.hands import Effects, bank, refused, told

DAY = 24 * 3600.0
P1 = "bank>pay:p1"
PAY_THEN_AGAIN = [calls(("pay", "p1", {"amount": 1})), says("done")]


@pytest.fixture(scope="module")
async def skipping() -> AsyncIterator[WorkflowEnvironment]:
    binary = shutil.which("temporal", path=sysconfig.get_path("scripts")) or shutil.which("temporal")
    assert binary is not None
    flag = "frontend.WorkflowTimeSkippingEnabled=true"
    names = ["Status=Keyword", "Agent=Keyword", "Pending=KeywordList", "Approvers=KeywordList"]
    attributes = [*names, "WaitingSince=Datetime", "PendingCount=Int"]
    async with await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=binary,
        data_converter=DATA_CONVERTER,
        dev_server_extra_args=[
            *("--dynamic-config-value", flag),
            *(word for name in attributes for word in ("--search-attribute", f"Signoff{name}")),
        ],
    ) as environment:
        yield environment


@pytest.fixture
def hurried(skipping: WorkflowEnvironment) -> Client:
    return skipping.client


def with_gate(agent: Chat, **deadline: Any) -> Chat:
    gate = Gate(kind="approval", deadline=Deadline(**deadline))
    return agent.model_copy(update={"gates": {"pay": gate}})


async def test_an_expired_question_is_a_no_and_the_run_goes_on(hurried: Client) -> None:
    """B095 B096 B097: in a supervisor, and then asked again"""
    effects = Effects()
    tools = effects.tools()
    script = by_agent(
        {
            "lead": [calls(("transfer_to_agent", "t1", {"agent_name": "bank"})), says("summed up")],
            "bank": [
                calls(("pay", "p1", {"amount": 1})),
                calls(("pay", "p2", {"amount": 1})),
                says("gave up"),
            ],
        }
    )
    pay = tools["pay"].spec.model_copy(update={"gate": Gate(kind="approval", deadline=Deadline(after=60.0))})
    tree = Supervisor(name="lead", agents=(Chat(name="bank", tools=(pay,)),))
    async with house(hurried, tools.values(), script) as h:
        run = await h.start(tree)
        result = await run.result()
        assert (result.status, result.answer) == ("completed", "summed up")
        assert effects.done == []
        first, second = result.audit.closed
        assert (first.id, second.id) == ("lead>bank>pay:p1", "lead>bank>pay:p2")
        for closed in (first, second):
            assert (closed.outcome, closed.by) == ("expired", None)
            assert closed.decided - closed.created == timedelta(seconds=60)
        said = told(h, agent="bank")["p1"]
        assert "time ran out" in said
        assert "did not run" in said


@pytest.mark.parametrize(
    ("on_expiry", "status", "ran"),
    [("reject", "completed", 0), ("approve", "completed", 1), ("fail", "failed", 0)],
)
async def test_what_an_expiry_means_is_a_matter_of_the_gate(
    hurried: Client, on_expiry: str, status: str, ran: int
) -> None:
    async with bank(hurried, PAY_THEN_AGAIN) as (h, agent, effects):
        run = await h.start(with_gate(agent, after=3 * DAY, on_expiry=on_expiry))
        result = await run.result()
        assert result.status == status
        assert effects.count("pay") == ran
        assert [entry.outcome for entry in result.audit.closed] == ["expired"]
        assert result.audit.closed[0].by is None


async def test_an_escalation_asks_the_next_and_reminders_are_noted(hurried: Client) -> None:
    async with bank(hurried, PAY_THEN_AGAIN) as (h, agent, effects):
        deadline = {
            "after": 2 * DAY,
            "on_expiry": "escalate",
            "escalate": (
                Escalation(approvers=("cfo",), after=DAY),
                Escalation(approvers=("ceo",), after=DAY),
            ),
            "reminders": (DAY / 2, DAY),
        }
        run = await h.start(with_gate(agent, **deadline))
        result = await run.result()
        assert effects.done == []
        [closed] = result.audit.closed
        assert closed.decided - closed.created == timedelta(days=4)
        said = [note.text for note in result.audit.notes]
        assert [text for text in said if "reminder" in text] == ["reminder: still waiting"] * 2
        assert [text for text in said if "escalated" in text] == ["escalated to cfo", "escalated to ceo"]


async def test_the_runs_own_deadline_holds_for_every_question_that_names_none(hurried: Client) -> None:
    """Also for one that a tool asks from inside"""

    @tool
    def ask() -> str:
        if interrupt_state().was_interrupted:
            return f"told {resume_context(str).data}"
        raise StatefulInterrupt("well?", None)

    async with bank(hurried, [calls(("ask", "a1", {})), says("done")], ask) as (h, agent, _):
        run = await h.start(agent, deadline=Deadline(after=5 * DAY))
        result = await run.result()
        assert [entry.outcome for entry in result.audit.closed] == ["expired"]
        assert "time ran out" in told(h)["a1"]


async def test_a_question_without_a_deadline_waits_for_weeks(
    hurried: Client, skipping: WorkflowEnvironment
) -> None:
    """B102: started as people start it, with no timeout of the run in the way"""
    async with bank(hurried, PAY_THEN_AGAIN) as (h, agent, effects):
        starting = Starting(hurried, task_queue=h.queue)
        started = await starting.start(RunRequest(task="do it", agent=agent))
        run = Run(hurried.get_workflow_handle(started.id, result_type=RunResult))
        first = (await run.history()).events[0].workflow_execution_started_event_attributes
        assert not first.workflow_run_timeout.ToTimedelta()
        assert not first.workflow_execution_timeout.ToTimedelta()
        await run.waiting(1)
        await skipping.fast_forward(run.handle, timedelta(days=30))
        await run.approve(P1)
        result = await run.result()
        assert effects.count("pay") == 1
        assert result.audit.closed[0].outcome == "approved"


async def test_a_decision_in_time_counts_and_its_timer_is_gone(client: Client) -> None:
    """On the plain server: the deadline is far"""
    async with bank(client, PAY_THEN_AGAIN) as (h, agent, effects):
        run = await h.start(with_gate(agent, after=DAY))
        [waiting] = await run.waiting(1)
        assert waiting.expires is not None
        assert waiting.expires - waiting.created == timedelta(days=1)
        await run.approve(P1)
        await run.result()
        assert effects.count("pay") == 1
        assert await run.events("TIMER_STARTED") == await run.events("TIMER_CANCELED") == 1
        started = [
            event
            for event in (await run.history()).events
            if event.HasField("timer_started_event_attributes")
        ]
        assert P1.encode() in started[0].user_metadata.summary.data
        await run.replay()


async def test_a_decision_sent_after_the_deadline_while_nobody_serves_does_not_count(client: Client) -> None:
    """B099: sent in time or late, it is handled after the deadline, and the deadline wins: one outcome"""
    async with bank(client, PAY_THEN_AGAIN) as (h, agent, effects):
        run = await h.start(with_gate(agent, after=1.5))
        [waiting] = await run.waiting(1)
        queue = h.queue

    async def passed() -> bool:
        return (await run.events("TIMER_FIRED")) == 1

    await run.signal(P1, {"decision": "approve"})
    await eventually(passed, "the deadline, while nobody serves")
    await run.signal(P1, {"decision": "approve"})
    async with bank(client, PAY_THEN_AGAIN, queue=queue) as (h, agent, effects):
        result = await run.result()
        assert effects.done == []
        assert [entry.outcome for entry in result.audit.closed] == ["expired"]
        assert result.audit.refused_in_all == 2
        assert "expired" in result.audit.refused[0].reason
        assert "did not run" in told(h)["p1"]
    assert waiting.id == P1
    await run.replay()


async def test_a_decision_after_the_deadline_is_refused(client: Client) -> None:
    """B097"""
    script = [calls(("pay", "p1", {"amount": 1}), ("send", "s1", {"to": "x"})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(with_gate(agent, after=0.5))
        await run.waiting(2)

        async def expired() -> bool:
            return [each.id for each in await run.pending()] == ["bank>send:s1"]

        await eventually(expired, "the expiry")
        for entry in ("update", "signal"):
            reason = await refused(run, entry, "resume", {"targets": {P1: {"decision": "approve"}}})
            assert "expired" in reason
        await run.reject("bank>send:s1")
        await run.result()
        assert effects.done == []


def test_a_deadline_that_escalates_to_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="escalate"):
        Deadline(after=5.0, on_expiry="escalate")
    with pytest.raises(ValueError, match="escalate"):
        Deadline(after=5.0, escalate=(Escalation(approvers=("x",), after=1.0),))
