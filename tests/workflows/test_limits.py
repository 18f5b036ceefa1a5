"""What is allowed one by one, and together would outgrow what the server takes in one task, or of one run."""

import asyncio
import uuid
from datetime import timedelta

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.model import ModelActivities
from activities.scripted_model import ScriptedModel, lines
from activities.tools import CompositeInterrupt, Toolbox, interrupt_state, resume_context, tool
from protocol.agents import Chat, Parallel, Sequential, Step
from protocol.run import RunRequest, RunResult
from tests.kit import Run, calls, eventually, house, replay, says
from tests.workflows.hands import bank, told
from worker import OPTIONS
from workflows.agent_run import AgentRun
from workflows.scope import MOST_PASSED_ON


async def test_many_large_edits_at_once(client: Client) -> None:
    """4.8 MB of arguments, decided at one moment: they run one after the other, and the run is not ended for it"""
    seen: list[int] = []

    @tool(review=True)
    def keep(n: int, text: str = "") -> str:
        seen.append(len(text))
        return "kept"

    script = [calls(*(("keep", f"c{n}", {"n": n}) for n in range(10))), says("done")]
    async with bank(client, script, keep) as (h, agent, _):
        started = await h.start(agent)
        run = Run(client.get_workflow_handle(started.id, result_type=RunResult))
        waiting = await run.waiting(10)
        large = "e" * 480_000
        await asyncio.gather(
            *(
                run.signal(each.id, {"decision": "edit", "arguments": {"n": n, "text": large}})
                for n, each in enumerate(waiting)
            )
        )
        assert (await run.result()).status == "completed"
        assert seen == [480_000] * 10
        # The server may break a task off to make room for signals of that size; the run is none the worse for it.
        h.runs.clear()
        await replay(await run.history())


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_more_calls_at_once_than_the_server_takes(client: Client) -> None:
    """One reply with 2,200 calls; the server takes 2,000 activities of a run"""
    done: list[int] = []

    @tool
    async def note(n: int) -> str:
        done.append(n)
        return "noted"

    script = [calls(*(("note", f"c{n}", {"n": n}) for n in range(2_200))), says("done")]
    async with house(client, [note], script) as h:
        started = await h.start(Chat(name="bank", tools=(note.spec,)))
        run = Run(client.get_workflow_handle(started.id, result_type=RunResult))
        async with asyncio.timeout(150):
            assert (await run.result()).answer == "done"
        assert sorted(done) == list(range(2_200))
        h.runs.clear()


async def test_long_answers_are_cut_on_their_way_to_other_agents(client: Client) -> None:
    """Three writers of 0.9 MB each, joined, as the input of one tool"""
    seen: list[str] = []

    @tool
    def store(text: str) -> str:
        seen.append(text)
        return "stored"

    writers = Parallel(name="all", children=tuple(Chat(name=f"w{n}") for n in range(3)))
    tree = Sequential(name="team", children=(writers, Step(name="keep", tool=store.spec, input="text")))
    async with house(client, [store], lambda prompt: says("w" * 900_000)) as h:
        run = await h.start(tree)
        assert (await run.result()).status == "completed"
        [text] = seen
        assert len(text) <= MOST_PASSED_ON + 100
        assert "characters hidden" in text
        await run.replay()


async def test_answers_that_come_before_their_questions_under_one_request_id(client: Client) -> None:
    """A person sees two questions by query and answers both at once, before the workflow has opened them"""
    queue = f"early-{uuid.uuid4()}"
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def two() -> str:
        first, second = resume_context(str, part="p1"), resume_context(str, part="p2")
        if not interrupt_state().was_interrupted:
            started.set()
            await go_on.wait()
            raise CompositeInterrupt("which?", {"x": 1}, parts={"p1": "one", "p2": "two"}, expects=str)
        return f"{first.data} {second.data}"

    model = ScriptedModel({"": lines([calls(("two", "c1", {})), says("done")])})
    acts = [ModelActivities({"": model}).complete, *Toolbox([two]).activities()]
    options = {key: value for key, value in OPTIONS.items() if key != "workflow_runner"}
    async with Worker(client, task_queue=queue, activities=acts, **options):
        async with Worker(client, task_queue=queue, workflows=[AgentRun], **OPTIONS):
            handle = await client.start_workflow(
                "AgentRun",
                RunRequest(task="go", agent=Chat(name="bank", tools=(two.spec,))),
                id=queue,
                task_queue=queue,
                result_type=RunResult,
            )
            run = Run(handle)
            await started.wait()
        answers = {
            "bank>two:c1>p1": {"decision": "resume", "data": "A"},
            "bank>two:c1>p2": {"decision": "resume", "data": "B"},
        }
        await run.signal("resume", {"targets": answers, "request_id": "r1"})
        go_on.set()

        async def both_came() -> bool:
            return (
                await run.events("ACTIVITY_TASK_COMPLETED") == 2
            )  # the model's reply, and what the tool asks

        await eventually(both_came, "the answers and the questions in one task")
        async with Worker(client, task_queue=queue, workflows=[AgentRun], **OPTIONS):
            result = await run.result()
            assert await run.events("WORKFLOW_TASK_FAILED") == 0
    assert [message.content for message in result.transcript if message.role == "tool"] == ["A B"]
    assert {entry.outcome for entry in result.audit.closed} == {"resumed"}
    await run.replay()


async def test_a_worker_that_is_shut_down_leaves_an_unknown_outcome(client: Client) -> None:
    """As one that is lost: nobody knows how far the tool came"""
    begun = asyncio.Event()

    @tool(approval=True)
    async def pay() -> str:
        begun.set()
        await asyncio.sleep(30)
        return "paid"

    script = [calls(("pay", "p1", {})), says("done")]
    agent = Chat(name="bank", tools=(pay.spec,))
    async with house(client, [pay], script, graceful_shutdown_timeout=timedelta(seconds=0.2)) as h:
        run = await h.start(agent)
        await run.waiting(1)
        await run.approve("bank>pay:p1")
        await begun.wait()
        h.runs.clear()
    async with house(client, [pay], script, queue=h.queue) as again:
        result = await run.result()
        assert "whether it took effect is unknown" in told(again)["p1"]
    assert [entry.outcome for entry in result.audit.closed] == ["unknown"]
