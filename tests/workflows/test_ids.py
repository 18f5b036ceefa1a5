"""Call ids come from models: whatever they are, every call has its own address and its one tool message."""

import pytest
from temporalio.client import Client

from protocol.address import Address, address_of
from protocol.agents import Chat
from tests.kit import calls, eventually, says
from tests.workflows.hands import bank, both_entries, ids, send, told

APPROVE = {"decision": "approve"}


@both_entries
async def test_an_id_used_again_in_a_later_turn_is_another_call(client: Client, entry: str) -> None:
    """B073"""
    script = [
        calls(("pay", "pay_0", {"amount": 1})),
        calls(("pay", "pay_0", {"amount": 9000})),
        calls(("lookup", "pay_0", {})),
        says("done"),
    ]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {"bank>pay:pay_0": APPROVE})

        async def second() -> bool:
            return ids(await run.pending()) == ["bank>pay:pay_0#2"]

        await eventually(second, "the second question under its own id")
        assert effects.done == [("pay", 1)]
        await send(run, entry, {"bank>pay:pay_0#2": {"decision": "reject"}})
        await run.result()
        assert list(told(h)) == ["pay_0", "call_2", "call_3"]
        assert effects.done == [("pay", 1), ("lookup", None)]
        await run.replay()


@both_entries
async def test_two_calls_with_one_id_are_told_apart(client: Client, entry: str) -> None:
    """B074"""
    script = [calls(("pay", "dup", {"amount": 1}), ("wipe", "dup", {})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        first, second = await run.waiting(2)
        assert ids([first, second]) == ["bank>pay:dup", "bank>wipe:dup#2"]
        await send(run, entry, {first.id: APPROVE})
        await run.waiting(1)
        await send(run, entry, {second.id: {"decision": "reject"}})
        await run.result()
        assert effects.done == [("pay", 1)]
        assert list(told(h)) == ["dup", "call_2"]


async def test_missing_ids_are_given(client: Client) -> None:
    script = [calls(("pay", "", {"amount": 1}), ("pay", "", {"amount": 2})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        first, second = await run.waiting(2)
        assert len({first.id, second.id}) == 2
        await run.approve(second.id)
        await run.waiting(1)
        await run.approve(first.id)
        await run.result()
        assert sorted(effects.done) == [("pay", 1), ("pay", 2)]
        assert len(told(h)) == 2


STRANGE = [
    "functions.pay:0",
    "a>b",
    "x y",
    "工具:1",
    "a#2",
    "b~2",
    "%3E",
    "x" * 300,
    "'; rm -rf /",
    "\t\n",
    "é",
]


@both_entries
async def test_separators_in_ids_cannot_confuse_addresses(client: Client, entry: str) -> None:
    """B077"""
    asked = [("pay", id, {"amount": n}) for n, id in enumerate(STRANGE, 1)]
    async with bank(client, [calls(*asked), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        listed = await run.waiting(len(STRANGE))
        assert len({each.id for each in listed}) == len(STRANGE)
        for each in listed:
            assert str(address_of(each.id)) == each.id
            assert len(address_of(each.id).segments) == 2
            assert len(each.id.encode()) < 240
        for n, each in enumerate(listed, 1):
            await send(run, entry, {each.id: APPROVE})

            async def paid(amount: int = n) -> bool:
                return effects.count("pay", amount) == 1

            await eventually(paid, f"payment {n}")
        await run.result()
        assert len(effects.done) == len(STRANGE)
        assert all(len(id) <= 40 for id in told(h))


@pytest.mark.parametrize("name", ["ops>eu", "a:b", "a#1", "a~1", "a b", "名", "", "x" * 49])
def test_a_name_that_holds_a_separator_is_refused_when_the_tree_is_built(name: str) -> None:
    """B077"""
    from protocol.run import RunRequest

    with pytest.raises(ValueError, match=r"may hold only|longer than"):
        RunRequest(task="x", agent=Chat(name=name))


def test_an_address_survives_writing_and_reading() -> None:
    address = Address.root("pm").child("exec").child("executor", 3).call("pay", "call_7", 2)
    assert str(address) == "pm>exec>executor#3>pay:call_7#2"
    assert Address.parse(str(address)) == address
