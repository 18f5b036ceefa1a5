"""The ReAct loop: model, tools in parallel, until an answer without tool calls."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.agents import AnyAgent, Chat, ModelSpec, ToolSpec, tools_of
    from protocol.messages import Asked, Message, ToolOffer, User
    from protocol.run import Answer, Call, Turn
    from protocol.work import Brief
    from workflows.calls import call_tool
    from workflows.gates import Told
    from workflows.running import together
    from workflows.schema import read_arguments
    from workflows.scope import Scope

MOST_NUDGES = 3
"""Useless replies in a row after which an agent stops."""

Answering = Callable[[Call, dict[str, Any]], Awaitable[Told]]


@dataclass(frozen=True)
class Offered:
    """Something a model may call: what it sees, who answers, and the agent that a call leads to, if to one."""

    offer: ToolOffer
    answer: Answering
    node_of: Callable[[dict[str, Any]], str | None] = lambda arguments: None


async def chat(me: Scope, spec: Chat) -> Answer:
    """A chat agent with its tools, and with other agents as tools."""
    return await react(me, spec, {**tools(me, spec), **agents_as_tools(me, spec)})


async def react(
    me: Scope, spec: Chat, offered: Mapping[str, Offered], *, must_call: tuple[str, ...] = ()
) -> Answer:
    """The loop itself. With *must_call*, words alone are no answer: the first done call of one of these ends it, and
    the answer is that call as JSON text."""
    brief = brief_of(me, spec, offered, bool(must_call))
    conversation = me.is_root and me.run.request.chat
    used = useless = n = 0
    while True:
        turn = await me.turn(n, brief, lambda asked: _node_of(offered, asked))
        n += 1
        used = 1 if turn.heard else used + 1
        await together([_answer(me, call, offered) for call in turn.calls if call.outcome is None])
        if (ended := _ended_by_calls(me, spec, turn, must_call)) is not None:
            return ended
        useless = useless + 1 if (nudge := _nudge(turn, must_call)) else 0
        if useless >= MOST_NUDGES:
            return me.ended("stopped", f"the model gave no answer in {useless} replies in a row")
        turn.nudge = nudge
        done = not turn.calls and not nudge
        if done or used >= spec.max_turns:
            if not conversation:
                text = turn.reply.content or turn.reply.refusal or texts.SAID_NOTHING
                return me.ended("completed", text) if done else _at_the_limit(me, spec)
            if not done and not turn.limit:
                turn.limit = True  # noted once, however often the story is told
                me.run.desk.note(str(me), texts.after_turns(spec.max_turns))
            if n == len(me.memory.turns) and not await _said_more(me):
                return me.ended("completed", turn.reply.content or texts.SAID_NOTHING)


def _at_the_limit(me: Scope, spec: Chat) -> Answer:
    said = [turn.reply.content for turn in me.memory.turns if turn.reply.content.strip()]
    last = f"; its last words: {said[-1]}" if said else ""
    return me.ended("stopped", texts.after_turns(spec.max_turns) + last)


async def _said_more(me: Scope) -> bool:
    """Wait in a conversation for the next message; false if it was ended."""
    state = me.run.state
    await workflow.wait_condition(lambda: bool(state.inbox) or state.ended)
    return bool(state.inbox)


def _nudge(turn: Turn, must_call: tuple[str, ...]) -> str:
    """What to tell a model whose reply leads nowhere."""
    if turn.reply.says_nothing:
        return texts.EMPTY_REPLY
    if must_call and not turn.calls:
        return texts.must_call(list(must_call))
    return ""


def _ended_by_calls(me: Scope, spec: Chat, turn: Turn, must_call: tuple[str, ...]) -> Answer | None:
    for call in turn.calls:
        if call.status == "fails":
            return me.ended("failed", call.outcome or "")
    chosen = [call for call in turn.calls if call.name in must_call and call.status == "done"]
    if chosen:
        return me.ended("completed", f"{chosen[0].name} {chosen[0].outcome}")
    direct = [call for call in turn.calls if call.name in spec.return_direct and call.status == "done"]
    return me.ended("completed", direct[-1].outcome or "") if direct else None


async def _answer(me: Scope, call: Call, offered: Mapping[str, Offered]) -> None:
    """Bring one call to its outcome and store it; the model is told of everything that went wrong."""
    found = offered.get(call.name)
    if found is None:
        call.outcome, call.status = texts.unknown_tool(call.name, list(offered)), "failed"
        return
    arguments, problem = read_arguments(call.arguments, found.offer.parameters)
    if problem is not None:
        call.outcome, call.status = texts.bad_arguments(call.name, problem), "failed"
        return
    told = await found.answer(call, arguments)
    finish(call, told)


def finish(call: Call, told: Told) -> None:
    """Store what became of a call, and drop what was needed only on the way."""
    call.outcome, call.status = told.text, "fails" if told.fails else told.outcome
    call.interrupted, call.result, call.effective, call.comment = None, None, None, None
    call.passed, call.given, call.parts_asked = [], {}, {}


def _node_of(offered: Mapping[str, Offered], asked: Asked) -> str | None:
    found = offered.get(asked.name)
    if found is None:
        return None
    arguments, problem = read_arguments(asked.arguments, found.offer.parameters)
    return None if problem is not None else found.node_of(arguments)


# ------------------------------------------------------------------------------------------------- offers


def brief_of(me: Scope, spec: Chat, offered: Mapping[str, Offered], must_call: bool) -> Brief:
    return Brief(
        instructions=spec.instructions,
        offers=tuple(each.offer for each in offered.values()),
        model=spec.model or me.run.request.model or ModelSpec(),
        must_call=must_call,
    )


def tools(me: Scope, spec: Chat) -> dict[str, Offered]:
    """The agent's own tools."""

    def offered(tool: ToolSpec) -> Offered:
        async def answer(call: Call, arguments: dict[str, Any]) -> Told:
            return await call_tool(me, call, me.call_address(call), tool, arguments)

        offer = ToolOffer(name=tool.name, description=tool.description, parameters=tool.parameters)
        return Offered(offer, answer)

    return {tool.name: offered(tool) for tool in tools_of(spec)}


def agents_as_tools(me: Scope, spec: Chat) -> dict[str, Offered]:
    """The agents below, each offered as a tool that takes one request."""

    def offered(agent: AnyAgent) -> Offered:
        async def answer(call: Call, arguments: dict[str, Any]) -> Told:
            return await tell_child(me, call, agent, [User(content=arguments["request"])])

        parameters = one_text("request", texts.AGENT_REQUEST)
        offer = ToolOffer(name=agent.name, description=agent.description, parameters=parameters)
        return Offered(offer, answer, lambda arguments: agent.name)

    return {agent.name: offered(agent) for agent in spec.agents}


async def tell_child(me: Scope, call: Call, agent: AnyAgent, opening: list[Message]) -> Told:
    """Have an agent below answer a call; errors inside it reach this one as text."""
    address = me.call_address(call)
    child = me.child(agent, address.last.visit, opening)
    answer = await child.tell()
    call.facts.extend(answer.facts)
    me.run.forget_below(str(address))
    if answer.status == "completed":
        return Told(answer.text, "done")
    return Told(texts.no_answer(agent.name, answer.status, answer.text), "failed")


def one_text(name: str, description: str) -> dict[str, Any]:
    """The schema of an object with one text."""
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
        "required": [name],
        "additionalProperties": False,
    }
