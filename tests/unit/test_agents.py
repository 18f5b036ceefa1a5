"""Trees that cannot run are refused by name: when they are built, and when they come as raw JSON."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from protocol.agents import (
    MESSAGE_NAMES,
    RESERVED_TOOLS,
    AgentSpec,
    AnyAgent,
    Chat,
    Loop,
    Review,
    Sequential,
    Supervisor,
    ToolSpec,
    check_tree,
)
from protocol.errors import BadTree
from protocol.record import read
from protocol.run import RunRequest

TREE: TypeAdapter[AnyAgent] = TypeAdapter(AgentSpec)
TOOL = {"name": "pay", "parameters": {"type": "object"}}
CHAT = {"kind": "chat", "name": "inner"}
BANK = {"kind": "chat", "name": "bank", "tools": [TOOL], "agents": [CHAT]}


def nested(depth: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"kind": "chat", "name": f"a{depth}"}
    for n in reversed(range(1, depth)):
        tree = {"kind": "supervisor", "name": f"a{n}", "agents": [tree]}
    return tree


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a name twice among siblings": ({"kind": "parallel", "name": "p", "children": [CHAT, CHAT]}, "'inner' twice"),
    "a tool and an agent of one name": (
        {"kind": "chat", "name": "c", "tools": [{**TOOL, "name": "inner"}], "agents": [CHAT]},
        "'inner' twice",
    ),
    "a reserved character": ({"kind": "chat", "name": "a>b"}, "a>b"),
    "a reserved character in a tool": ({"kind": "chat", "name": "c", "tools": [{**TOOL, "name": "a:b"}]}, "a:b"),
    "a gate without its tool": (
        {"kind": "chat", "name": "c", "gates": {"pay": {"kind": "approval"}}},
        "gate for 'pay'",
    ),
    "an unknown tool": ({"kind": "chat", "name": "c", "return_direct": ["pay"]}, "'pay'"),
    "a loop without a way out": ({"kind": "loop", "name": "l", "children": [CHAT]}, "no way out"),
    "too deep": (nested(9), "deeper than 8"),
    "a name of a message": ({"kind": "chat", "name": "resume"}, "resume"),
    "a name of Temporal's": ({"kind": "chat", "name": "__x"}, "__x"),
    "a reserved tool": ({"kind": "chat", "name": "c", "tools": [{**TOOL, "name": "task"}]}, "reserved"),
    "a step whose tool does not take the answer": (
        {
            "kind": "step",
            "name": "s",
            "tool": {"name": "pay", "parameters": {"type": "object", "properties": {"a": {}}}},
            "input": "b",
        },
        "'b'",
    ),
    "a step with a constant where the answer goes": (
        {"kind": "step", "name": "s", "tool": TOOL, "input": "a", "arguments": {"a": 1}},
        "a constant for 'a'",
    ),
    "a direct return from a transfer": (
        {"kind": "supervisor", "name": "s", "agents": [CHAT], "return_direct": ["inner"]},
        "returns directly from 'inner'",
    ),
    "a name twice in a deep agent with its own helper": (
        {"kind": "deep", "name": "d", "agents": [{"kind": "chat", "name": "general_purpose"}]},
        "'general_purpose' twice",
    ),
    "planner and executor of one name": (
        {
            "kind": "plan_execute",
            "name": "p",
            "planner": CHAT,
            "executor": CHAT,
            "replanner": {"kind": "chat", "name": "r"},
        },
        "'inner' twice",
    ),
    "something wrong far below": (
        {
            "kind": "sequential",
            "name": "s",
            "children": [{"kind": "loop", "name": "l", "children": [CHAT]}],
        },
        "'s>l' has no way out",
    ),
    "a name that is too long": ({"kind": "chat", "name": "a" * 49}, "longer than 48"),
    "no name": ({"kind": "chat", "name": ""}, "may hold only"),
    "no children": ({"kind": "sequential", "name": "s", "children": []}, "no children"),
    "no agents": ({"kind": "supervisor", "name": "s"}, "no agents"),
    "parameters that are none": (
        {"kind": "chat", "name": "c", "tools": [{"name": "pay", "parameters": {"type": "array"}}]},
        "no schema of an object",
    ),
    "an argument that the step's tool does not take": (
        {
            "kind": "step",
            "name": "s",
            "tool": {"name": "pay", "parameters": {"type": "object", "properties": {"a": {}}}},
            "arguments": {"b": 1},
        },
        "'b'",
    ),
    "a path too long for an address": (
        {"kind": "supervisor", "name": "a" * 48, "agents": [
            {"kind": "supervisor", "name": "b" * 48, "agents": [
                {"kind": "supervisor", "name": "c" * 48, "agents": [{"kind": "chat", "name": "d" * 48}]}]}]},
        "too long",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_tree_that_cannot_run_is_refused_as_raw_json(what: str) -> None:
    tree, says = BAD[what]
    with pytest.raises(ValidationError, match=says):
        read(TypeAdapter(RunRequest), json.loads(json.dumps({"task": "go", "agent": tree})))


@pytest.mark.parametrize("what", BAD)
def test_a_tree_that_cannot_run_is_refused_when_it_is_built(what: str) -> None:
    tree, says = BAD[what]
    with pytest.raises(BadTree, match=says):
        check_tree(TREE.validate_json(json.dumps(tree)))


@pytest.mark.parametrize("name", sorted(MESSAGE_NAMES))
def test_the_root_is_not_called_like_a_message(name: str) -> None:
    with pytest.raises(BadTree, match=name):
        check_tree(Chat(name=name))
    check_tree(Supervisor(name="root", agents=(Chat(name=name),)))


@pytest.mark.parametrize("name", sorted(RESERVED_TOOLS))
def test_no_tool_has_the_name_of_one_of_ours(name: str) -> None:
    with pytest.raises(BadTree, match="reserved"):
        check_tree(Chat(name="c", tools=(ToolSpec(name=name, parameters={"type": "object"}),)))


@pytest.mark.parametrize("field", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("pattern", ["pya", "bank>inner>*", "inner>pay", "**>x", "", "bank>*>pay>pay"])
def test_a_breakpoint_that_matches_nothing_is_refused_with_what_there_is(field: str, pattern: str) -> None:
    with pytest.raises(ValidationError, match=rf"{field} names .* it has: bank, inner, pay"):
        read(TypeAdapter(RunRequest), {"task": "go", "agent": BANK, field: [pattern]})


@pytest.mark.parametrize("field", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize(
    "pattern", ["pay", "inner", "bank", "bank>pay", "bank>*", "**", "**>inner", "*", "bank>**>pay"]
)
def test_a_breakpoint_may_name_a_node_or_a_tool_or_a_path_of_either(field: str, pattern: str) -> None:
    request = read(TypeAdapter(RunRequest), {"task": "go", "agent": BANK, field: [pattern]})
    assert getattr(request, field) == (pattern,)


def test_a_review_or_a_bound_is_a_way_out_of_a_loop() -> None:
    inner = Chat(name="inner")
    check_tree(Loop(name="l", children=(inner,), max_rounds=3))
    check_tree(Loop(name="l", children=(inner, Review(name="r"))))
    check_tree(Loop(name="l", children=(Sequential(name="s", children=(inner, Review(name="r"))),)))
    with pytest.raises(BadTree, match="no way out"):  # acceptance ends the loop right around it only
        check_tree(Loop(name="l", children=(Loop(name="m", children=(Review(name="r"),)),)))


def test_a_cycle_is_refused_when_it_is_built() -> None:
    inner = Chat(name="inner")
    outer = Supervisor(name="outer", agents=(inner,))
    object.__setattr__(inner, "agents", (outer,))
    with pytest.raises(BadTree, match="stands below itself"):
        check_tree(outer)


def test_eight_levels_are_enough_for_anybody() -> None:
    assert read(TypeAdapter(RunRequest), {"task": "go", "agent": nested(8)}).agent.name == "a1"


def gated(**deadline: Any) -> dict[str, Any]:
    return {**TOOL, "gate": {"kind": "approval", "deadline": {"after": 60, **deadline}}}


@pytest.mark.parametrize(
    "tool",
    [
        gated(after=1e12),
        gated(reminders=[1e300]),
        gated(reminders=[-1]),
        gated(on_expiry="escalate", escalate=[{"approvers": ["boss"], "after": 1e300}]),
        {**TOOL, "timeout": 1e300},
        {**TOOL, "timeout": 1e-9},
        {**TOOL, "heartbeat": 1e300},
        {**TOOL, "task_queue": "q" * 3_000},
        {**TOOL, "task_queue": "/_sys/x"},
        {**TOOL, "activity": "a" * 3_000},
    ],
)
def test_what_the_server_would_never_take_is_refused_when_the_run_starts(tool: dict[str, Any]) -> None:
    """Taken, it would fail every workflow task of the run"""
    with pytest.raises(ValidationError):
        RunRequest.model_validate_json(
            json.dumps({"task": "go", "agent": {"kind": "chat", "name": "bank", "tools": [tool]}})
        )


@pytest.mark.parametrize("kind", ["sequential", "parallel"])
def test_only_an_agent_that_listens_has_a_conversation(kind: str) -> None:
    tree = {"kind": kind, "name": "team", "children": [CHAT]}
    with pytest.raises(ValidationError, match=f"not with {kind}"):
        RunRequest.model_validate_json(json.dumps({"task": "go", "agent": tree, "chat": True}))
