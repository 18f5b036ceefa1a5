"""Parallel calls: each waits under its own address, and each decision is its own."""

from temporalio.client import Client

from tests.kit import calls, eventually, says
from tests.workflows.hands import bank, both_entries, ids, refused, send, told

APPROVE = {"decision": "approve"}


@both_entries
async def test_a_batch_of_three_decisions_stays_three_decisions(client: Client, entry: str) -> None:
    """B001"""
    script = [
        calls(("pay", "call_1", {"amount": 1}), ("send", "call_2", {"to": "b"}), ("wipe", "call_3", {})),
        says("done"),
    ]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        listed = await run.waiting(3)
        assert ids(listed) == ["bank>pay:call_1", "bank>send:call_2", "bank>wipe:call_3"]
        await send(
            run,
            entry,
            {
                listed[0].id: APPROVE,
                listed[1].id: {"decision": "reject", "reason": "we have a car"},
                listed[2].id: APPROVE,
            },
        )
        await run.result()
        assert (effects.count("pay"), effects.count("send"), effects.count("wipe")) == (1, 0, 1)
        assert list(told(h)) == ["call_1", "call_2", "call_3"]
        assert "we have a car" in told(h)["call_2"]
        await run.replay()


@both_entries
async def test_all_waits_of_a_batch_are_visible_together(client: Client, entry: str) -> None:
    """B003"""
    asked = [("pay", f"call_{n}", {"amount": n}) for n in range(1, 6)]
    async with bank(client, [calls(*asked), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        listed = await run.waiting(5)
        await send(run, entry, {listed[2].id: APPROVE})
        left = await run.waiting(4)
        assert ids(left) == [f"bank>pay:call_{n}" for n in (1, 2, 4, 5)]

        async def paid() -> bool:
            return effects.count("pay") == 1

        await eventually(paid, "the approved one ran")
        assert effects.done == [("pay", 3)]
        assert len(h.model.prompts) == 1


@both_entries
async def test_the_pending_list_is_exactly_the_set_of_undecided_addresses(client: Client, entry: str) -> None:
    """B005"""
    asked = [("pay", id, {"amount": 1}) for id in "abc"]
    async with bank(client, [calls(*asked), says("done")]) as (h, agent, _):
        run = await h.start(agent)
        await run.waiting(3)
        for decided, left in (("b", "ac"), ("c", "a")):
            await send(run, entry, {f"bank>pay:{decided}": APPROVE})
            assert ids(await run.waiting(len(left))) == [f"bank>pay:{id}" for id in left]
        await send(run, entry, {"bank>pay:a": APPROVE})
        assert (await run.result()).status == "completed"
        assert await run.pending() == []


@both_entries
async def test_a_rejection_is_for_its_call_alone(client: Client, entry: str) -> None:
    """B006 B013"""
    script = [
        calls(("lookup", "f1", {}), ("pay", "t1", {"amount": 10}), ("pay", "t2", {"amount": 20})),
        says("done"),
    ]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(2)
        await send(run, entry, {"bank>pay:t1": {"decision": "reject"}, "bank>pay:t2": APPROVE})
        await run.result()
        assert (effects.count("lookup"), effects.count("pay", 20), effects.count("pay", 10)) == (1, 1, 0)
        assert list(told(h)) == ["f1", "t1", "t2"]
        assert told(h)["f1"] == "7.1"
        assert len(h.model.prompts) == 2


@both_entries
async def test_two_calls_of_one_tool_are_kept_apart(client: Client, entry: str) -> None:
    """B007"""
    script = [calls(("send", "m1", {"to": "a@x.test"}), ("send", "m2", {"to": "b@x.test"})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(2)
        await send(run, entry, {"bank>send:m1": APPROVE})

        async def sent() -> bool:
            return effects.count("send", "a@x.test") == 1

        await eventually(sent, "the first mail")
        await send(run, entry, {"bank>send:m2": APPROVE})
        await run.result()
        assert effects.done == [("send", "a@x.test"), ("send", "b@x.test")]
        assert "a@x.test" in told(h)["m1"]
        assert "b@x.test" in told(h)["m2"]


async def test_a_surplus_target_refuses_an_update_whole_and_is_named(client: Client) -> None:
    """B010 by update: all or nothing"""
    script = [calls(("lookup", "c1", {}), ("pay", "w1", {"amount": 1})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        targets = {"bank>lookup:c1": APPROVE, "bank>pay:w1": APPROVE}
        reason = await refused(run, "update", "resume", {"targets": targets})
        assert "bank>lookup:c1" in reason
        assert effects.count("pay") == 0
        await run.approve("bank>pay:w1")
        await run.result()
        assert effects.count("pay") == 1


async def test_a_surplus_target_of_a_signal_is_refused_alone(client: Client) -> None:
    """B010 by signal: one by one"""
    script = [calls(("lookup", "c1", {}), ("pay", "w1", {"amount": 1})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, "signal", {"bank>lookup:c1": APPROVE, "bank>pay:w1": APPROVE})
        result = await run.result()
        assert effects.count("pay") == 1
        assert [r.target for r in result.audit.refused] == ["bank>lookup:c1"]


@both_entries
async def test_a_failing_call_becomes_an_error_message_for_that_call_only(client: Client, entry: str) -> None:
    """B014"""
    script = [calls(("note", "k1", {}), ("boom", "k2", {}), ("pay", "k3", {"amount": 1})), says("done")]
    async with bank(client, script) as (h, agent, effects):
        run = await h.start(agent)
        await run.waiting(1)
        await send(run, entry, {"bank>pay:k3": APPROVE})
        assert (await run.result()).status == "completed"
        assert list(told(h)) == ["k1", "k2", "k3"]
        assert "db down" in told(h)["k2"]
        assert effects.count("note") == 1
        assert effects.count("pay") == 1


async def test_only_gated_calls_ask(client: Client) -> None:
    """B152"""
    free = [("note", f"n{n}", {"text": str(n)}) for n in range(3)]
    async with bank(client, [calls(*free, ("pay", "p", {"amount": 1})), says("done")]) as (h, agent, effects):
        run = await h.start(agent)
        [waiting] = await run.waiting(1)

        async def noted() -> bool:
            return effects.count("note") == 3

        await eventually(noted, "the free ones have run")
        await run.approve(waiting.id)
        await run.result()
