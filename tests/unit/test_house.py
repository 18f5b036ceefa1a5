"""The repository itself: it names no machine, and its locks work on any."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))

# Spelled so that this file does not find itself.
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|opt|Users|home/\w+)/[\w.]")
INDEX = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|debian|goproxy)\.(?:org|com|io)\b|\b(?:find|index)-(?:links|url)\b"
)

# A flag that keeps an index out is no index.
FINE = re.compile(r"--no-emit-index-url")


def committed() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""  # a picture


def requirements(lock: Path) -> dict[str, str]:
    """Name and version of every requirement, with its hashes as the rest of its lines."""
    logical = re.sub(r"\\\n", " ", lock.read_text())
    lines = [line for line in logical.splitlines() if line and not line.lstrip().startswith("#")]
    return dict(line.split(maxsplit=1) for line in lines)


def test_no_file_names_a_machine_or_an_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in committed()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        for bare in [FINE.sub("", line)]
        if MACHINE.search(bare) or INDEX.search(bare)
    ]
    assert found == []


def test_the_locks_are_there() -> None:
    assert [path.name for path in LOCKS] == [
        "requirements-bench.lock",
        "requirements-demo.lock",
        "requirements-dev.lock",
        "requirements.lock",
    ]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_requirement_is_pinned_and_has_hashes(lock: Path) -> None:
    locked = requirements(lock)
    assert locked
    for requirement, rest in locked.items():
        assert re.fullmatch(r"[a-z0-9._-]+==[\w.+!]+", requirement)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", rest), requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_holds_no_address(lock: Path) -> None:
    assert not re.search(r"://|^-", lock.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_the_locks_agree_with_what_the_tests_run_with(lock: Path) -> None:
    tested = {name.partition("==")[0]: name for name in requirements(ROOT / "requirements-dev.lock")}
    for requirement in requirements(lock):
        name = requirement.partition("==")[0]
        assert tested.get(name, requirement) == requirement


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for lock, wanted in (
        ("requirements.lock", []),
        ("requirements-demo.lock", extras["demo"]),
        ("requirements-bench.lock", extras["demo"] + extras["bench"]),
        ("requirements-dev.lock", extras["demo"] + extras["dev"]),
    ):
        locked = {name.partition("==")[0] for name in requirements(ROOT / lock)}
        names = {re.split(r"[\[<>=~! ]", line)[0] for line in [*project["dependencies"], *wanted]}
        assert names <= locked, lock
