"""Tools that other workers serve, in whatever language: nothing that they give can wedge a run."""

import uuid
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.worker import Worker

from protocol.agents import Chat, ToolSpec
from protocol.work import MAX_ASKED_BYTES
from tests.kit import calls, house, says
from tests.workflows.hands import ids, told


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


def asks(**more: Any) -> dict[str, Any]:
    return {"outcome": "interrupted", **more}


GIVEN: dict[str, tuple[Any, str]] = {
    "text": ("as it is", "as it is"),
    "number": (5, "5"),
    "nothing": (None, "(the tool returned nothing)"),
    "object": ({"a": [1, "北"]}, '{"a":[1,"北"]}'),
    "many digits": (raw(b"1" * 4_200), "1" * 4_200),
    "an outcome of its own": ({"outcome": "done"}, '{"outcome":"done"}'),
    "NaN": (raw(b"NaN"), "cannot be read: NaN"),
    "twice the same key": (raw(b'{"a":1,"a":2}'), "cannot be read: the key 'a' stands twice"),
    "half a surrogate": (raw(b'"\\ud800"'), "cannot be read"),
    "bytes": (b"\xff\x00", "cannot be read: bytes is no JSON"),
    "an unknown encoding": (raw(b"?", b"binary/encrypted"), "cannot be read"),
    "a part with a separator": (asks(parts={"a>b": {}}), "may hold only"),
    "a part in another script": (asks(parts={"名": {}}), "may hold only"),
    "a part without a name": (asks(parts={"": {}}), "may hold only"),
    "a part like a second question": (asks(parts={"a": {}, "a~2": {}}), "may hold only"),
    "a long part": (asks(parts={"x" * 300: {}}), "longer than"),
    "no parts": (asks(parts={}), "asked for no parts"),
    "a large question": (asks(info="x" * MAX_ASKED_BYTES), "larger than"),
}


class Abroad:
    """An activity by hand: it gives what is asked of it, and a schema of its own is no schema."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    @activity.defn(name="abroad")
    async def give(self, call: dict[str, Any]) -> Any:
        self.runs.append(call["address"])
        kind = call["arguments"]["kind"]
        if kind == "a problem with what it never had":
            return asks(problem="it is unwell", problem_part="b") if "again" in call else asks(info="well?")
        if kind == "a schema that is none":
            return asks(expects={"type": 5})
        return GIVEN[kind][0]


async def test_whatever_a_foreign_tool_gives_becomes_a_message(client: Client) -> None:
    """B117"""
    queue, abroad = f"abroad-{uuid.uuid4()}", Abroad()
    spec = ToolSpec(name="abroad", description="", parameters={"type": "object"}, task_queue=queue)
    asked = [("abroad", f"call_{n}", {"kind": kind}) for n, kind in enumerate(GIVEN)]
    async with (
        Worker(client, task_queue=queue, activities=[abroad.give]),
        house(client, [], [calls(*asked), says("done")]) as h,
    ):
        run = await h.start(Chat(name="bank", tools=(spec,)))
        result = await run.result()
        assert result.status == "completed"
        assert result.audit.closed == []
        said = dict(zip(GIVEN, told(h).values(), strict=True))
        for kind, (_, words) in GIVEN.items():
            assert words in said[kind], kind
        assert len(abroad.runs) == len(GIVEN)
        await run.replay()


async def test_a_foreign_tool_cannot_ask_without_end(client: Client) -> None:
    """It finds fault with an answer that it was never given: that ends its call, and is no new question."""
    queue, abroad = f"abroad-{uuid.uuid4()}", Abroad()
    spec = ToolSpec(name="abroad", description="", parameters={"type": "object"}, task_queue=queue)
    script = [calls(("abroad", "p", {"kind": "a problem with what it never had"})), says("done")]
    async with (
        Worker(client, task_queue=queue, activities=[abroad.give]),
        house(client, [], script) as h,
    ):
        run = await h.start(Chat(name="bank", tools=(spec,)))
        [waiting] = await run.waiting(1)
        await run.decide(waiting.id, {"decision": "resume"})
        result = await run.result()
        assert "it is unwell" in told(h)["p"]
        assert ids(result.audit.closed) == ["bank>abroad:p"]
        assert len(abroad.runs) == 2


async def test_data_for_a_schema_that_is_none_is_refused(client: Client) -> None:
    """What cannot be checked does not pass; the question can still be withdrawn."""
    queue, abroad = f"abroad-{uuid.uuid4()}", Abroad()
    spec = ToolSpec(name="abroad", description="", parameters={"type": "object"}, task_queue=queue)
    script = [calls(("abroad", "p", {"kind": "a schema that is none"})), says("done")]
    async with (
        Worker(client, task_queue=queue, activities=[abroad.give]),
        house(client, [], script) as h,
    ):
        run = await h.start(Chat(name="bank", tools=(spec,)))
        [waiting] = await run.waiting(1)
        await run.signal("resume", {"targets": {waiting.id: {"decision": "resume", "data": 1}}})
        await run.update("withdraw", {"target": waiting.id})
        result = await run.result()
        assert "the schema cannot be applied" in result.audit.refused[0].reason
        assert "withdrawn" in told(h)["p"]
