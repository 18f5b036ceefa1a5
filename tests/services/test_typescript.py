"""The TypeScript client of docs/services.md, as it stands there, decides a run."""

import asyncio
import os
import shutil
import uuid
from pathlib import Path

import pytest
from temporalio.client import Client

from devserver import DevServer
from tests.docs.test_docs import ROOT, blocks
from tests.kit import calls, says
from tests.workflows.hands import bank

pytestmark = pytest.mark.slow


async def command(folder: Path, *words: str, **variables: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, said.decode()
    return said.decode()


@pytest.mark.timeout(300)
async def test_a_decision_from_typescript(client: Client, server: DevServer, tmp_path: Path) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        assert not os.environ.get("SIGNOFF_REQUIRE_ALL"), "node and npm are missing"
        pytest.skip("node and npm are missing")
    [example] = [b for b in blocks(ROOT / "docs" / "services.md") if b.word == "decide.mjs"]
    (tmp_path / "decide.mjs").write_text(example.text)
    (tmp_path / "package.json").write_text('{"private": true}')
    await command(tmp_path, "npm", "install", "--no-audit", "--no-fund", "@temporalio/client@1")
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent, id=f"typescript-{uuid.uuid4()}")
        [waiting] = await run.waiting(1)
        said = await command(
            tmp_path, "node", "decide.mjs", run.id, waiting.id, TEMPORAL_ADDRESS=server.address
        )
        assert "taken" in said
        result = await run.result()
        assert effects.count("pay") == 1
        assert result.audit.closed[0].by == "typescript"
