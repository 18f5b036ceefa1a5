"""Agents as data: the tree that a run is started with, and the only thing its workflow reads."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from protocol.address import MAX_BYTES, MAX_DEPTH, MAX_NAME_BYTES, Address, check_name, matches
from protocol.errors import BadAddress, BadTree
from protocol.record import Record, absent, empty

MAX_RESULT = 64 * 1024
MAX_NAME = 200
"""Characters of an activity type or a task queue."""
SHORTEST, LONGEST = 0.01, 1e9
"""Seconds that a time of ours may take; the longest are 31 years."""
"""Characters of a tool result that reach the model; the middle of a longer one is left out."""

MESSAGE_NAMES = frozenset({"resume", "say", "end", "withdraw"})
RESERVED_TOOLS = frozenset({"transfer_to_agent", "task", "write_todos", "plan", "respond"})
FOLLOW_UP = "signoff.follow_up"
"""The activity type of a tool that asks a person its `questions`: the run asks itself, no worker runs anything."""


class Escalation(Record):
    """The next to be asked when a deadline passes: `approvers`, with `after` seconds of their own."""

    approvers: tuple[str, ...]
    after: float = Field(gt=0, le=LONGEST)


class Deadline(Record):
    """How long a question may wait, in seconds from its asking, and what happens then.

    `on_expiry`: reject (the safe default), approve, escalate (to each of `escalate` in turn, then reject) or fail
    (the agent). `reminders` are seconds after asking at which the audit notes that somebody is still waited for.
    """

    after: float = Field(gt=0, le=LONGEST)
    on_expiry: Literal["reject", "approve", "escalate", "fail"] = "reject"
    escalate: tuple[Escalation, ...] = absent(())
    reminders: tuple[Annotated[float, Field(gt=0, le=LONGEST)], ...] = absent(())

    @model_validator(mode="after")
    def _somebody_to_escalate_to(self) -> "Deadline":
        if (self.on_expiry == "escalate") != bool(self.escalate):
            raise ValueError("on_expiry 'escalate' and the list escalate go together")
        return self


class Gate(Record):
    """A rule on a tool: ask a person before it runs (approval, review), or never let it run (deny).

    `conditional` gates are decided by the tool's own activity, on the validated arguments; an error there asks.
    """

    kind: Literal["approval", "review", "deny"]
    conditional: bool = absent(False)
    deadline: Deadline | None = absent()
    approvers: tuple[str, ...] = absent(())
    reason: str = absent("")


class ToolSpec(Record):
    """A tool as the run knows it. `activity` is the activity type, by default the tool's name.

    `attempts` above 1 declares the tool idempotent by its key; else it runs at most once. `deadline` is that of
    questions the tool asks itself. Times in seconds.
    """

    name: str
    description: str = absent("")
    parameters: dict[str, Any]
    activity: str = absent("", max_length=MAX_NAME)
    task_queue: str | None = absent(min_length=1, max_length=MAX_NAME, pattern=r"^([^/]|/[^_])")
    gate: Gate | None = absent()
    deadline: Deadline | None = absent()
    attempts: int = Field(1, ge=1, le=100, exclude_if=lambda value: value == 1)
    on_error: Literal["tell", "fail"] = Field("tell", exclude_if=lambda value: value == "tell")
    timeout: float = Field(600.0, ge=SHORTEST, le=LONGEST, exclude_if=lambda value: value == 600.0)
    heartbeat: float | None = absent(ge=SHORTEST, le=LONGEST)
    max_result: int = Field(MAX_RESULT, gt=0, le=MAX_RESULT * 8, exclude_if=lambda value: value == MAX_RESULT)

    @property
    def type(self) -> str:
        """The activity type that runs it."""
        return self.activity or self.name


def follow_up(name: str = "follow_up", deadline: Deadline | None = None) -> ToolSpec:
    """The tool by which a model asks the user: its result is the person's answer."""
    questions = {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "minItems": 1}
    return ToolSpec(
        name=name,
        description="Asks the user for more information by providing a list of questions.",
        parameters={
            "type": "object",
            "properties": {"questions": questions},
            "required": ["questions"],
            "additionalProperties": False,
        },
        activity=FOLLOW_UP,
        deadline=deadline,
    )


class ModelSpec(Record):
    """Which model an agent speaks with: a provider of the worker and a name of its own; nothing means its default.

    `options` are passed on to a chat-completions endpoint as they stand (temperature, …).
    """

    provider: str = absent("")
    name: str = absent("")
    options: dict[str, Any] = empty(dict)


class Node(Record):
    """What every agent has. With ``on_reject="continue"`` a rejected breakpoint does not end the agent above."""

    name: str
    description: str = absent("")
    on_reject: Literal["end", "continue"] = Field("end", exclude_if=lambda value: value == "end")


class Chat(Node):
    """The ReAct loop: model, tools in parallel, until an answer without tool calls.

    `agents` are offered as tools that take one `request`. `gates` replace the gates of the tools they name.
    `max_turns` counts model calls; in a conversation, per message.
    """

    kind: Literal["chat"] = "chat"
    instructions: str = absent("")
    tools: tuple[ToolSpec, ...] = absent(())
    agents: "tuple[AgentSpec, ...]" = absent(())
    gates: dict[str, Gate] = empty(dict)
    return_direct: tuple[str, ...] = absent(())
    max_turns: int = Field(20, ge=1, le=10_000, exclude_if=lambda value: value == 20)
    model: ModelSpec | None = absent()


class Supervisor(Chat):
    """A chat agent that hands work to `agents` with ``transfer_to_agent`` and always gets control back."""

    kind: Literal["supervisor"] = "supervisor"  # type: ignore[assignment]


class Deep(Chat):
    """A chat agent with ``write_todos`` and ``task`` over `agents`, a general-purpose one included by default."""

    kind: Literal["deep"] = "deep"  # type: ignore[assignment]
    general_purpose: bool = True


class Step(Node):
    """A tool run without a model; `input` names the argument that receives the previous answer."""

    kind: Literal["step"] = "step"
    tool: ToolSpec
    arguments: dict[str, Any] = empty(dict)
    input: str | None = absent()


class Sequential(Node):
    """Children one after the other on one shared conversation."""

    kind: Literal["sequential"] = "sequential"
    children: "tuple[AgentSpec, ...]"


class Parallel(Node):
    """Children at once, each with a conversation of its own; results joined in this order."""

    kind: Literal["parallel"] = "parallel"
    children: "tuple[AgentSpec, ...]"


class Loop(Node):
    """Children in turn on the shared conversation until one exits or `max_rounds` have passed."""

    kind: Literal["loop"] = "loop"
    children: "tuple[AgentSpec, ...]"
    max_rounds: int | None = absent(ge=1, le=10_000)


class Review(Node):
    """Shows the latest content to a person: accept exits the loop around it, revise is read by the writer."""

    kind: Literal["review"] = "review"
    approvers: tuple[str, ...] = absent(())
    deadline: Deadline | None = absent()


class PlanExecute(Node):
    """Plans, executes one step at a time, replans after each; `max_rounds` bounds the steps."""

    kind: Literal["plan_execute"] = "plan_execute"
    planner: Chat
    executor: Chat
    replanner: Chat
    max_rounds: int = Field(10, ge=1, le=1_000, exclude_if=lambda value: value == 10)


AnyAgent = Chat | Supervisor | Deep | Step | Sequential | Parallel | Loop | Review | PlanExecute
AgentSpec = Annotated[AnyAgent, Field(discriminator="kind")]

for _kind in (Chat, Supervisor, Deep, Sequential, Parallel, Loop, PlanExecute):
    _kind.model_rebuild()

LOOP_ROUNDS = 20
"""Rounds of a loop that names none but has a person's way out."""
GENERAL_PURPOSE = "general_purpose"


def general_purpose(spec: Deep) -> Chat:
    """The sub-agent that a deep agent has by default: itself, without sub-agents."""
    return Chat(
        name=GENERAL_PURPOSE,
        description="Does any task with the same tools.",
        instructions=spec.instructions,
        tools=spec.tools,
        gates=spec.gates,
        max_turns=spec.max_turns,
        model=spec.model,
    )


def children(spec: AnyAgent) -> tuple[AnyAgent, ...]:
    """The agents and steps right below *spec*, as the tree has them."""
    match spec:
        case Deep():
            return (*spec.agents, general_purpose(spec)) if spec.general_purpose else spec.agents
        case Chat():
            return spec.agents
        case Sequential() | Parallel() | Loop():
            return spec.children
        case PlanExecute():
            return (spec.planner, spec.executor, spec.replanner)
        case Step() | Review():
            return ()


def has_way_out(spec: AnyAgent) -> bool:
    """Whether a person can accept in *spec*, and so end the loop around it."""
    match spec:
        case Review():
            return True
        case Sequential() | Parallel():
            return any(has_way_out(child) for child in spec.children)
        case _:
            return False


def tools_of(spec: AnyAgent) -> tuple[ToolSpec, ...]:
    """The tools that *spec* itself calls, with the gates that hold for it."""
    match spec:
        case Chat():
            return tuple(
                tool.model_copy(update={"gate": spec.gates[tool.name]}) if tool.name in spec.gates else tool
                for tool in spec.tools
            )
        case Step():
            return (spec.tool,)
        case _:
            return ()


def walk(spec: AnyAgent, above: Address | None = None) -> Iterator[tuple[Address, AnyAgent]]:
    """Every node of the tree with its address, parents first."""
    address = Address.root(spec.name) if above is None else above.child(check_name(spec.name))
    yield address, spec
    for child in children(spec):
        yield from walk(child, address)


def check_tree(root: AnyAgent, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> None:
    """Refuse a tree that cannot run, naming the node. Raises `BadTree`.

    Refused: names with reserved characters, twice among siblings, or of messages; more than `MAX_DEPTH` levels, a
    cycle; addresses over `MAX_BYTES`; unknown tools, gates without their tool; loops without a way out;
    breakpoints that match nothing.
    """
    _check_depth(root, [])
    if root.name in MESSAGE_NAMES or root.name.startswith("__"):
        raise BadTree(f"the root agent may not be called '{root.name}': messages to a run have that name")
    try:
        nodes = list(walk(root))
        addresses = [address for address, _ in nodes]
        for address, spec in nodes:
            _check_node(address, spec)
            if isinstance(spec, Chat):
                addresses += [address.call(check_name(tool.name), "id") for tool in spec.tools]
    except BadAddress as error:
        raise BadTree(str(error)) from None
    for field, patterns in (("interrupt_before", before), ("interrupt_after", after)):
        for pattern in patterns:
            if not any(matches(pattern, address) for address in addresses):
                known = ", ".join(sorted({address.names[-1] for address in addresses}))
                raise BadTree(
                    f"{field} names '{pattern}', which matches nothing in the tree; it has: {known}"
                )


def _check_depth(spec: AnyAgent, path: list[AnyAgent]) -> None:
    if any(spec is above for above in path):
        raise BadTree(f"the agent '{spec.name}' stands below itself: a tree has no cycles")
    if len(path) >= MAX_DEPTH:
        raise BadTree(f"the agent '{spec.name}' stands deeper than {MAX_DEPTH} levels")
    for child in children(spec):
        _check_depth(child, [*path, spec])


def _check_node(address: Address, spec: AnyAgent) -> None:
    room = len(str(address)) + 6 * len(address.segments) + MAX_NAME_BYTES + 2
    longest = max((len(tool.name) for tool in tools_of(spec)), default=-8)
    if room + longest + 8 > MAX_BYTES:
        raise BadTree(
            f"the path '{address}' is too long for an address of {MAX_BYTES} bytes: use shorter names"
        )
    below = [child.name for child in children(spec)]
    own = [tool.name for tool in tools_of(spec)]
    for name in (*below, *own):
        if (*below, *own).count(name) > 1:
            raise BadTree(f"'{address}' has the name '{name}' twice")
    match spec:
        case Chat():
            _check_chat(address, spec, own, below)
        case Loop() if spec.max_rounds is None and not any(map(has_way_out, spec.children)):
            raise BadTree(f"the loop '{address}' has no way out: give it max_rounds or a review agent")
        case Step() if spec.input is not None and spec.input in spec.arguments:
            raise BadTree(
                f"the step '{address}' has a constant for '{spec.input}', which receives the answer"
            )
        case Step() if (unknown := [*spec.arguments, *filter(None, [spec.input])]) and (
            strange := set(unknown) - set(spec.tool.parameters.get("properties", unknown))
        ):
            raise BadTree(
                f"the step '{address}' gives '{min(strange)}', which '{spec.tool.name}' does not take"
            )
        case _:
            pass
    if isinstance(spec, Sequential | Parallel | Loop) and not spec.children:
        raise BadTree(f"'{address}' has no children")


def _check_chat(address: Address, spec: Chat, own: list[str], below: list[str]) -> None:
    for name in own:
        if name in RESERVED_TOOLS:
            raise BadTree(f"the tool name '{name}' of '{address}' is reserved")
    for name in spec.gates:
        if name not in own:
            raise BadTree(f"'{address}' has a gate for '{name}', which is none of its tools")
    for name in spec.return_direct:
        if name not in own and (name not in below or isinstance(spec, Supervisor | Deep)):
            raise BadTree(f"'{address}' returns directly from '{name}', which is none of its tools")
    if isinstance(spec, Supervisor) and not spec.agents:
        raise BadTree(f"the supervisor '{address}' has no agents")
    for tool in spec.tools:
        if tool.parameters.get("type") != "object":
            raise BadTree(f"the parameters of '{tool.name}' of '{address}' are no schema of an object")
