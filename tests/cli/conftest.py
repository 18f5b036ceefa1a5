"""A real server, a real worker process, and the command line as a process of its own."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from client import Client
from devserver import DevServer

ROOT = Path(__file__).parents[2]
PLENTY = 60.0


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Cli:
    """Runs ``signoff`` as a person would, with little around it."""

    environment: Mapping[str, str]
    folder: Path
    columns: int = 120
    more: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, input: str | None = None) -> Said:
        done = subprocess.run(
            self.command(*words),
            env=self.env,
            cwd=self.folder,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PLENTY,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(ROOT / "starter.py"), *words]

    @property
    def env(self) -> dict[str, str]:
        return {**self.environment, "COLUMNS": str(self.columns), **self.more}

    def with_(self, *, columns: int | None = None, **more: str) -> "Cli":
        return Cli(self.environment, self.folder, columns or self.columns, {**self.more, **more})

    def started(self, scenario: str, *words: str) -> str:
        """The id of a run that was started and waits for its first decision."""
        done = self("start", scenario, "--json", *words)
        assert done.code == 0, done.err
        id: str = done.json["id"]
        self.eventually(lambda: self("show", id, "--json").json.get("interrupts"))
        return id

    def eventually(self, look: Callable[[], Any], what: str = "it never came to that") -> Any:
        """What *look* gives, as soon as that is something."""
        give_up = time.monotonic() + PLENTY / 2
        while time.monotonic() < give_up:
            if found := look():
                return found
            time.sleep(0.1)
        pytest.fail(what)


def bare(home: Path) -> dict[str, str]:
    """An environment in which nothing is set that a machine happens to have."""
    return {"HOME": str(home), "PATH": os.defpath, "SIGNOFF_BY": "li.wei"}


@contextlib.contextmanager
def worker_process(environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "worker.py")],
        env=dict(environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


async def serves(server: DevServer, queue: str) -> None:
    client = await Client.connect(server.address)
    give_up = time.monotonic() + PLENTY
    while not await client.is_served(queue):
        assert time.monotonic() < give_up, "the worker never polled"
        await asyncio.sleep(0.1)


@pytest.fixture(scope="session")
async def served(
    server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, str]]:
    """The environment of a server whose task queue is served by a worker process."""
    queue = f"cli-{uuid.uuid4().hex[:6]}"
    environment = {
        **bare(tmp_path_factory.mktemp("home")),
        "TEMPORAL_ADDRESS": server.address,
        "SIGNOFF_TASK_QUEUE": queue,
    }
    with worker_process(environment):
        await serves(server, queue)
        yield environment


@pytest.fixture
def cli(served: dict[str, str], tmp_path: Path) -> Cli:
    return Cli(served, tmp_path)
