"""Shows the latest content to a person: the way out of a loop belongs to them, not to the model."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.agents import Review
    from protocol.interrupts import Accept, Closed, Feedback, Revise
    from protocol.run import Answer
    from workflows.gates import own_call
    from workflows.scope import Scope


async def review(me: Scope, spec: Review) -> Answer:
    call = own_call(me)
    round = me.address.last.visit
    question = Feedback(content=me.latest or me.task, round=round, when="tool")
    decision = await me.ask(call, me.address, question, deadline=spec.deadline, approvers=spec.approvers)
    match decision:
        case Accept() | Closed(lets_through=True):
            return Answer(text=question.content, exits=True)
        case Revise(feedback=feedback):
            call.facts.append(f"a person asked for changes: {feedback}")
            return Answer(text=feedback)
        case Closed(outcome="expired", fails=True):
            return me.ended("failed", texts.expired(spec.name))
        case Closed(outcome="expired"):
            return me.ended("rejected", texts.expired(spec.name))
        case _:
            return me.ended("rejected", texts.withdrawn(spec.name, None))
