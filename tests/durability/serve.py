"""A worker process for tests that kill it: its tools write a line to a file for each thing they did.

python -m tests.durability.serve ADDRESS QUEUE FOLDER
"""

import asyncio
import sys
import time
from pathlib import Path

from temporalio.client import Client

from activities.scripted_model import Prompt, ScriptedModel
from activities.tools import idempotency_key, tool
from converter import DATA_CONVERTER
from protocol.messages import Asked, Assistant, Reply
from worker import build_worker

FOLDER = Path(sys.argv[3]) if len(sys.argv) == 4 else Path()


def wrote(line: str) -> str:
    with (FOLDER / "effects").open("a") as effects:
        effects.write(f"{line}\n")
    return line


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return wrote(f"pay {amount}")


@tool
def note() -> str:
    """Take a note."""
    return wrote("note")


@tool(approval=True, heartbeat=2)
def slow_once() -> str:
    """Takes effect, then does not end while the file `hold` is there; at most once."""
    wrote("slow_once")
    while (FOLDER / "hold").exists():
        time.sleep(0.05)
    return "slow_once done"


@tool(approval=True, attempts=5, heartbeat=2)
def slow_idempotent() -> str:
    """As `slow_once`, but it may be tried again with the same key."""
    wrote(f"key {idempotency_key()}")
    while (FOLDER / "hold").exists():
        time.sleep(0.05)
    return "slow_idempotent done"


TOOLS = [pay, note, slow_once, slow_idempotent]


def script(prompt: Prompt) -> Reply:
    """Calls each tool that the opening line names, all at once; then says what came of it."""
    if any(isinstance(message, Assistant) for message in prompt.messages):
        return Reply(content="done")
    wanted = (prompt.messages[0].content or "").split()
    arguments = {"pay": '{"amount": 5}'}
    return Reply(
        calls=tuple(Asked(name=name, id=f"c_{name}", arguments=arguments.get(name, "{}")) for name in wanted)
    )


async def main() -> None:
    address, queue = sys.argv[1:3]
    client = await Client.connect(address, data_converter=DATA_CONVERTER)
    async with build_worker(client, task_queue=queue, tools=TOOLS, models={"": ScriptedModel({"": script})}):
        (FOLDER / "serving").touch()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
