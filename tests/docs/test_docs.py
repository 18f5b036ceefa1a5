"""What the documentation shows is run: every `sh` and `python` block of README.md and docs/*.md, in order.

Before a block may stand, as an HTML comment:

- ``no-run: reason``   the block is not run, for that reason; there are few of them
- ``file: name``       the block is written to that file in the page's folder
- ``output``           the (text) block is what the block before it printed; ``…`` stands for what is left out
- ``output: command``  the same for a command that the page names in other words

Before a block is run, the runs that the blocks before it started have come to their question, as they have when a
person types it.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.model import Prompt
from devserver import DevServer, dev_server
from protocol.messages import Asked, Reply, Tool
from tests.kit import eventually
from tests.loopback import loopback

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[a-z-]+)(?:: (?P<word>[^>]*?))? -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
STARTED = re.compile(r"(?:signoff start|temporal workflow start) .*?--(?:workflow-)?id (\S+)")
MOST_NOT_RUN = 8


@dataclass(frozen=True)
class Block:
    mark: str
    word: str
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [
        Block(found["mark"] or "", (found["word"] or "").strip(), found["language"], found["text"])
        for found in BLOCK.finditer(page.read_text())
    ]


def test_few_blocks_are_not_run_and_each_has_a_reason() -> None:
    unrun = [(page.name, block) for page in PAGES for block in blocks(page) if block.mark == "no-run"]
    assert all(len(block.word) > 10 for _, block in unrun), "a no-run without a reason"
    assert len(unrun) <= MOST_NOT_RUN
    marks = {block.mark for page in PAGES for block in blocks(page)}
    assert marks <= {"", "no-run", "file", "output"}


def support(prompt: Prompt) -> Reply:
    """The model of the README: asks for the refund, then says what came of it."""
    last = prompt.messages[-1]
    if isinstance(last, Tool):
        return Reply(content=f"Here is what came of it: {last.content}")
    return Reply(calls=(Asked(name="refund", id="call_1", arguments='{"order": "7", "amount": 250}'),))


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[DevServer]:
    """One for these pages alone: they list what waits, of all runs."""
    async with dev_server() as started:
        yield started


@pytest.fixture(scope="module")
async def client(server: DevServer) -> Client:
    return await Client.connect(server.address)


@pytest.fixture(scope="module")
async def environment(
    server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, str]]:
    """A worker that serves the scenarios, a model on loopback, and the commands of this environment."""
    home = tmp_path_factory.mktemp("home")
    async with loopback(support) as model:
        variables = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "TEMPORAL_ADDRESS": server.address,
            "LANG": "C.UTF-8",
            "COLUMNS": "90",
            "USER": "ann",
        }
        worker = await asyncio.create_subprocess_exec(
            sys.executable, str(ROOT / "worker.py"), env=variables, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            yield {**variables, **model.environment}
        finally:
            worker.terminate()
            await worker.wait()


async def run(block: Block, folder: Path, environment: dict[str, str], n: int) -> str:
    """Run a block; its output. Fails with everything it said if its exit code is not 0."""
    if block.language == "python":
        file = folder / f"block_{n}.py"
        file.write_text(block.text)
        command = [sys.executable, str(file)]
    else:
        command = ["bash", "-euo", "pipefail", "-c", block.text]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{block.text}\n{said.decode()}\n{complained.decode()}"
    return said.decode()


async def eventually_asks(client: Client, id: str) -> None:
    """Wait until the run is listed as waiting, or has ended."""
    query = f"WorkflowId = '{id}' AND (SignoffStatus = 'waiting' OR ExecutionStatus != 'Running')"

    async def listed() -> bool:
        return (await client.count_workflows(query)).count == 1

    await eventually(listed, f"a question of {id}")


def assert_shown(shown: str, said: str) -> None:
    """*shown* is what was said, with ``…`` for anything in a line, or, alone in a line, for any lines."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else ".*".join(re.escape(part) for part in line.split("…")) + r"\n"
        for line in shown.splitlines()
    ]
    whole = "".join(f"{line.rstrip()}\n" for line in said.splitlines())
    assert re.fullmatch("".join(lines), whole), f"the page shows\n{shown}\nbut it said\n{said}"


def test_an_output_block_is_all_that_was_said() -> None:
    said = "one\ntwo three  \nfour\n"
    for shown in ("one\ntwo three\nfour", "one\n…\nfour", "…\ntwo …\n…", "…"):
        assert_shown(shown, said)
    for shown in ("one", "two three\nfour", "one\n…\nthree", "one\n… four", "two …", ""):
        with pytest.raises(AssertionError):
            assert_shown(shown, said)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_what_a_page_shows_can_be_run(
    client: Client, page: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    said = ""
    for n, block in enumerate(blocks(page)):
        match block.mark, block.language:
            case "no-run", _:
                continue
            case "file", _:
                (tmp_path / block.word).write_text(block.text)
            case "output", _:
                if block.word:
                    said = await run(Block("", "", "sh", block.word), tmp_path, environment, n)
                assert_shown(block.text, said)
            case _, "sh" | "python":
                said = await run(block, tmp_path, environment, n)
                for id in STARTED.findall(block.text.replace("\\\n", " ")):
                    await eventually_asks(client, id)
            case _:
                continue


async def test_the_agent_of_the_readme_runs(
    client: Client, environment: dict[str, str], tmp_path: Path
) -> None:
    """As it stands there, but for the server's address; decided meanwhile with the command of the README."""
    [example] = [block for block in blocks(ROOT / "README.md") if block.word == "my_agent.py"]
    assert len(example.text.splitlines()) <= 35
    own = example.text.replace("localhost:7233", environment["TEMPORAL_ADDRESS"])
    agent = asyncio.create_task(run(Block("", "", "python", own), tmp_path, environment, 0))
    await eventually_asks(client, "refund-7")
    await run(Block("", "", "sh", "signoff approve refund-7"), tmp_path, environment, 1)
    assert "refunded 250.00 EUR for order 7" in await agent


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"`[^`\n]*`", "", page.read_text())
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
