"""A start input that says nothing fails the run at once, with the reason; it never retries for ever."""

import asyncio
import json
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tests.kit import House, calls, house, says

GOOD = {"task": "go", "agent": {"kind": "chat", "name": "bank"}}
WRONG: dict[str, tuple[list[Any], str]] = {
    "wrong types": ([{"task": 5, "max_turns": "many"}], "task"),
    "null": ([None], "object"),
    "nothing": ([], "0 arguments"),
    "two": ([GOOD, GOOD], "2 arguments"),
    "text": (["go"], "object"),
    "no agent": ([{"task": "go"}], "agent"),
    "blank task": ([{**GOOD, "task": " "}], "task"),
    "unknown field": ([{**GOOD, "surprise": 1}], "surprise"),
    "unknown kind": ([{"task": "go", "agent": {"kind": "oracle", "name": "x"}}], "oracle"),
    "bad name": ([{"task": "go", "agent": {"kind": "chat", "name": "a>b"}}], "a>b"),
    "misspelt breakpoint": ([{**GOOD, "interrupt_before": ["bnak"]}], "bnak"),
    "forged luggage": ([{**GOOD, "state": {"pages": 3}}], "luggage"),
    "encrypted": ([RawValue(Payload(metadata={"encoding": b"binary/encrypted"}, data=b"?"))], "encoding"),
    "twice the same key": (
        [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'{"task":"a","task":"b"}'))],
        "twice",
    ),
    "NaN": (
        [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'{"task":NaN}'))],
        "NaN",
    ),
}


async def fails(h: House, args: list[Any]) -> str:
    handle = await h.client.start_workflow("AgentRun", args=args, id=f"wrong-{id(args)}", task_queue=h.queue)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 10)
    assert isinstance(failure.value.cause, ApplicationError)
    return str(failure.value.cause)


async def test_a_wrong_start_input_fails_the_run_with_the_reason(client: Client) -> None:
    """B038"""
    async with house(client, [], [says("done")]) as h:
        for what, (args, why) in WRONG.items():
            reason = await fails(h, args)
            assert why in reason, what
            assert "\n" not in reason


@pytest.mark.parametrize(
    "request_json",
    [
        GOOD,
        {"agent": {"name": "bank", "kind": "chat"}, "task": "go"},
        {**GOOD, "interrupt_before": None, "model": None, "chat": None, "visible": None, "deadline": None},
        {**GOOD, "unheard_of": None},
    ],
    ids=["only what is required", "another order", "nulls count as absent", "an unknown null too"],
)
async def test_plain_json_starts_a_run_as_code_does(client: Client, request_json: dict[str, Any]) -> None:
    """B039"""
    async with house(client, [], [says("done")]) as h:
        run = await h.start_json(json.loads(json.dumps(request_json)))
        assert (await run.result()).answer == "done"


async def test_a_gate_in_plain_json_is_a_gate(client: Client) -> None:
    """B039"""
    tool = {
        "name": "pay",
        "parameters": {"type": "object"},
        "gate": {"kind": "approval"},
        "activity": "nobody.serves.this",
    }
    agent = {"kind": "chat", "name": "bank", "tools": [tool]}
    async with house(client, [], [calls(("pay", "p", {})), says("done")]) as h:
        run = await h.start_json({"task": "go", "agent": agent})
        [waiting] = await run.waiting(1)
        await run.reject(waiting.id)
        assert (await run.result()).status == "completed"
