"""Long lives: linear in history, and bounded in the memory of the worker that serves them."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.client import Client

from devserver import DevServer
from protocol.agents import Chat, Loop, Review
from protocol.run import RunRequest, RunResult
from tests.kit import Run, eventually, house, says

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def test_a_loop_of_two_hundred_rounds(client: Client) -> None:
    async with house(client, [], lambda prompt: says(f"draft {len(prompt.messages)}")) as h:
        tree = Loop(name="editor", children=(Chat(name="writer"), Review(name="reviewer")), max_rounds=300)
        started = await h.start(tree)
        run = Run(client.get_workflow_handle(started.id, result_type=RunResult))
        for n in range(1, 201):
            id = "editor>reviewer" if n == 1 else f"editor>reviewer#{n}"

            async def asked(id: str = id) -> bool:
                return [each.id for each in await run.pending()] == [id]

            await eventually(asked, id)
            last = n == 200
            await run.decide(
                id, {"decision": "accept"} if last else {"decision": "revise", "feedback": f"f{n}"}
            )
        result = await run.result()
        assert (result.status, result.answer) == ("completed", "draft 399")
        assert len(h.model.prompts) == 200


@asynccontextmanager
async def worker(server: DevServer, queue: str, folder: Path) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.durability.serve", server.address, queue, str(folder)), cwd=ROOT
    )

    async def serves() -> bool:
        assert process.returncode is None
        return (folder / "serving").exists()

    await eventually(serves, "a worker process")
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


def resident(pid: int) -> int:
    """KB that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


async def test_a_worker_grows_by_a_few_kilobytes_a_turn_and_no_more(
    client: Client, server: DevServer, tmp_path: Path
) -> None:
    """1,000 turns: what a cached run and its conversation hold in memory, over the last half under 16 KB a turn"""
    queue = f"memory-{uuid.uuid4()}"
    async with worker(server, queue, tmp_path) as pid:
        handle = await client.start_workflow(
            "AgentRun",
            RunRequest(task="hello", agent=Chat(name="bank"), chat=True),
            id=f"memory-{uuid.uuid4()}",
            task_queue=queue,
        )
        run = Run(client.get_workflow_handle(handle.id, result_type=RunResult))
        kilobytes: list[int] = []
        for turns in range(2, 1_002):  # the first two answer the opening line

            async def heard(turns: int = turns) -> bool:
                return (await run.tree()).agents[0].turns == turns

            await eventually(heard, f"turn {turns}")
            kilobytes.append(resident(pid))
            await run.update("say", {"text": f"after {turns}"})
        await run.update("end", {})
        assert (await run.result()).status == "completed"
        half = kilobytes[len(kilobytes) // 2 :]
        first, last = sorted(half[:50])[25], sorted(half[-50:])[25]
        assert last - first < 16 * 500, half[::25]
