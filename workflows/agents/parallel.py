"""Children at once, each with a conversation of its own; one waiting or failing does not hold the others."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.agents import Parallel, has_way_out
    from protocol.run import Answer
    from workflows.running import together
    from workflows.scope import Scope


async def parallel(me: Scope, spec: Parallel) -> Answer:
    branches = [me.child(child, 1, me.opening, me.latest or me.task) for child in spec.children]
    answers: dict[str, Answer] = {}

    async def tell(branch: Scope) -> None:
        answers[branch.spec.name] = await branch.tell()

    await together([tell(branch) for branch in branches])
    ordered = [(child.name, answers[child.name]) for child in spec.children]
    said = [
        texts.said_by(name, answer.text)
        if answer.status == "completed"
        else texts.no_answer(name, answer.status, answer.text)
        for name, answer in ordered
    ]
    facts = tuple(fact for _, answer in ordered for fact in answer.facts)
    unfinished = [answer.status for _, answer in ordered if answer.status != "completed"]
    status = "completed" if len(unfinished) < len(ordered) else unfinished[0]
    asked = [answers[child.name] for child in spec.children if has_way_out(child)]
    exits = bool(asked) and all(answer.exits for answer in asked)  # everybody who was asked accepts
    return Answer(status=status, text="\n\n".join(said), exits=exits, facts=facts)
