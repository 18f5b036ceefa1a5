"""A chat agent with a list of things to do and sub-agents for its tasks, a general-purpose one included."""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from protocol import strict_json, texts
    from protocol.agents import Deep, children
    from protocol.messages import ToolOffer, User
    from protocol.run import Answer, Call
    from workflows.agents.chat import Offered, react, tell_child, tools
    from workflows.gates import Told
    from workflows.scope import Scope

TASK = "task"
TODOS = "write_todos"

TODO = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "activeForm": {"type": "string"},
        "status": {"enum": ["pending", "in_progress", "completed"]},
    },
    "required": ["content", "status"],
    "additionalProperties": False,
}


async def deep(me: Scope, spec: Deep) -> Answer:
    offered = {**tools(me, spec), TODOS: _todos()}
    if children(spec):
        offered[TASK] = _task(me, spec)
    return await react(me, spec, offered)


def _todos() -> Offered:
    async def answer(call: Call, arguments: dict[str, Any]) -> Told:
        return Told(texts.todos_written(strict_json.compact(arguments["todos"])), "done")

    parameters = {
        "type": "object",
        "properties": {"todos": {"type": "array", "items": TODO}},
        "required": ["todos"],
        "additionalProperties": False,
    }
    return Offered(ToolOffer(name=TODOS, description=texts.TODOS, parameters=parameters), answer)


def _task(me: Scope, spec: Deep) -> Offered:
    agents = {agent.name: agent for agent in children(spec)}

    async def answer(call: Call, arguments: dict[str, Any]) -> Told:
        name = arguments["subagent_type"]
        if name not in agents:
            return Told(texts.unknown_agent(name, list(agents)), "failed")
        return await tell_child(me, call, agents[name], [User(content=arguments["description"])])

    return Offered(
        ToolOffer(
            name=TASK,
            description=texts.TASK + texts.agent_lines([(a.name, a.description) for a in agents.values()]),
            parameters={
                "type": "object",
                "properties": {
                    "subagent_type": {"type": "string"},
                    "description": {"type": "string", "description": texts.AGENT_REQUEST},
                },
                "required": ["subagent_type", "description"],
                "additionalProperties": False,
            },
        ),
        answer,
        lambda arguments: arguments["subagent_type"] if arguments["subagent_type"] in agents else None,
    )
