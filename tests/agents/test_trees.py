"""Trees that cannot run, sent as raw JSON by whoever can start a workflow."""

from typing import Any

import pytest

from tests.kit import House


@pytest.mark.parametrize(
    ("tree", "says_what"),
    [
        ({"kind": "loop", "name": "l", "children": [{"kind": "chat", "name": "w"}]}, "has no way out"),
        (
            {
                "kind": "sequential",
                "name": "s",
                "children": [{"kind": "chat", "name": "a"}, {"kind": "chat", "name": "a"}],
            },
            "has the name 'a' twice",
        ),
        ({"kind": "chat", "name": "a>b"}, "may hold only letters"),
        ({"kind": "chat", "name": "resume"}, "messages to a run have that name"),
        ({"kind": "chat", "name": "a", "gates": {"nobody": {"kind": "approval"}}}, "none of its tools"),
        ({"kind": "chat", "name": "a", "return_direct": ["nobody"]}, "none of its tools"),
        ({"kind": "swarm", "name": "a"}, "kind"),
    ],
)
async def test_a_tree_that_cannot_run_fails_visibly_as_raw_json(
    nobody: House, tree: dict[str, Any], says_what: str
) -> None:
    """The run closes as failed and names the node; nothing waits and no task is tried again and again."""
    run = await nobody.start_json({"task": "do it", "agent": tree})
    with pytest.raises(Exception, match="Workflow execution failed") as failure:
        await run.result()
    assert says_what in str(failure.value.__cause__)
    assert await run.events("WORKFLOW_TASK_FAILED") == 0


async def test_a_tree_too_deep_fails_visibly_as_raw_json(nobody: House) -> None:
    """A name at the ninth level is refused, and so is a tree that no reader would get through."""
    for depth in (9, 60):
        tree: dict[str, Any] = {"kind": "chat", "name": "leaf"}
        for n in range(depth - 1):
            tree = {"kind": "sequential", "name": f"s{n}", "children": [tree]}
        run = await nobody.start_json({"task": "do it", "agent": tree})
        with pytest.raises(Exception, match="Workflow execution failed") as failure:
            await run.result()
        assert "is no RunRequest" in str(failure.value.__cause__)
        assert await run.events("WORKFLOW_TASK_FAILED") == 0
