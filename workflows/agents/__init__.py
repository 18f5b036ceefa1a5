"""The kinds of agents, one file each, and the breakpoints that any of them can have."""

from typing import TYPE_CHECKING

from temporalio import workflow

from workflows import gates
from workflows.agents.chat import chat
from workflows.agents.deep import deep
from workflows.agents.loop import loop
from workflows.agents.parallel import parallel
from workflows.agents.plan_execute import plan_execute
from workflows.agents.review import review
from workflows.agents.sequential import sequential
from workflows.agents.step import step
from workflows.agents.supervisor import supervisor

with workflow.unsafe.imports_passed_through():
    from protocol.agents import (
        Chat,
        Deep,
        Loop,
        Parallel,
        PlanExecute,
        Review,
        Sequential,
        Step,
        Supervisor,
    )
    from protocol.run import Answer

if TYPE_CHECKING:
    from workflows.scope import Scope


async def tell(me: "Scope") -> Answer:
    """The story of an agent of any kind, with its breakpoints around it."""
    if me.stops_before(me.address):
        refusal = await gates.breakpoint(me, "before", me.spec.name, {"task": me.task}, None)
        if refusal is not None:
            return refusal
    if not me.stops_after(me.address):
        return await _of_its_kind(me)
    call = gates.own_call(me)
    if call.result is None:
        answer = await _of_its_kind(me)
        call.result = answer.model_dump_json()  # remembered, since what gave it must not be told again
    answer = Answer.model_validate_json(call.result)
    if answer.status != "completed":
        return answer
    return await gates.breakpoint(me, "after", me.spec.name, {"task": me.task}, answer) or answer


async def _of_its_kind(me: "Scope") -> Answer:
    if me.story is not None:
        return await me.story(me)
    match me.spec:
        case Supervisor() as spec:
            return await supervisor(me, spec)
        case Deep() as spec:
            return await deep(me, spec)
        case Chat() as spec:
            return await chat(me, spec)
        case Step() as spec:
            return await step(me, spec)
        case Sequential() as spec:
            return await sequential(me, spec)
        case Parallel() as spec:
            return await parallel(me, spec)
        case Loop() as spec:
            return await loop(me, spec)
        case Review() as spec:
            return await review(me, spec)
        case PlanExecute() as spec:
            return await plan_execute(me, spec)
