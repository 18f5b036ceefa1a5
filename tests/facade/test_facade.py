"""What user code can do with the one name it imports."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as Temporal
from temporalio.converter import CompositePayloadConverter, DataConverter, PayloadCodec
from temporalio.worker import Worker

import signoff
from activities.scripted_model import lines
from devserver import DevServer, dev_server
from tests.kit import calls, eventually, says

paid: list[tuple[str, float]] = []


@signoff.tool(approval=lambda args: args.amount > 100)
def refund(order: str, amount: float) -> str:
    """Refund money for an order."""
    paid.append((order, amount))
    return f"refunded {amount:.2f} for {order}"


async def test_an_agent_of_ones_own_is_served_by_a_worker_of_ones_own(server: DevServer) -> None:
    script = lines(
        [
            calls(
                ("refund", "c1", {"order": "7", "amount": 250}), ("refund", "c2", {"order": "8", "amount": 5})
            ),
            says("both refunded"),
        ]
    )
    plugin = signoff.plugin(tools=[refund], models={"": signoff.ScriptedModel({"": script})})
    temporal = await Temporal.connect(server.address, plugins=[plugin])
    support = signoff.chat("support", tools=[refund])
    async with Worker(temporal, task_queue="facade"):
        client = signoff.Client(temporal, task_queue="facade")
        started = await client.start(signoff.RunRequest(task="Refund orders 7 and 8.", agent=support))

        async def asked() -> list[str] | None:
            page = await client.pending(started.id)
            return (
                [listed.id for listed in page.interrupts] if ("8", 5.0) in paid and page.interrupts else None
            )

        [waiting] = await eventually(asked, "one question, and the small refund made")
        assert waiting == "support>refund:c1"
        await client.decide(started.id, waiting, {"decision": "approve"}, by="li.wei")
        result = await client.result(started.id)
        assert (result.status, result.answer) == ("completed", "both refunded")
        assert sorted(paid) == [("7", 250.0), ("8", 5.0)]


async def test_a_worker_with_the_plugin_registers_the_search_attributes_before_it_polls(
    tmp_path: Path,
) -> None:
    script = lines([says("hello")])
    plugin = signoff.plugin(models={"": signoff.ScriptedModel({"": script})})
    async with dev_server(database=tmp_path / "bare.db") as bare:
        temporal = await Temporal.connect(bare.address, plugins=[plugin])
        async with Worker(temporal, task_queue="facade"):
            client = signoff.Client(temporal, task_queue="facade")
            started = await client.start(signoff.RunRequest(task="Say hello.", agent=signoff.chat("greeter")))
            assert (await client.result(started.id)).answer == "hello"


class Hidden(PayloadCodec):
    """Makes every payload unreadable, and readable again."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(metadata={"encoding": b"binary/hidden"}, data=zlib.compress(each.SerializeToString()))
            for each in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload.FromString(zlib.decompress(each.data))
            if each.metadata["encoding"] == b"binary/hidden"
            else each
            for each in payloads
        ]


async def test_a_codec_of_ones_own_stays_and_nothing_is_written_in_clear(server: DevServer) -> None:
    script = lines(
        [calls(("refund", "c1", {"order": "a-secret-order", "amount": 250})), says("a-secret-end")]
    )
    plugin = signoff.plugin(tools=[refund], models={"": signoff.ScriptedModel({"": script})})
    temporal = await Temporal.connect(
        server.address, plugins=[plugin], data_converter=DataConverter(payload_codec=Hidden())
    )
    async with Worker(temporal, task_queue="hidden"):
        client = signoff.Client(temporal, task_queue="hidden")
        support = signoff.chat("support", instructions="a-secret-way", tools=[refund])
        started = await client.start(signoff.RunRequest(task="a-secret-task", agent=support))

        async def asked() -> object:
            return (await client.pending(started.id)).interrupts

        await eventually(asked, "one question")
        await client.decide(
            started.id, "support>refund:c1", {"decision": "approve", "comment": "a-secret-word"}
        )
        assert (await client.result(started.id)).answer == "a-secret-end"
        history = await temporal.get_workflow_handle(started.id).fetch_history()
        assert "a-secret" not in history.to_json()
        assert not any(b"a-secret" in event.SerializeToString() for event in history.events)


async def test_a_payload_converter_of_ones_own_is_refused(server: DevServer) -> None:
    class Own(CompositePayloadConverter):
        pass

    with pytest.raises(signoff.BadInput, match="'Own'"):
        await Temporal.connect(
            server.address,
            plugins=[signoff.plugin(models={})],
            data_converter=DataConverter(payload_converter_class=Own),
        )


@pytest.mark.parametrize(
    ("build", "says_why"),
    [
        (lambda: signoff.chat("a>b"), "'a>b'"),
        (lambda: signoff.chat("resume"), "resume"),
        (lambda: signoff.chat("a", tools=[refund, refund]), "'refund' twice"),
        (lambda: signoff.chat("a", gates={"pay": signoff.Gate(kind="approval")}), "'pay'"),
        (lambda: signoff.chat("a", return_direct=["pay"]), "'pay'"),
        (lambda: signoff.loop("a", signoff.chat("b")), "no way out"),
        (lambda: signoff.sequential("a", signoff.chat("b"), signoff.chat("b")), "'b' twice"),
        (lambda: signoff.supervisor("a", agents=[]), "no agents"),
        (lambda: signoff.step("a", refund, arguments={"sum": 1}), "'sum'"),
    ],
)
def test_a_tree_that_cannot_run_is_refused_when_it_is_built(build: object, says_why: str) -> None:
    assert callable(build)
    with pytest.raises(signoff.BadTree, match=says_why):
        build()


def test_two_functions_under_one_activity_type_are_refused_when_the_worker_is_made() -> None:
    @signoff.tool(name="refund")
    def other(order: str) -> str:
        return order

    with pytest.raises(signoff.BadInput, match="activity type 'refund'"):
        signoff.plugin(tools=[refund, other], models={})
