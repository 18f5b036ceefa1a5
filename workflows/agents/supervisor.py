"""A chat agent that hands work to other agents; control always comes back to it with their answer."""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import texts
    from protocol.agents import Supervisor
    from protocol.messages import Message, ToolOffer, User
    from protocol.run import Answer, Call
    from workflows.agents.chat import Offered, react, tell_child, tools
    from workflows.gates import Told
    from workflows.scope import Scope

TRANSFER = "transfer_to_agent"


async def supervisor(me: Scope, spec: Supervisor) -> Answer:
    return await react(me, spec, {**tools(me, spec), TRANSFER: _transfer(me, spec)})


def _transfer(me: Scope, spec: Supervisor) -> Offered:
    agents = {agent.name: agent for agent in spec.agents}

    async def answer(call: Call, arguments: dict[str, Any]) -> Told:
        name = arguments["agent_name"]
        if name not in agents:
            return Told(texts.unknown_agent(name, list(agents)), "failed")
        return await tell_child(me, call, agents[name], _so_far(me, spec, call, arguments.get("request", "")))

    return Offered(
        ToolOffer(
            name=TRANSFER,
            description=texts.TRANSFER + texts.agent_lines([(a.name, a.description) for a in spec.agents]),
            parameters={
                "type": "object",
                "properties": {
                    "agent_name": {"type": "string"},
                    "request": {"type": "string", "description": texts.AGENT_REQUEST},
                },
                "required": ["agent_name"],
                "additionalProperties": False,
            },
        ),
        answer,
        lambda arguments: arguments["agent_name"] if arguments["agent_name"] in agents else None,
    )


def _so_far(me: Scope, spec: Supervisor, call: Call, request: str) -> list[Message]:
    """What the sub-agent may see: what the supervisor was given and heard before this reply, then its request."""
    messages: list[Message] = list(me.opening)
    for turn in me.memory.turns:
        messages += [User(content=text) for text in turn.heard]
        if any(each is call for each in turn.calls):
            break
        if turn.reply.content.strip():
            messages.append(User(content=texts.said_by(spec.name, turn.reply.content)))
        for each in turn.calls:
            if each.name == TRANSFER and each.outcome is not None:
                who = each.segment.partition("#")[0].partition(":")[0]
                messages.append(User(content=texts.said_by(who, each.outcome)))
    if request.strip():
        messages.append(User(content=request))
    return messages
