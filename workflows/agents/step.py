"""A tool run directly as a node, without a model."""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.agents import Step
    from protocol.run import Answer, Status
    from workflows.calls import call_tool
    from workflows.gates import Told, own_call
    from workflows.schema import problem
    from workflows.scope import Scope

ENDS: dict[str, Status] = {
    "done": "completed",
    "failed": "failed",
    "unknown": "failed",
    "cancelled": "cancelled",
}


async def step(me: Scope, spec: Step) -> Answer:
    arguments: dict[str, Any] = dict(spec.arguments)
    if spec.input is not None:
        arguments[spec.input] = me.latest
    unfit = problem(spec.tool.parameters, arguments)
    if unfit is not None:
        return me.ended("failed", texts.bad_arguments(spec.tool.name, unfit))
    told: Told = await call_tool(me, own_call(me), me.address, spec.tool, arguments, stops=False)
    return me.ended("failed" if told.fails else ENDS.get(told.outcome, "rejected"), told.text)
