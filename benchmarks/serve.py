"""A worker process of the benchmarks: python -m benchmarks.serve ADDRESS QUEUE (ours|minimal) [FOLDER]"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from temporalio.client import Client
from temporalio.worker import Worker

from activities.scripted_model import Prompt, ScriptedModel
from activities.tools import tool
from benchmarks.minimal import Minimal, model
from benchmarks.minimal import pay as pay_by_hand
from converter import DATA_CONVERTER
from protocol.messages import Asked, Assistant, Reply
from worker import OPTIONS, build_worker

KILOBYTE = "x" * 1_000
FOLDER = Path(sys.argv[4]) if len(sys.argv) > 4 else Path()


@tool(approval=True)
async def pay(amount: int, to: str) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


@tool
async def read(page: int, hint: str) -> str:
    """Read a page."""
    return KILOBYTE


@tool(approval=True, attempts=5, heartbeat=2)
async def hold() -> str:
    """Does not end while the file `hold` is there."""
    (FOLDER / "holding").touch()
    while (FOLDER / "hold").exists():  # noqa: ASYNC110  # a file of another process
        await asyncio.sleep(0.02)
    return "held"


TOOLS = [pay, read, hold]


def script(prompt: Prompt) -> Reply:
    """Does what the opening line says: ``Please …`` is one payment, ``pay N`` are that many at once, ``read N`` pages
    one by one, or ``hold``."""
    verb, _, count = (prompt.messages[0].content or "").partition(" ")
    turn = sum(isinstance(message, Assistant) for message in prompt.messages)
    match verb:
        case "read" if turn < int(count):
            arguments = f'{{"page": {turn}, "hint": "{KILOBYTE}"}}'
            return Reply(calls=(Asked(name="read", id=f"call_{turn}", arguments=arguments),))
        case "pay" | "Please" if turn == 0:
            arguments, calls = '{"amount": 5, "to": "A"}', int(count) if verb == "pay" else 1
            return Reply(
                calls=tuple(Asked(name="pay", id=f"call_{n}", arguments=arguments) for n in range(calls))
            )
        case "hold" if turn == 0:
            return Reply(calls=(Asked(name="hold", id="call_0"),))
        case _:
            return Reply(content="done")


def served(client: Client, queue: str, which: str) -> Worker:
    if which == "minimal":
        return Worker(
            client, task_queue=queue, workflows=[Minimal], activities=[model, pay_by_hand], **OPTIONS
        )
    return build_worker(client, task_queue=queue, tools=TOOLS, models={"": ScriptedModel({"": script})})


async def main() -> None:
    address, queue, which = sys.argv[1:4]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    client = await Client.connect(address, data_converter=DATA_CONVERTER)
    async with served(client, queue, which):
        print("serving", flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # a Python that ends while the SDK's threads return aborts now and then
