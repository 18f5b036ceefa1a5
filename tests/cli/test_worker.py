"""The worker as a process: what it does before it polls, and how it ends."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from client import Client, registering
from devserver import DevServer, _binary, dev_server
from tests.cli.conftest import PLENTY, ROOT, bare


@contextlib.contextmanager
def worker(environment: dict[str, str], *words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, str(ROOT / "worker.py"), *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(process: "subprocess.Popen[str]", words: str) -> str:
    """What the worker said up to *words*."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    pytest.fail(f"it never said '{words}': {said}")


def environment_of(server: DevServer, home: Path) -> dict[str, str]:
    return {
        **bare(home),
        "TEMPORAL_ADDRESS": server.address,
        "SIGNOFF_TASK_QUEUE": f"worker-{uuid.uuid4().hex[:6]}",
    }


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_in_good_order(server: DevServer, tmp_path: Path, how: signal.Signals) -> None:
    with worker(environment_of(server, tmp_path)) as process:
        until(process, "serving the task queue")
        process.send_signal(how)
        _, said = process.communicate(timeout=PLENTY)
    assert process.returncode == 0
    assert "Traceback" not in said


def with_fresh_namespace(server: DevServer, home: Path) -> dict[str, str]:
    """A namespace that knows no search attribute of ours yet."""
    temporal(server, home, "operator", "namespace", "create", "--namespace", "fresh")
    return {**environment_of(server, home), "TEMPORAL_NAMESPACE": "fresh"}


def temporal(server: DevServer, home: Path, *words: str) -> None:
    done = subprocess.run(
        [_binary(), *words, "--address", server.address],
        env=bare(home),
        capture_output=True,
        text=True,
        timeout=PLENTY,
    )
    assert done.returncode == 0, done.stderr


async def missing(server: DevServer) -> list[str]:
    return await (await Client.connect(server.address, namespace="fresh")).ensure_search_attributes()


async def test_a_worker_creates_the_search_attributes_that_are_missing(tmp_path: Path) -> None:
    async with dev_server() as server:
        environment = with_fresh_namespace(server, tmp_path)
        start = [sys.executable, str(ROOT / "starter.py"), "start", "approval"]
        too_early = subprocess.run(start, env=environment, capture_output=True, text=True, timeout=PLENTY)
        assert too_early.returncode == 1
        assert "lacks search attributes of Signoff: start a worker" in too_early.stderr
        with worker(environment) as process:
            said = until(process, "serving the task queue")
            assert "created the search attributes SignoffStatus, SignoffAgent" in said
            in_time = subprocess.run(start, env=environment, capture_output=True, text=True, timeout=PLENTY)
            assert in_time.returncode == 0, in_time.stderr
        assert await missing(server) == []


async def test_a_search_attribute_of_another_type_ends_the_worker_before_it_polls(tmp_path: Path) -> None:
    async with dev_server(
        extra_args=["--namespace", "fresh", "--search-attribute", "SignoffStatus=Text"]
    ) as server:
        environment = {**environment_of(server, tmp_path), "TEMPORAL_NAMESPACE": "fresh"}
        with worker(environment) as process:
            _, said = process.communicate(timeout=PLENTY)
    assert process.returncode == 1
    [line] = said.strip().splitlines()
    assert "SignoffStatus" in line
    assert "temporal operator search-attribute" in line


def test_a_worker_without_a_server_ends_with_one_line(tmp_path: Path) -> None:
    with worker({**bare(tmp_path), "TEMPORAL_ADDRESS": "127.0.0.1:9"}) as process:
        _, said = process.communicate(timeout=PLENTY)
    assert process.returncode == 1
    [line] = said.strip().splitlines()
    assert "no Temporal server answers at 127.0.0.1:9" in line


def test_a_worker_serves_metrics(server: DevServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with worker(environment_of(server, tmp_path), "--metrics", address) as process:
        until(process, "serving the task queue")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            assert re.search(r"^temporal_", answer.read().decode(), flags=re.MULTILINE)
    with worker(environment_of(server, tmp_path), "--metrics", "nonsense") as wrong:
        _, said = wrong.communicate(timeout=PLENTY)
    assert wrong.returncode == 1
    assert "give HOST:PORT" in said.strip().splitlines()[-1]


async def test_the_command_that_a_person_is_told_creates_them(tmp_path: Path) -> None:
    async with dev_server() as server:
        with_fresh_namespace(server, tmp_path)
        program, *words = registering().split()
        assert program == "temporal"
        temporal(server, tmp_path, *words, "--namespace", "fresh")
        assert await missing(server) == []
