"""Children in turn on the shared conversation, until one exits or the rounds are used up."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.agents import LOOP_ROUNDS, Loop
    from protocol.messages import User
    from protocol.run import Answer
    from workflows.agents.sequential import stops
    from workflows.scope import Scope


async def loop(me: Scope, spec: Loop) -> Answer:
    heard, latest, facts = list(me.opening), me.latest or me.task, list[str]()
    rounds = spec.max_rounds or LOOP_ROUNDS
    for round in range(1, rounds + 1):
        for child in spec.children:
            answer = await me.child(child, round, heard, latest).tell()
            facts += answer.facts
            if answer.exits or stops(child, answer):
                return Answer(status=answer.status, text=answer.text, facts=tuple(facts))
            if child.kind != "review":
                latest = answer.text
            heard.append(User(content=texts.said_by(child.name, answer.text)))
    text = f"{texts.after_rounds(rounds)}; the latest content: {latest}"
    return Answer(status="stopped", text=text, facts=tuple(facts))
