"""Whatever is sent to a run leaves a refused entry at most, and the run then completes normally."""

import json
import random
import string
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode

from tests.kit import Run, calls, eventually, says
from tests.workflows.hands import bank

P1 = "bank>pay:p1"
NAMES = ["resume", "withdraw", "say", "end", P1, "bank>pay:p2", "bank", "x" * 100, "工具", "a>b>c:d#2~3"]
KEYS = [
    "targets",
    "all",
    "under",
    "decision",
    "by",
    "run",
    "digest",
    "request_id",
    "target",
    "text",
    P1,
    "arguments",
]


class Nonsense:
    """Payloads that nobody foresaw, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._large_left = 6  # up to 10 MB in all

    def args(self) -> list[Any]:
        count = self._chance.choice([0, 1, 1, 1, 1, 1, 2, 10])
        return [self._payload() for _ in range(count)]

    def _payload(self) -> Any:
        chance = self._chance
        match chance.randrange(12):
            case 0:
                encoding = chance.choice([b"json/plain", b"binary/plain", b"json/protobuf", b"\xff", b""])
                data = bytes(chance.randrange(256) for _ in range(chance.randrange(60)))
                return RawValue(Payload(metadata={"encoding": encoding}, data=data))
            case 1:
                return _raw("[" * 30_000)
            case 2:
                return _raw('{"a":' * 200 + "1" + "}" * 200)
            case 3:
                return _raw(f'{{"targets": {{"{P1}": {{"decision": "reject", "decision": "approve"}}}}}}')
            case 4:
                number = chance.choice(["NaN", "1e400", "-Infinity"])
                return _raw(f'{{"decision": "approve", "comment": {number}}}')
            case 5:
                return _raw('{"decision": "approve", "comment": "\\ud800"}')
            case 6 if self._large_left:
                self._large_left -= 1
                return {"targets": {f"bank>pay:{n}": {"decision": "approve"} for n in range(10_000)}}
            case 7 if self._large_left:
                self._large_left -= 1
                return {"decision": "reject", "reason": "x" * 1_800_000}
            case 8:
                return {"decision": "answer", "answer": "\x00\x1b[2J" * 3}
            case _:
                return self._value(4)

    def _value(self, depth: int) -> Any:
        chance = self._chance
        kinds = ["text", "number", "true", "null", "decision"] + (
            ["object", "object", "list"] if depth else []
        )
        match chance.choice(kinds):
            case "text":
                return "".join(
                    chance.choice(string.printable + "é工😀\x00") for _ in range(chance.randrange(30))
                )
            case "number":
                return chance.choice([0, -1, 1.5, 10**30, 2**63])
            case "true":
                return chance.choice([True, False])
            case "decision":
                return chance.choice(["APPROVE", "approved", "yes", "edit", "resume", "accept", P1])
            case "object":
                return {chance.choice(KEYS): self._value(depth - 1) for _ in range(chance.randrange(4))}
            case "list":
                return [self._value(depth - 1) for _ in range(chance.randrange(4))]
            case _:
                return None


def _raw(text: str) -> RawValue:
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text.encode()))


async def stored(run: Run, name: str, args: list[Any]) -> bool:
    """Send a signal; false if the server itself had no room for it."""
    try:
        await run.signal(name, *args)
    except RPCError as error:
        if error.status in (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.RESOURCE_EXHAUSTED):
            return False
        raise
    return True


async def survives(client: Client, messages: int, seed: int) -> None:
    nonsense, chance = Nonsense(seed), random.Random(seed)
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)
        signals = 0
        for _ in range(messages):
            name, args = chance.choice(NAMES), nonsense.args()
            if chance.random() < 0.5:
                signals += await stored(run, name, args)
                continue
            with pytest.raises((WorkflowUpdateFailedError, RPCError)):
                await run.update(name, *args)

        async def on_record() -> bool:
            return (await run.audit()).refused_in_all >= signals

        await eventually(on_record, f"{signals} refused signals")
        assert await run.pending() == [waiting]
        assert effects.done == []
        await run.approve(P1)
        result = await run.result()
        assert result.status == "completed"
        assert effects.done == [("pay", 1)]
        assert len(json.dumps(result.model_dump(mode="json"))) < 200_000


@pytest.mark.parametrize("seed", range(3))
async def test_nonsense_changes_nothing(client: Client, seed: int) -> None:
    await survives(client, 60, seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 110))
async def test_much_nonsense_changes_nothing(client: Client, seed: int) -> None:
    await survives(client, 150, seed)
