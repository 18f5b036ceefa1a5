"""Trees that cannot run are refused by name: when they are built, and when they come as raw JSON."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from protocol.agents import Chat, Supervisor, check_tree
from protocol.errors import BadTree
from protocol.record import read
from protocol.run import RunRequest

TOOL = {"name": "pay", "parameters": {"type": "object"}}
CHAT = {"kind": "chat", "name": "inner"}


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


def test_a_cycle_is_refused_when_it_is_built() -> None:
    inner = Chat(name="inner")
    outer = Supervisor(name="outer", agents=(inner,))
    object.__setattr__(inner, "agents", (outer,))
    with pytest.raises(BadTree, match="stands below itself"):
        check_tree(outer)


def test_eight_levels_are_enough_for_anybody() -> None:
    assert read(TypeAdapter(RunRequest), {"task": "go", "agent": nested(8)}).agent.name == "a1"
