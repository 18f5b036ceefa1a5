"""Worker versioning: a waiting run stays with the build it began on, while new runs go to the next."""

import asyncio
import shutil
import sysconfig
import uuid

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from activities.tools import FunctionTool, tool
from devserver import DevServer
from protocol.agents import Chat
from tests.kit import House, calls, eventually, house, says

SCRIPT = [calls(("pay", "p1", {"amount": 1})), says("done")]


def built(build: str, done: list[str]) -> FunctionTool:
    @tool(approval=True)
    def pay(amount: int) -> str:
        done.append(build)
        return f"paid by {build}"

    return pay


def version(deployment: str, build: str) -> WorkerDeploymentConfig:
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=deployment, build_id=build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


async def make_current(server: DevServer, deployment: str, build: str) -> None:
    """What an operator does after a deploy, with the `temporal` program."""
    binary = shutil.which("temporal", path=sysconfig.get_path("scripts")) or "temporal"

    async def accepted() -> bool:
        process = await asyncio.create_subprocess_exec(
            *(binary, "worker", "deployment", "set-current-version", "--yes", "--disable-config-file"),
            *("--deployment-name", deployment, "--build-id", build, "--address", server.address),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await process.wait() == 0

    await eventually(accepted, f"{build} as the current version")  # its worker has to have polled once


async def test_a_waiting_run_stays_with_its_build(client: Client, server: DevServer) -> None:
    """B115"""
    deployment, queue, done = f"signoff-{uuid.uuid4().hex[:8]}", f"versions-{uuid.uuid4()}", list[str]()

    async def start(h: House) -> str:
        run = await h.start(Chat(name="bank", tools=h.specs))
        await run.waiting(1)
        return run.id

    one = house(
        client, [built("one", done)], SCRIPT, queue=queue, deployment_config=version(deployment, "one")
    )
    two = house(
        client, [built("two", done)], SCRIPT, queue=queue, deployment_config=version(deployment, "two")
    )
    async with one as old:
        await make_current(server, deployment, "one")
        waiting = await start(old)
        async with two as new:
            await make_current(server, deployment, "two")
            later = await start(new)
            for id in (later, waiting):
                await client.get_workflow_handle(id).signal("bank>pay:p1", {"decision": "approve"})
                await client.get_workflow_handle(id).result()
            assert done == ["two", "one"]
