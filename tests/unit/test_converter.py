"""The payload converter: typed values as pydantic has them, untyped ones strictly, and never an error for those."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload

from converter import DATA_CONVERTER, Undecodable
from protocol.interrupts import Approval, Approve
from protocol.messages import Reply

CONVERTER = DATA_CONVERTER.payload_converter


def payload(data: bytes, encoding: str = "json/plain") -> Payload:
    return Payload(metadata={"encoding": encoding.encode()}, data=data)


def untyped(*payloads: Payload) -> list[Any]:
    """As a handler gets them that takes anything; also if it declares `Any`."""
    found = CONVERTER.from_payloads(list(payloads))
    assert CONVERTER.from_payloads(list(payloads), [Any] * len(payloads)) == found
    return found


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (payload(b'{"decision": "reject", "decision": "approve"}'), "the key 'decision' stands twice"),
        (payload(b'{"amount": NaN}'), "NaN is not a JSON number"),
        (payload(b'{"amount": 1e400}'), "the number 1e400 is too large"),
        (payload(b"[" * 10_000), "nested deeper|not valid JSON"),
        (payload(b'"\\ud83d"'), "half of a surrogate pair"),
        (payload(b"{"), "not valid JSON"),
        (payload(b""), "not valid JSON"),
        (payload(b'"\xff"'), "not valid UTF-8"),
        (payload(b"\x08\x01", "binary/protobuf"), "'binary/protobuf' is no JSON"),
        (payload(b"{}", "json/protobuf"), "'json/protobuf' is no JSON"),
        (payload(b"secret", "binary/encrypted"), "'binary/encrypted' is no JSON"),
        (Payload(data=b"{}"), "'' is no JSON"),
        (Payload(metadata={"encoding": b"\xff\xfe"}, data=b"{}"), "is no JSON"),
        (Payload(metadata={"encoding": b"x" * 5_000}, data=b"{}"), "is no JSON"),
        (Payload(), "is no JSON"),
    ],
    ids=lambda value: str(value)[:40].replace("\n", " "),
)
def test_an_untyped_payload_that_cannot_be_read_says_why(sent: Payload, said: str) -> None:
    [found] = untyped(sent)
    assert isinstance(found, Undecodable)
    assert "\n" not in found.reason
    assert len(found.reason) < 200
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(found.reason)


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        (payload('{"姓名": "王小明", "note": "é السلام"}'.encode()), {"姓名": "王小明", "note": "é السلام"}),
        (payload(b"null"), None),
        (payload(b"", "binary/null"), None),
        (payload(b"raw", "binary/plain"), b"raw"),
        (payload(b'{"decision": "approve"}'), {"decision": "approve"}),
    ],
    ids=str,
)
def test_an_untyped_payload_is_read_as_plain_data(sent: Payload, value: Any) -> None:
    """B131."""
    assert untyped(sent) == [value]


def test_one_bad_payload_does_not_spoil_the_others() -> None:
    first, second, third = untyped(payload(b"1"), payload(b"{"), payload(b"3"))
    assert (first, third) == (1, 3)
    assert isinstance(second, Undecodable)


@given(st.binary(max_size=60), st.sampled_from(["json/plain", "binary/plain", "json/protobuf", "", "x"]))
def test_no_bytes_make_an_untyped_payload_raise(data: bytes, encoding: str) -> None:
    untyped(payload(data, encoding))


class Order(BaseModel):
    at: datetime
    items: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (Approval(tool="pay", arguments={"姓名": "王小明"}, when="gate"), Approval),
        (Approve(comment="fine"), Approve),
        (Reply(content="x"), Reply),
        (Order(at=datetime(2025, 1, 1, tzinfo=UTC), items=("预算",)), Order),
        ([Order(at=datetime(2025, 1, 1, tzinfo=UTC))], list[Order]),
        ({"a": [1, None, 0.5]}, dict[str, Any]),
        (None, type(None)),
        (b"raw", bytes),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_typed_value_comes_back_as_it_went(value: Any, type_: Any) -> None:
    """B127."""
    [sent] = CONVERTER.to_payloads([value])
    assert CONVERTER.from_payloads([sent], [type_]) == [value]


def test_what_is_written_is_readable_json_without_what_is_empty() -> None:
    """B131."""
    [sent] = CONVERTER.to_payloads([Reply(content="预算")])
    assert sent.metadata["encoding"] == b"json/plain"
    assert sent.data.decode() == '{"content":"预算"}'
    assert json.loads(sent.data) == {"content": "预算"}


def test_a_typed_payload_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown"):
        CONVERTER.from_payloads([payload(b'{"content": "x", "unknown": 1}')], [Reply])
