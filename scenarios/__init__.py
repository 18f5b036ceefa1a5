"""The eight patterns of asking a person, one file each."""

from activities.scripted_model import Script
from activities.tools import FunctionTool
from protocol.errors import BadInput
from scenarios import (
    approval,
    deep_agent,
    feedback_loop,
    follow_up,
    nested,
    plan_execute_replan,
    review_edit,
    supervisor,
)
from scenarios.scenario import Scenario, Variant

SCENARIOS: dict[str, Scenario] = {
    module.SCENARIO.name: module.SCENARIO
    for module in (
        approval,
        review_edit,
        feedback_loop,
        follow_up,
        supervisor,
        plan_execute_replan,
        deep_agent,
        nested,
    )
}


def find(name: str) -> Scenario:
    """The scenario of that name. Raises `BadInput` naming those there are."""
    found = SCENARIOS.get(name)
    if found is None:
        raise BadInput(f"there is no scenario '{name}'; there are: {', '.join(SCENARIOS)}")
    return found


def all_tools() -> tuple[FunctionTool, ...]:
    """The tools of all scenarios, each once."""
    return tuple(dict.fromkeys(each for scenario in SCENARIOS.values() for each in scenario.tools))


def scripts() -> dict[str, Script]:
    """What the offline model reads from, by scenario."""
    return {name: scenario.script for name, scenario in SCENARIOS.items()}


__all__ = ["SCENARIOS", "Scenario", "Variant", "all_tools", "find", "scripts"]
