"""Plans, executes one step at a time, and replans after each with what people decided meanwhile."""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import strict_json, texts
    from protocol.agents import Chat, PlanExecute
    from protocol.messages import ToolOffer, User
    from protocol.run import Answer, Call
    from workflows.agents.chat import Offered, agents_as_tools, one_text, react, tools
    from workflows.gates import Told
    from workflows.scope import Scope

PLAN = "plan"
RESPOND = "respond"


async def plan_execute(me: Scope, spec: PlanExecute) -> Answer:
    facts: list[str] = []
    opening = [User(content=texts.objective(me.task))]
    planned = await me.child(spec.planner, 1, opening, story=_planner).tell()
    if planned.status != "completed":
        return planned
    plan, done = _steps(planned), list[tuple[str, str]]()
    for n in range(1, spec.max_rounds + 1):
        asked = [User(content=texts.step_to_do(me.task, plan, done))]
        ran = await me.child(spec.executor, n, asked).tell()
        facts += ran.facts
        said = (
            ran.text
            if ran.status == "completed"
            else texts.no_answer(spec.executor.name, ran.status, ran.text)
        )
        done.append((plan[0], said + texts.by_people(list(ran.facts))))
        asked = [User(content=texts.progress(me.task, plan, done))]
        chosen = await me.child(spec.replanner, n, asked, story=_replanner).tell()
        if chosen.status != "completed":
            return chosen.model_copy(update={"facts": tuple(facts)})
        if chosen.text.startswith(f"{RESPOND} "):
            response = strict_json.read(chosen.text.partition(" ")[2])["response"]
            return Answer(status="completed", text=response, facts=tuple(facts))
        plan = _steps(chosen)
    text = f"{texts.after_rounds(spec.max_rounds)}\n\n{texts.steps_done(done)}".rstrip()
    return Answer(status="stopped", text=text, facts=tuple(facts))


def _steps(chosen: Answer) -> list[str]:
    steps: list[str] = strict_json.read(chosen.text.partition(" ")[2])["steps"]
    return steps


async def _planner(me: Scope) -> Answer:
    return await _choose(me, (PLAN,))


async def _replanner(me: Scope) -> Answer:
    return await _choose(me, (PLAN, RESPOND))


async def _choose(me: Scope, names: tuple[str, ...]) -> Answer:
    """The story of an agent that must call one of *names*; its answer is that call."""
    spec = me.spec
    assert isinstance(spec, Chat)
    choices = {name: _choice(name) for name in names}
    return await react(me, spec, {**tools(me, spec), **agents_as_tools(me, spec), **choices}, must_call=names)


def _choice(name: str) -> Offered:
    async def answer(call: Call, arguments: dict[str, Any]) -> Told:
        return Told(strict_json.compact(arguments), "done")

    if name == RESPOND:
        return Offered(
            ToolOffer(
                name=RESPOND, description=texts.RESPOND, parameters=one_text("response", "The final answer.")
            ),
            answer,
        )
    steps = {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "minItems": 1}
    parameters = {
        "type": "object",
        "properties": {"steps": steps},
        "required": ["steps"],
        "additionalProperties": False,
    }
    return Offered(ToolOffer(name=PLAN, description=texts.PLAN, parameters=parameters), answer)
