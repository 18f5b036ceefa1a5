"""Children one after the other on one shared conversation."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.agents import AnyAgent, Sequential
    from protocol.messages import User
    from protocol.run import Answer
    from workflows.scope import Scope


async def sequential(me: Scope, spec: Sequential) -> Answer:
    heard, latest, facts = list(me.opening), me.latest or me.task, list[str]()
    wanted: list[str] = []
    exits = False  # the loop around this ends when it is through
    for child in spec.children:
        answer = await me.child(child, 1, heard, latest).tell()
        facts += answer.facts
        if stops(child, answer):
            return answer.model_copy(update={"facts": tuple(facts)})
        said = texts.said_by(child.name, answer.text)
        exits = exits or answer.exits
        if child.kind == "review" and not answer.exits:
            wanted.append(
                said
            )  # what a person wants changed is no content, but a loop around this must hear it
        else:
            latest = answer.text
        heard.append(User(content=said))
    return Answer(status="completed", text="\n\n".join([latest, *wanted]), exits=exits, facts=tuple(facts))


def stops(child: AnyAgent, answer: Answer) -> bool:
    """Whether no later child may start: the answer is none, and the node does not say in writing to continue."""
    return answer.status != "completed" and not (
        answer.status == "rejected" and child.on_reject == "continue"
    )
