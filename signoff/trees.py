"""Agent trees in Python: functions that take tools as they are and refuse a tree that cannot run when it is built."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from activities.tools import FunctionTool
from protocol import agents as data
from protocol.agents import AnyAgent, Deadline, Gate, ModelSpec, ToolSpec, check_tree

AnyTool = FunctionTool | ToolSpec
"""A function made a tool by `tool`, or the description of one that another worker serves."""

Built = TypeVar("Built", bound=AnyAgent)


def chat(
    name: str,
    *,
    instructions: str = "",
    tools: Iterable[AnyTool] = (),
    agents: Iterable[AnyAgent] = (),
    gates: Mapping[str, Gate] | None = None,
    return_direct: Iterable[str] = (),
    max_turns: int = 20,
    model: ModelSpec | None = None,
    description: str = "",
) -> data.Chat:
    """The ReAct loop: model, tools in parallel, until an answer without tool calls.

    `agents` are offered as tools; `gates` replace the gates of the tools they name. Raises `BadTree`.
    """
    return _checked(
        data.Chat(
            name=name,
            description=description,
            instructions=instructions,
            tools=_specs(tools),
            agents=tuple(agents),
            gates=dict(gates or {}),
            return_direct=tuple(return_direct),
            max_turns=max_turns,
            model=model,
        )
    )


def supervisor(
    name: str,
    *,
    agents: Iterable[AnyAgent],
    instructions: str = "",
    tools: Iterable[AnyTool] = (),
    max_turns: int = 20,
    model: ModelSpec | None = None,
    description: str = "",
) -> data.Supervisor:
    """A chat agent that hands work to `agents` and always gets control back. Raises `BadTree`."""
    return _checked(
        data.Supervisor(
            name=name,
            description=description,
            instructions=instructions,
            tools=_specs(tools),
            agents=tuple(agents),
            max_turns=max_turns,
            model=model,
        )
    )


def deep(
    name: str,
    *,
    agents: Iterable[AnyAgent] = (),
    instructions: str = "",
    tools: Iterable[AnyTool] = (),
    general_purpose: bool = True,
    max_turns: int = 20,
    model: ModelSpec | None = None,
    description: str = "",
) -> data.Deep:
    """A chat agent with a list of things to do and sub-agents for its tasks. Raises `BadTree`."""
    return _checked(
        data.Deep(
            name=name,
            description=description,
            instructions=instructions,
            tools=_specs(tools),
            agents=tuple(agents),
            general_purpose=general_purpose,
            max_turns=max_turns,
            model=model,
        )
    )


def step(
    name: str,
    tool: AnyTool,
    *,
    arguments: Mapping[str, Any] | None = None,
    input: str | None = None,
    on_reject: Any = "end",
) -> data.Step:
    """A tool run without a model; `input` names the argument that receives the previous answer. Raises `BadTree`."""
    return _checked(
        data.Step(
            name=name, tool=_spec(tool), arguments=dict(arguments or {}), input=input, on_reject=on_reject
        )
    )


def sequential(name: str, *children: AnyAgent, description: str = "") -> data.Sequential:
    """Children one after the other on one shared conversation. Raises `BadTree`."""
    return _checked(data.Sequential(name=name, description=description, children=children))


def parallel(name: str, *children: AnyAgent, description: str = "") -> data.Parallel:
    """Children at once; one waiting or failing does not hold the others. Raises `BadTree`."""
    return _checked(data.Parallel(name=name, description=description, children=children))


def loop(name: str, *children: AnyAgent, max_rounds: int | None = None, description: str = "") -> data.Loop:
    """Children in turn until a person accepts (`review`), or `max_rounds` have passed. Raises `BadTree`."""
    return _checked(data.Loop(name=name, description=description, children=children, max_rounds=max_rounds))


def review(name: str, *, approvers: Iterable[str] = (), deadline: Deadline | None = None) -> data.Review:
    """Shows the latest content to a person, who accepts it or says what to change. Raises `BadTree`."""
    return _checked(data.Review(name=name, approvers=tuple(approvers), deadline=deadline))


def plan_execute(
    name: str,
    *,
    executor: data.Chat,
    planner: data.Chat | None = None,
    replanner: data.Chat | None = None,
    max_rounds: int = 10,
    description: str = "",
) -> data.PlanExecute:
    """Plans, executes one step at a time, replans after each. Raises `BadTree`."""
    return _checked(
        data.PlanExecute(
            name=name,
            description=description,
            planner=planner or data.Chat(name="planner", instructions=PLANNER),
            executor=executor,
            replanner=replanner or data.Chat(name="replanner", instructions=REPLANNER),
            max_rounds=max_rounds,
        )
    )


PLANNER = "Break the objective down into few, concrete steps in their order, and call plan with them."
REPLANNER = (
    "Look at what was done and what people decided about it. If the objective is reached, or cannot be reached, call "
    "respond with the final answer; else call plan with the steps that remain. Never repeat a step that is done."
)


def _spec(tool: AnyTool) -> ToolSpec:
    return tool.spec if isinstance(tool, FunctionTool) else tool


def _specs(tools: Iterable[AnyTool]) -> tuple[ToolSpec, ...]:
    return tuple(_spec(tool) for tool in tools)


def _checked(tree: Built) -> Built:
    check_tree(tree)
    return tree
