"""Kill every process at any moment: nothing decided or done is lost, and nothing is done twice."""

import asyncio
import json
import shutil
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from converter import DATA_CONVERTER
from devserver import DevServer, dev_server
from protocol.agents import Chat
from protocol.run import RunRequest, RunResult
from protocol.views import PendingPage
from scenarios import SCENARIOS
from tests.durability.serve import TOOLS
from tests.kit import Run, eventually

ROOT = Path(__file__).parents[2]
AGENT = Chat(name="bank", tools=tuple(tool.spec for tool in TOOLS))


class Workers:
    """Worker processes of one task queue, that end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.queue = folder, f"processes-{uuid.uuid4()}"
        self._started: list[subprocess.Popen[bytes]] = []

    async def start(self, address: str) -> subprocess.Popen[bytes]:
        """Start one and wait until it serves."""
        serving = self.folder / "serving"
        serving.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.durability.serve", address, self.queue, str(self.folder)], cwd=ROOT
        )
        self._started.append(process)

        async def serves() -> bool:
            assert process.poll() is None
            return serving.exists()

        await eventually(serves, "a worker process")
        return process

    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    async def effect(self, line: str) -> None:
        async def there() -> bool:
            return any(each.startswith(line) for each in self.effects())

        await eventually(there, f"the effect {line!r}")

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    started = Workers(tmp_path)
    yield started
    started.end()


async def start(client: Client, workers: Workers, task: str) -> Run:
    handle = await client.start_workflow(
        "AgentRun",
        RunRequest(task=task, agent=AGENT),
        id=f"run-{uuid.uuid4()}",
        task_queue=workers.queue,
        result_type=RunResult,
    )
    return Run(handle)


async def eventually_waiting(run: Run, count: int) -> list[str]:
    async def listed() -> list[str] | None:
        page = await run.handle.query("pending", result_type=PendingPage)
        return [each.id for each in page.interrupts] if len(page.interrupts) == count else None

    return await eventually(listed, f"{count} open interrupts")


async def test_a_waiting_run_survives_a_killed_worker(
    client: Client, server: DevServer, workers: Workers
) -> None:
    """B016 B108: what was done stays done, and another process goes on."""
    first = await workers.start(server.address)
    run = await start(client, workers, "note pay")
    [waiting] = await eventually_waiting(run, 1)
    await workers.effect("note")
    first.kill()
    first.wait()
    await workers.start(server.address)
    await run.approve(waiting)
    assert (await run.result()).status == "completed"
    assert sorted(workers.effects()) == ["note", "pay 5"]


async def test_a_waiting_run_survives_its_server_worker_and_client(tmp_path: Path, workers: Workers) -> None:
    """B109: new processes everywhere; the decider knows nothing but the listed ids."""
    database = tmp_path / "server.db"
    async with dev_server(database=database) as server:
        worker = await workers.start(server.address)
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER)
        run = await start(client, workers, "pay")
        [waiting] = await run.waiting(1)
        port = int(server.address.rpartition(":")[2])
        worker.kill()
        worker.wait()
        server.process.kill()
        server.process.wait()
    async with dev_server(database=database, port=port) as server:
        await workers.start(server.address)
        decider = """
import asyncio, sys
from temporalio.client import Client
async def main(address, workflow_id, interrupt):
    client = await Client.connect(address)
    handle = client.get_workflow_handle(workflow_id)
    print(await handle.execute_update(interrupt, {"decision": "approve", "by": "service b"}))
    print(await handle.result())
asyncio.run(main(*sys.argv[1:]))
sys.stdout.flush()
import os
os._exit(0)
"""
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", decider, server.address, waiting.workflow_id, waiting.id],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "'status': 'completed'" in done.stdout
        assert workers.effects() == ["pay 5"]


async def test_a_tool_that_may_run_once_is_reported_unknown_when_its_worker_dies(
    client: Client, server: DevServer, workers: Workers
) -> None:
    (workers.folder / "hold").touch()
    first = await workers.start(server.address)
    run = await start(client, workers, "slow_once")
    [waiting] = await eventually_waiting(run, 1)
    await run.approve(waiting)
    await workers.effect("slow_once")
    first.kill()
    first.wait()
    (workers.folder / "hold").unlink()
    await workers.start(server.address)
    result = await run.result()
    assert workers.effects() == ["slow_once"]
    assert result.audit.closed[0].outcome == "unknown"
    [said] = [message.content for message in result.transcript if message.role == "tool"]
    assert "whether it took effect is unknown" in said


async def test_an_idempotent_tool_is_tried_again_with_its_key_when_its_worker_dies(
    client: Client, server: DevServer, workers: Workers
) -> None:
    (workers.folder / "hold").touch()
    first = await workers.start(server.address)
    run = await start(client, workers, "slow_idempotent")
    [waiting] = await eventually_waiting(run, 1)
    await run.approve(waiting)
    await workers.effect("key")
    first.kill()
    first.wait()
    (workers.folder / "hold").unlink()
    await workers.start(server.address)
    result = await run.result()
    assert result.audit.closed[0].outcome == "approved"
    keys = workers.effects()
    assert len(keys) == 2
    assert len(set(keys)) == 1


def temporal(server: DevServer, *words: str) -> subprocess.CompletedProcess[str]:
    """The `temporal` program, as somebody uses it who knows no Python."""
    binary = shutil.which("temporal", path=sysconfig.get_path("scripts")) or "temporal"
    return subprocess.run(
        [binary, *words, "--address", server.address, "--disable-config-file"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("signal", "--name", "{id}", "--input", '{"decision": "approve", "by": "ops"}'),
        ("update", "execute", "--name", "{id}", "--input", '{"decision": "approve", "by": "ops"}'),
        (
            "update",
            "execute",
            "--name",
            "resume",
            "--input",
            '{"targets": {"{id}": {"decision": "approve"}}}',
        ),
        ("signal", "--name", "resume", "--input", '{"targets": {"{id}": {"decision": "approve"}}}'),
    ],
    ids=["signal by id", "update by id", "update resume", "signal resume"],
)
async def test_plain_json_from_the_temporal_program_decides(
    client: Client, server: DevServer, workers: Workers, words: tuple[str, ...]
) -> None:
    await workers.start(server.address)
    run = await start(client, workers, "pay")
    [waiting] = await eventually_waiting(run, 1)
    said = [word.replace("{id}", waiting) for word in words]
    done = await asyncio.to_thread(temporal, server, "workflow", *said, "--workflow-id", run.id)
    assert done.returncode == 0, done.stderr
    assert (await run.result()).status == "completed"
    assert workers.effects() == ["pay 5"]


async def test_the_temporal_program_is_told_why_a_decision_is_refused(
    client: Client, server: DevServer, workers: Workers
) -> None:
    await workers.start(server.address)
    run = await start(client, workers, "pay")
    [waiting] = await eventually_waiting(run, 1)
    done = await asyncio.to_thread(
        temporal,
        server,
        *("workflow", "update", "execute", "--workflow-id", run.id),
        *("--name", waiting, "--input", '{"decision": "APPROVE"}'),
    )
    assert done.returncode != 0
    assert "APPROVE" in done.stderr
    with pytest.raises(WorkflowUpdateFailedError):
        await run.approve("bank>pay:other")
    await run.reject(waiting)
    await run.result()
    assert workers.effects() == []


async def test_a_decision_by_signal_is_kept_while_no_worker_runs(
    client: Client, server: DevServer, workers: Workers
) -> None:
    first = await workers.start(server.address)
    run = await start(client, workers, "pay")
    [waiting] = await eventually_waiting(run, 1)
    first.terminate()
    first.wait()
    await run.signal(waiting, {"decision": "approve"})
    assert workers.effects() == []
    await workers.start(server.address)
    assert (await run.result()).status == "completed"
    assert workers.effects() == ["pay 5"]


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_run_started_from_exported_json_behaves_like_one_from_code(
    server: DevServer, client: Client, tmp_path: Path, name: str
) -> None:
    """B039 B109: started with the `temporal` program, from what `export` prints; a new worker at every question"""
    queue = f"exported-{uuid.uuid4()}"
    environment = {"TEMPORAL_ADDRESS": server.address, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    exported = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "starter.py", "export", name],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert exported.returncode == 0, exported.stderr
    file = tmp_path / "start.json"
    shuffled: dict[str, Any] = dict(reversed(json.loads(exported.stdout).items()))
    file.write_text(json.dumps(shuffled))

    def new_worker() -> subprocess.Popen[bytes]:
        command = [sys.executable, "worker.py", "--task-queue", queue]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)

    worker = new_worker()
    try:
        id = f"exported-{uuid.uuid4()}"
        done = await asyncio.to_thread(
            temporal,
            server,
            *("workflow", "start", "--type", "AgentRun", "--task-queue", queue),
            *("--workflow-id", id, "--input-file", str(file)),
        )
        assert done.returncode == 0, done.stderr
        run = Run(client.get_workflow_handle(id, result_type=RunResult))
        variant = SCENARIOS[name].variant()
        decided: list[str] = []
        ended = asyncio.create_task(run.result())
        while not ended.done():
            for listed in await run.pending():
                if listed.id not in decided:
                    worker.terminate()
                    await asyncio.to_thread(worker.wait)
                    worker = new_worker()
                    await run.decide(listed.id, variant.decide(listed, len(decided)))
                    decided.append(listed.id)
            await asyncio.wait([ended], timeout=0.05)
        result = await ended
        assert result.status == variant.status
        assert all(words in result.answer for words in variant.says)
        assert decided
    finally:
        worker.terminate()
        worker.wait()
