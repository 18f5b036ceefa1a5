"""The poison matrix: whatever is sent, under whatever name, leaves a refused entry at most."""

from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError

from tests.kit import Run, calls, eventually, says
from tests.workflows.hands import bank

P1 = "bank>pay:p1"


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


GOOD = {"targets": {P1: {"decision": "approve"}}}
POISON: dict[str, tuple[Any, ...]] = {
    "no argument": (),
    "two arguments": (GOOD, GOOD),
    "ten arguments": tuple({"n": n} for n in range(10)),
    "null": (None,),
    "a text": ("approve",),
    "a number": (5,),
    "a list": ([GOOD],),
    "a wrong object": ({"nope": 1},),
    "bytes": (b"\x00\xff",),
    "an unknown encoding": (raw(b"??", b"binary/encrypted"),),
    "a protobuf": (raw(b"\x08\x01", b"binary/protobuf"),),
    "no encoding": (RawValue(Payload(data=b"{}")),),
    "broken JSON": (raw(b'{"targets": {'),),
    "broken UTF-8": (raw(b'{"by": "\xff\xfe"}'),),
    "duplicate keys": (raw(b'{"targets": {"bank>pay:p1": {"decision": "reject", "decision": "approve"}}}'),),
    "NaN": (raw(b'{"targets": {"bank>pay:p1": {"decision": "approve", "comment": NaN}}}'),),
    "an overflowing number": (raw(b'{"targets": {"bank>pay:p1": {"decision": "approve"}}, "by": 1e400}'),),
    "half a surrogate": (raw(b'{"targets": {"bank>pay:p1": {"decision": "approve"}}, "by": "\\ud800"}'),),
    "deep nesting": (raw(b"[" * 5_000 + b"]" * 5_000),),
    "a long text": ({"targets": {P1: {"decision": "reject", "reason": "x" * 1_500_000}}},),
}
NAMES = ("resume", "withdraw", "say", "end", P1, "nobody knows", "bank>pay:p1~7", "a" * 200)


@pytest.mark.parametrize("name", NAMES)
async def test_no_signal_can_wedge_or_fail_a_run(client: Client, name: str) -> None:
    """Temporal drops, or retries for ever, what a typed handler cannot take; here everything is on record."""
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        for args in POISON.values():
            await run.signal(name, *args)

        async def all_on_record() -> bool:
            return (await run.audit()).refused_in_all == len(POISON)

        await eventually(all_on_record, f"{len(POISON)} refused attempts")
        assert len(await run.pending()) == 1
        assert effects.count("pay") == 0
        await run.approve(P1)
        assert (await run.result()).status == "completed"
        assert effects.count("pay") == 1
        await run.replay()


@pytest.mark.parametrize("name", ["say", "end"])
async def test_nothing_that_is_no_word_is_heard_by_a_conversation(client: Client, name: str) -> None:
    async with bank(client, lambda prompt: says(f"heard: {prompt.messages[-1].content}")) as (h, agent, _):
        run = await h.start(agent, task="hello", chat=True)

        async def heard(count: int) -> bool:
            return len(h.model.prompts) == count

        await eventually(lambda: heard(1), "the opening line is heard")
        for args in POISON.values():
            await run.signal(name, *args)

        async def all_on_record() -> bool:
            return (await run.audit()).refused_in_all == len(POISON)

        await eventually(all_on_record, f"{len(POISON)} refused attempts")
        before = await run.events()
        for args in POISON.values():
            with pytest.raises(WorkflowUpdateFailedError):
                await run.update(name, *args)
        assert await run.events() == before
        await run.update("say", {"text": "still here?"})
        await eventually(lambda: heard(2), "a word is heard")
        await run.signal("end", {})
        assert (await run.result()).answer == "heard: still here?"


@pytest.mark.parametrize("name", NAMES)
async def test_no_update_can_wedge_or_fail_a_run(client: Client, name: str) -> None:
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        before = await run.events()
        for what, args in POISON.items():
            with pytest.raises(WorkflowUpdateFailedError) as failure:
                await run.update(name, *args)
            assert str(failure.value.cause), what
        assert await run.events() == before
        await run.approve(P1)
        assert (await run.result()).status == "completed"
        assert effects.count("pay") == 1


@pytest.mark.parametrize("sizes", [(1_800_000, 370_000), (1_900_000, 1_900_000)])
async def test_an_update_too_large_to_be_sent_back_is_no_trouble_of_the_run(
    client: Client, sizes: tuple[int, ...]
) -> None:
    """To refuse an update is to send its whole input back; with the SDK's own check of sizes that never ends."""
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        with pytest.raises((WorkflowUpdateFailedError, RPCError)):
            await run.update("resume", *({"a": "x" * size} for size in sizes))
        await run.approve(P1)
        assert (await run.result()).status == "completed"
        assert effects.count("pay") == 1


async def test_queries_never_raise(client: Client) -> None:
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(1)
        for query in ("pending", "interrupts", "audit", "transcript", "tree"):
            queries: list[list[Any]] = [[], [None], [{}], ["x"], [{"nope": 1}], [{}, {}], [b"\xff"]]
            for args in queries:
                assert isinstance(await run.handle.query(query, args=args), dict)
        await run.reject(P1)
        await run.result()


async def test_a_client_with_the_stock_converter_can_decide(client: Client) -> None:
    stock = await Client.connect(client.service_client.config.target_host)
    async with bank(client, [calls(("pay", "p1", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        other = Run(stock.get_workflow_handle(run.id))
        await other.handle.signal(P1, {"decision": "approve"})
        await run.result()
        assert effects.count("pay") == 1
