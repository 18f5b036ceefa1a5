"""The desk in workflows that are no agents: listed, decided and audited alike."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from examples.kyc_payment import KycThenPayment, Payment, pay_out
from protocol.run import RunRequest, RunResult
from tests.kit import Run, calls, eventually, says
from tests.workflows.hands import bank, refused
from workflows.agent_run import AgentRun
from workflows.sandbox import sandbox

APPROVE = {"decision": "approve"}


@pytest.fixture(scope="module")
async def queue(client: Client) -> AsyncIterator[str]:
    name = f"kyc-{uuid.uuid4()}"
    worker = Worker(
        client, task_queue=name, workflows=[KycThenPayment], activities=[pay_out], workflow_runner=sandbox()
    )
    async with worker:
        yield name


async def start(client: Client, queue: str) -> Run:
    handle = await client.start_workflow(
        "KycThenPayment", Payment("Li Wei", 250), id=f"kyc-{uuid.uuid4()}", task_queue=queue
    )
    return Run(handle)


async def test_a_plain_workflow_is_decided_step_by_step(client: Client, queue: str) -> None:
    run = await start(client, queue)
    [kyc] = await run.waiting(1)
    assert kyc.id == "payout>kyc"
    assert kyc.question.because == "a new customer"
    await run.signal(kyc.id, APPROVE)

    async def payment() -> bool:
        return [each.id for each in await run.pending()] == ["payout>payment"]

    await eventually(payment, "the second question")
    assert "already decided" in await refused(run, "update", "resume", {"targets": {kyc.id: APPROVE}})
    await run.update("payout>payment", APPROVE)
    assert await run.handle.result() == "paid 250.00 to Li Wei"  # type: ignore[comparison-overlap]
    audit = await run.audit()
    assert [(entry.id, entry.outcome) for entry in audit.closed] == [
        ("payout>kyc", "approved"),
        ("payout>payment", "approved"),
    ]


@pytest.mark.parametrize("how", ["reject", "withdraw"])
async def test_a_customer_that_is_not_known_is_not_paid(client: Client, queue: str, how: str) -> None:
    run = await start(client, queue)
    [kyc] = await run.waiting(1)
    if how == "reject":
        await run.reject(kyc.id, "no papers")
    else:
        await run.update("withdraw", {"target": kyc.id})
    assert await run.handle.result() == "not paid: the customer is not known"  # type: ignore[comparison-overlap]
    assert await run.events("ACTIVITY_TASK_SCHEDULED") == 0


async def test_it_is_found_in_visibility_like_an_agent(client: Client, queue: str) -> None:
    run = await start(client, queue)
    await run.waiting(1)

    async def listed() -> Any:
        query = f"SignoffStatus = 'waiting' AND WorkflowId = '{run.id}'"
        async for found in client.list_workflows(query):
            return found
        return None

    found = await eventually(listed, "the run in visibility")
    pairs = {pair.key.name: pair.value for pair in found.typed_search_attributes.search_attributes}
    assert pairs["SignoffPending"] == ["payout>kyc"]
    assert pairs["SignoffPendingCount"] == 1
    assert pairs["SignoffAgent"] == "KycThenPayment"
    await run.reject("payout>kyc")
    await run.handle.result()


@workflow.defn
class Parent:
    """Runs an agent as its child, on the task queue of the agent's workers."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> str:
        result = await workflow.execute_child_workflow(
            "AgentRun", request, id=f"{workflow.info().workflow_id}-child", result_type=RunResult
        )
        return f"{result.status}: {result.answer}"


async def test_an_agent_as_a_child_is_decided_as_a_run_of_its_own(client: Client) -> None:
    script = [calls(("pay", "p1", {"amount": 1})), says("done")]
    async with bank(client, script, workflows=[AgentRun, Parent]) as (h, agent, effects):
        request = RunRequest(task="go", agent=agent).model_dump(mode="json")
        parent = await client.start_workflow(
            "Parent", request, id=f"parent-{uuid.uuid4()}", task_queue=h.queue
        )
        child = Run(client.get_workflow_handle(f"{parent.id}-child", result_type=RunResult))

        async def listed() -> Any:
            async for found in client.list_workflows(
                f"SignoffStatus = 'waiting' AND WorkflowId = '{child.id}'"
            ):
                return found
            return None

        await eventually(listed, "the child in visibility")
        [waiting] = await child.waiting(1)
        assert waiting.workflow_id == child.id
        await child.approve(waiting.id, run=waiting.run)
        assert await parent.result() == "completed: done"
        assert effects.done == [("pay", 1)]
