"""A batch of five calls, two of them gated: three run at once and never again, and the two are decided apart."""

from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client

from tests.kit import calls, eventually, says
from tests.workflows.hands import Effects, bank, both_entries, ids, send, told
from workflows.agent_run import AgentRun

FIVE = calls(
    ("note", "n1", {"text": "a"}),
    ("pay", "p1", {"amount": 1}),
    ("boom", "b1", {}),
    ("pay", "p2", {"amount": 2}),
    ("lookup", "l1", {}),
)


@workflow.defn(name="AgentRun")
class TurnsAtEveryDecision(AgentRun):
    """Turns the page whenever a decision was taken."""

    @workflow.init
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._decided = len(self._state.board.audit.closed)

    @workflow.run
    async def run(self, *args: Any) -> Any:
        return await super().run(*args)

    def page_is_full(self) -> bool:
        return len(self._state.board.audit.closed) > self._decided


def free_ones(effects: Effects) -> list[int]:
    return [effects.count(name) for name in ("note", "boom", "lookup")]


@both_entries
@pytest.mark.parametrize("workflow_class", [AgentRun, TurnsAtEveryDecision], ids=["one page", "a page each"])
async def test_three_run_at_once_and_each_of_the_two_is_decided_on_its_own(
    client: Client, entry: str, workflow_class: type
) -> None:
    async with bank(client, [FIVE, says("done")], workflows=[workflow_class]) as (h, agent, effects):
        run = await h.start(agent)
        before = await run.waiting(2)

        async def free_ones_ran() -> bool:
            return free_ones(effects) == [1, 1, 1]

        await eventually(free_ones_ran, "the three free ones")
        assert effects.count("pay") == 0
        await send(run, entry, {"bank>pay:p2": {"decision": "approve"}})

        async def second_paid() -> bool:
            return effects.count("pay", 2) == 1

        await eventually(second_paid, "the second payment")
        [left] = await run.waiting(1)
        assert left == before[0]
        await send(run, entry, {"bank>pay:p1": {"decision": "reject", "reason": "no"}})
        result = await run.result()
        assert free_ones(effects) == [1, 1, 1]
        assert effects.count("pay") == 1
        assert list(told(h)) == ["n1", "p1", "b1", "p2", "l1"]
        assert len(h.model.prompts) == 2
        assert ids(result.audit.closed) == ["bank>pay:p2", "bank>pay:p1"]
        assert result.pages == (0 if workflow_class is AgentRun else 1)  # between the two decisions
