"""A coroutine around a call per gate, each of the same shape as what it wraps: before, gate, tool, after.

Whatever a gate did not foresee is "not run": never a yes, and never a raise in workflow code.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import strict_json, texts
    from protocol.address import Address
    from protocol.agents import Gate, ToolSpec
    from protocol.interrupts import Approval, Approve, Closed, Decision, Edit, Reject, Review, When
    from protocol.run import Answer, Call
    from workflows.scope import Scope

Outcome = Literal["done", "rejected", "expired", "withdrawn", "failed", "unknown", "cancelled"]


@dataclass(frozen=True)
class Told:
    """What became of a call: what the model is told, and how it ended. ``fails`` ends the agent as well."""

    text: str
    outcome: Outcome
    fails: bool = False


Run = Callable[[dict[str, Any]], Awaitable[Told]]


def before(me: Scope, call: Call, address: Address, tool: ToolSpec, run: Run) -> Run:
    """Ask before the call by configuration."""

    async def asked(arguments: dict[str, Any]) -> Told:
        if "before" not in call.passed:
            question = Approval(tool=tool.name, arguments=arguments, because=because(me), when="before")
            refusal = refused(await me.ask(call, address, question), tool.name)
            if refusal is not None:
                return noted(call, refusal)
            call.passed.append("before")
        return await run(arguments)

    return asked


def gate(me: Scope, call: Call, address: Address, tool: ToolSpec, rule: Gate, run: Run) -> Run:
    """Ask as the tool's gate says, unless an equal call was approved to be remembered."""

    async def gated(arguments: dict[str, Any]) -> Told:
        if rule.kind == "deny":
            return noted(call, Told(texts.disapproved(tool.name, rule.reason), "rejected"))
        if "gate" not in call.passed:
            key = remembered_as(me, tool, rule, arguments)
            if key not in me.run.state.remembered:
                question = gate_question(me, tool, rule, arguments)
                answer = await me.ask(
                    call, address, question, deadline=rule.deadline, approvers=rule.approvers
                )
                refusal = refused(answer, tool.name)
                if refusal is not None:
                    return noted(call, refusal)
                consent(me, call, tool.name, arguments, answer, key)
            call.passed.append("gate")
        told = await run(arguments if call.effective is None else call.effective)
        return as_consented(call, told)

    return gated


def after(me: Scope, call: Call, address: Address, tool: ToolSpec, run: Run) -> Run:
    """Ask whether the result may be told, by configuration."""

    async def asked(arguments: dict[str, Any]) -> Told:
        if call.result is None:
            told = await run(arguments)
            if told.outcome != "done":
                return told
            call.result = told.text
        question = Approval(
            tool=tool.name, arguments=arguments, because=because(me), when="after", result=call.result
        )
        answer = await me.ask(call, address, question)
        match answer:
            case Approve() | Closed(lets_through=True):
                return Told(call.result, "done")
            case Reject(reason=reason):
                return noted(call, Told(texts.withheld(tool.name, reason), "rejected"))
            case Closed(outcome="expired", fails=fails):
                return noted(call, Told(texts.expired_after(tool.name), "expired", fails))
            case _:
                return noted(call, Told(texts.withheld(tool.name, None), "withdrawn"))

    return asked


async def breakpoint(
    me: Scope, when: When, name: str, arguments: dict[str, Any], result: Answer | None
) -> Answer | None:
    """Ask at an agent or step itself, by configuration: the answer that ends it, or nothing if it may go on."""
    call = own_call(me)
    if when in call.passed:
        return None
    text = None if result is None else result.text
    question = Approval(tool=name, arguments=arguments, when=when, result=text)
    decision = await me.ask(call, me.address, question)
    fails = isinstance(decision, Closed) and decision.fails
    match decision:
        case Approve() | Closed(lets_through=True):
            call.passed.append(when)
            return None
        case Reject(reason=reason):
            said = texts.disapproved(name, reason) if result is None else texts.withheld(name, reason)
        case Closed(outcome="expired"):
            said = texts.expired(name) if result is None else texts.expired_after(name)
        case _:
            said = texts.withdrawn(name, None) if result is None else texts.withheld(name, None)
    call.facts.append(said)
    return me.ended("failed" if fails else "rejected", said)


def own_call(me: Scope) -> Call:
    """What stands at the agent's own address: its breakpoints, a step's tool call, a review."""
    if me.memory.call is None:
        me.memory.call = Call(segment=str(me.address.last), name=me.spec.name)
    return me.memory.call


# ------------------------------------------------------------------------------------- what gates agree on


def gate_question(me: Scope, tool: ToolSpec, rule: Gate, arguments: dict[str, Any]) -> Approval | Review:
    if rule.kind == "review":
        return Review(
            tool=tool.name, arguments=arguments, parameters=tool.parameters, because=because(me), when="gate"
        )
    return Approval(tool=tool.name, arguments=arguments, because=because(me), when="gate")


def refused(answer: Decision | Closed, tool: str) -> Told | None:
    """The end that *answer* means for a call that has not run; nothing if it may run."""
    match answer:
        case Approve() | Edit():
            return None
        case Reject(reason=reason):
            return Told(texts.disapproved(tool, reason), "rejected")
        case Closed(lets_through=True):
            return None
        case Closed(outcome="expired", fails=fails):
            return Told(texts.expired(tool), "expired", fails)
        case Closed(outcome="withdrawn", note=note):
            return Told(texts.withdrawn(tool, note), "withdrawn")
        case Closed(outcome="superseded"):
            return Told(texts.superseded(tool), "withdrawn")
        case Closed(outcome="cancelled"):
            return Told(texts.CANCELLED, "cancelled")
        case _:
            return Told(texts.disapproved(tool, None), "rejected")


def consent(
    me: Scope, call: Call, tool: str, arguments: dict[str, Any], answer: Decision | Closed, key: str
) -> None:
    """Note on *call* what a person allowed."""
    match answer:
        case Approve(comment=comment, remember=remember):
            call.comment = comment
            if remember == "call":
                me.run.state.remembered[key] = str(me)
        case Edit(arguments=changed) if changed != arguments:
            call.effective = changed
            call.facts.append(f"a person changed the arguments of '{tool}' to {strict_json.compact(changed)}")
        case _:
            pass


def as_consented(call: Call, told: Told) -> Told:
    """The result with what a person said or changed beside it."""
    if told.outcome != "done":
        return told
    text = told.text if call.effective is None else texts.edited(call.effective, told.text)
    return Told(texts.commented(text, call.comment), "done")


def noted(call: Call, told: Told) -> Told:
    """Remember a refusal among the facts that a planner above hears."""
    call.facts.append(told.text)
    return told


def remembered_as(me: Scope, tool: ToolSpec, rule: Gate, arguments: dict[str, Any]) -> str:
    """The same owning agent, activity, canonical arguments and gate; nothing wider."""
    gate_as_data = rule.model_dump(mode="json")
    return strict_json.digest([list(me.address.names), tool.type, arguments, gate_as_data], 32)


def because(me: Scope) -> str:
    """The model's text beside its calls."""
    turns = me.memory.turns
    return turns[-1].reply.content if turns else ""
