"""Histories of every pattern, waiting and finished, still replay; and a change of the order of commands is seen."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from converter import DATA_CONVERTER
from scenarios import SCENARIOS
from tests.kit import replay
from workflows.agent_run import AgentRun

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.json"))


def read(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


def test_there_is_a_waiting_a_finished_and_a_carried_history_of_every_pattern() -> None:
    """B115"""
    wanted = {f"{name}.{state}" for name in SCENARIOS for state in ("paused", "finished", "page")}
    assert {path.stem for path in HISTORIES} == wanted
    for path in HISTORIES:
        carried = read(path).events[0].workflow_execution_started_event_attributes
        assert bool(carried.continued_execution_run_id) == (".page" in path.name)
        kinds = {event.WhichOneof("attributes") for event in read(path).events}
        assert ("workflow_execution_completed_event_attributes" in kinds) == (".paused" not in path.name)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_old_histories_still_replay(path: Path) -> None:
    """B115"""
    await replay(read(path))


@workflow.defn(name="AgentRun")
class Careless(AgentRun):
    @workflow.init
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)

    @workflow.run
    async def run(self, *args: Any) -> Any:
        await workflow.sleep(timedelta(seconds=1))
        return await super().run(*args)


@workflow.defn(name="AgentRun")
class Careful(AgentRun):
    @workflow.init
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)

    @workflow.run
    async def run(self, *args: Any) -> Any:
        if workflow.patched("a-timer-first"):
            await workflow.sleep(timedelta(seconds=1))
        return await super().run(*args)


async def replayed_with(workflow_class: type, path: Path) -> None:
    replayer = Replayer(
        workflows=[workflow_class],
        data_converter=DATA_CONVERTER,
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    await replayer.replay_workflow(read(path))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_command_added_without_a_guard_is_seen(path: Path) -> None:
    """B115"""
    with pytest.raises(NondeterminismError):
        await replayed_with(Careless, path)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_command_added_behind_a_guard_carries_old_runs_over(path: Path) -> None:
    """B115"""
    await replayed_with(Careful, path)
