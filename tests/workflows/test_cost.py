"""What a run costs in history: hardly more than a workflow written by hand for it."""

import uuid
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.tools import tool
from tests.kit import calls, eventually, says
from tests.workflows.hands import bank

MINUTE = timedelta(minutes=1)


@activity.defn
async def think(turn: int) -> str:
    return "pay" if turn == 0 else "done"


@activity.defn
async def work(amount: int) -> str:
    return f"paid {amount}"


@workflow.defn(sandboxed=False)
class Minimal:
    """Model, wait for a person, tool, model: as one would write it by hand."""

    def __init__(self) -> None:
        self._approved: bool | None = None

    @workflow.run
    async def run(self) -> str:
        await workflow.execute_activity(think, 0, start_to_close_timeout=MINUTE)
        await workflow.wait_condition(lambda: self._approved is not None)
        await workflow.execute_activity(work, 5, start_to_close_timeout=MINUTE)
        return await workflow.execute_activity(think, 1, start_to_close_timeout=MINUTE)

    @workflow.signal
    def approve(self) -> None:
        self._approved = True

    @workflow.update
    def approve_update(self) -> str:
        self._approved = True
        return "ok"


async def until_idle(handle: WorkflowHandle[Any, Any], events: int) -> None:
    """Wait for a history length without asking the workflow: a query would add tasks of its own."""

    async def there() -> bool:
        described = await handle.describe()
        return described.history_length >= events

    await eventually(there, f"{events} events")


async def test_one_approved_call_costs_two_events_more_than_by_hand(client: Client) -> None:
    script = [calls(("pay", "p1", {"amount": 5})), says("done")]
    queue = f"minimal-{uuid.uuid4()}"
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Minimal],
        activities=[think, work],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker, bank(client, script) as (h, agent, _):
        for entry in ("signal", "update"):
            minimal = await client.start_workflow("Minimal", id=f"{queue}-{entry}", task_queue=queue)
            await until_idle(minimal, 10)
            run = await h.start(agent)
            await until_idle(run.handle, 11)
            if entry == "signal":
                await minimal.signal("approve")
                await run.signal("bank>pay:p1", {"decision": "approve"})
            else:
                await minimal.execute_update("approve_update")
                await run.update("bank>pay:p1", {"decision": "approve"})
            await minimal.result()
            await run.result()
            by_hand = len((await minimal.fetch_history()).events)
            ours = await run.events()
            assert by_hand == 27 if entry == "signal" else by_hand <= 30
            assert ours <= by_hand + 2
            assert await run.events("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES") == 2


async def test_a_model_call_carries_no_conversation(client: Client) -> None:
    """Its input stays bounded from turn 1 to turn 50."""

    @tool
    def read(page: int) -> str:
        return "x" * 1_000

    script = [*(calls(("read", f"r{n}", {"page": n})) for n in range(50)), says("done")]
    async with bank(client, script, read) as (h, agent, _):
        run = await h.start(agent.model_copy(update={"max_turns": 60}))
        assert (await run.result()).status == "completed"
        inputs = [
            len(event.activity_task_scheduled_event_attributes.input.payloads[0].data)
            for event in (await run.history()).events
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
            and event.activity_task_scheduled_event_attributes.activity_type.name == "signoff.complete"
        ]
        assert len(inputs) == 51
        assert max(inputs) <= 6_000
        lengths = [len(prompt.messages) for prompt in h.model.prompts]
        assert lengths == list(range(1, 103, 2))


async def test_an_opening_line_of_100_kb_is_fetched_and_never_carried(client: Client) -> None:
    async with bank(client, [calls(("note", "n", {})), says("done")]) as (h, agent, _):
        run = await h.start(agent, task="x" * 100_000)
        assert (await run.result()).status == "completed"
        assert [len(prompt.messages[0].content or "") for prompt in h.model.prompts] == [100_000, 100_000]
