"""The tables of README.md, read and written: which test holds which case.

A docstring of a test begins with the ids of the cases that it holds. What no test holds stands in the table with its
one reason. ``python -m tests.conformance`` writes the tests of every case into the tables.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
README = Path(__file__).with_name("README.md")

ROW = re.compile(r"^\| (?P<id>[BCP]\d{3}) \| (?P<about>.*?) \| (?P<held>.*?) \|$")
IDS = re.compile(r"(?:[BCP]\d{3}\b[\s,.:;]*)+")
LEFT_OUT = "left out: "


@dataclass(frozen=True)
class Row:
    """A case, what it is about in a few words, and what holds it: tests as ``path::name``, or a reason."""

    id: str
    about: str
    held: str

    @property
    def reason(self) -> str:
        return self.held.removeprefix(LEFT_OUT) if self.held.startswith(LEFT_OUT) else ""

    @property
    def tests(self) -> list[str]:
        return [] if self.reason else re.findall(r"`([^`]+)`", self.held)


def rows(text: str) -> list[Row]:
    return [Row(**found.groupdict()) for line in text.splitlines() if (found := ROW.match(line))]


def held() -> dict[str, list[str]]:
    """The tests of every case, by the docstrings of all tests there are."""
    found: dict[str, list[str]] = {}
    for name, docstring in docstrings().items():
        for id in ids_of(docstring):
            found.setdefault(id, []).append(name)
    return found


def docstrings() -> dict[str, str]:
    """The docstring of every test, by ``path::name``."""
    return {
        f"{path.relative_to(TESTS)}::{test.name}": ast.get_docstring(test) or ""
        for path in sorted(TESTS.rglob("test_*.py"))
        for test in _tests(path)
    }


def ids_of(docstring: str) -> list[str]:
    """The ids that stand at the head of a docstring, before its sentence."""
    head = IDS.match(docstring)
    return [] if head is None else re.findall(r"[BCP]\d{3}", head.group())


def doubled(ids: list[str]) -> list[str]:
    return [id for id, count in Counter(ids).items() if count > 1]


def written(text: str) -> str:
    """*text* with the tests of every case in its tables; reasons stay as they are."""
    tests = held()

    def line(text: str) -> str:
        found = ROW.match(text)
        if found is None or found["held"].startswith(LEFT_OUT):
            return text
        names = "<br>".join(f"`{name}`" for name in tests.get(found["id"], []))
        return f"| {found['id']} | {found['about']} | {names or '-'} |"

    return "\n".join(map(line, text.splitlines())) + "\n"


def _tests(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node
