"""Data flows one way: starter, worker → client → workflows, scenarios → activities → protocol."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ANYTHING = frozenset({"*"})
STDLIB = sys.stdlib_module_names


@dataclass(frozen=True)
class Room:
    """What a part of the house may import: our modules, with all below them, and other people's packages."""

    ours: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


PYDANTIC = frozenset({"pydantic", "pydantic_core"})
TEMPORAL = frozenset({"google.protobuf", "temporalio"})

# The longest entry that fits a module counts.
HOUSE: Mapping[str, Room] = {
    "protocol": Room(frozenset({"protocol"}), PYDANTIC),
    "converter": Room(frozenset({"protocol"}), PYDANTIC | TEMPORAL),
    "activities": Room(frozenset({"activities", "protocol"}), PYDANTIC | TEMPORAL),
    "activities.openai_model": Room(
        frozenset({"activities", "protocol"}), PYDANTIC | TEMPORAL | {"httpx2", "openai"}
    ),
    # Activities by name only: a workflow that can reach their code could run it.
    "workflows": Room(
        frozenset({"converter", "protocol", "workflows"}), PYDANTIC | TEMPORAL | {"jsonschema", "referencing"}
    ),
    # A scenario's words: its tools, and the lines of the offline model.
    "scenarios": Room(
        frozenset({"activities.scripted_model", "activities.tools", "protocol", "scenarios"}), PYDANTIC
    ),
    "client": Room(frozenset({"converter", "protocol", "workflows"}), PYDANTIC | TEMPORAL),
    "devserver": Room(others=TEMPORAL),
    "signoff": Room(
        frozenset({"activities", "client", "converter", "protocol", "signoff", "workflows"}),
        PYDANTIC | TEMPORAL,
    ),
    # The entry points put the house together.
    "worker": Room(ANYTHING, ANYTHING),
    "starter": Room(ANYTHING, ANYTHING),
    "cli": Room(ANYTHING, ANYTHING),
    "benchmarks": Room(ANYTHING, ANYTHING),
    # User code: one name of ours.
    "examples": Room(frozenset({"signoff"}), TEMPORAL),
    "tests": Room(ANYTHING, ANYTHING),
}

MAY_PRINT = ("benchmarks", "examples", "starter", "tests")


def tracked_or_new() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in tracked_or_new()}
OURS = {name.partition(".")[0] for name in MODULES}


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def room_of(module: str) -> Room | None:
    fitting = [name for name in HOUSE if within(module, name)]
    return HOUSE[max(fitting, key=len)] if fitting else None


def parse(module: str) -> ast.Module:
    return ast.parse((ROOT / MODULES[module]).read_text(encoding="utf-8"))


def imports(module: str) -> Iterator[str]:
    """Every module imported in *module*, also in its functions; `from a import b` is a.b if that is a module."""
    for node in ast.walk(parse(module)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=None) | ast.ImportFrom(level=1 | 2 | 3):
                pytest.fail(f"{module}, line {node.lineno}: an import names its module from the top")
            case ast.ImportFrom(module=str(source), names=names):
                for alias in names:
                    inner = f"{source}.{alias.name}"
                    yield inner if inner in MODULES else source
            case _:
                pass


def may_import(room: Room, imported: str) -> bool:
    top = imported.partition(".")[0]
    allowed = room.ours if top in OURS | set(HOUSE) else room.others | STDLIB
    return allowed >= ANYTHING or any(within(imported, name) for name in allowed)


def test_every_module_has_a_room() -> None:
    assert sorted(name for name in MODULES if room_of(name) is None) == []


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_follow_the_direction(module: str) -> None:
    room = room_of(module)
    assert room is not None, f"{module} has no room in HOUSE"
    refused = sorted({imported for imported in imports(module) if not may_import(room, imported)})
    assert refused == [], f"{module} may not import {', '.join(refused)}"


def test_openai_is_imported_in_one_place() -> None:
    importers = {name for name in MODULES if any(within(imported, "openai") for imported in imports(name))}
    assert {name for name in importers if not within(name, "tests")} <= {"activities.openai_model"}


def test_openai_is_reached_from_the_worker_only() -> None:
    importers = {name for name in MODULES if "activities.openai_model" in set(imports(name))}
    assert {name for name in importers if not within(name, "tests")} <= {"signoff.plugin", "worker"}


def test_the_package_of_the_workflows_is_empty() -> None:
    """The sandbox runs it again for every run."""
    assert (ROOT / "workflows" / "__init__.py").read_text() == ""


def test_only_the_entry_points_print() -> None:
    printing = {
        f"{module}:{node.lineno}"
        for module in MODULES
        if not any(within(module, allowed) for allowed in MAY_PRINT)
        for node in ast.walk(parse(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing == set()


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("protocol.board", "temporalio.workflow"),
        ("protocol.board", "jsonschema"),
        ("protocol.board", "activities.tools"),
        ("activities.model", "workflows.desk"),
        ("activities.model", "openai"),
        ("workflows.agents.chat", "scenarios.approval"),
        ("workflows.agents.chat", "activities.tools"),
        ("workflows.agents.chat", "openai"),
        ("scenarios.approval", "workflows.agent_run"),
        ("scenarios.approval", "activities.model"),
        ("scenarios.approval", "client"),
        ("client", "scenarios"),
        ("client", "worker"),
        ("client", "rich"),
        ("signoff", "starter"),
    ],
)
def test_the_direction_refuses_the_way_back(module: str, imported: str) -> None:
    room = room_of(module)
    assert room is not None
    assert not may_import(room, imported)
