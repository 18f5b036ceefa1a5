"""Messages: they survive the converter, every call gets an id that providers take, and no reply breaks the wire."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from converter import DATA_CONVERTER
from protocol import texts
from protocol.address import Address, call_segment
from protocol.messages import (
    MAX_WIRE_ID,
    Asked,
    Assistant,
    Function,
    Message,
    Reply,
    System,
    Tool,
    ToolCall,
    Usage,
    User,
    call_ids,
    mark,
    place,
    spoken,
    wire,
    wire_name,
)

CALL = ToolCall(id="call_1", function=Function(name="pay", arguments='{"姓名": "王小明"}'))
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"

CONVERSATION: list[Message] = [
    System(content="Be careful with {money}."),
    User(content=f"付钱 {FAMILY} é السلام"),
    Assistant(content="How much?"),
    Assistant(tool_calls=(CALL,)),
    Tool(tool_call_id="call_1", content="paid"),
    Assistant(content="Both.", tool_calls=(CALL, CALL)),
    Tool(tool_call_id="call_2", content="tool 'pay' failed: ValueError"),
    Assistant(refusal="I will not do that."),
]


def there_and_back(value: Any, type_: Any) -> Any:
    [payload] = DATA_CONVERTER.payload_converter.to_payloads([value])
    [back] = DATA_CONVERTER.payload_converter.from_payloads([payload], [type_])
    return back


@pytest.mark.parametrize("message", CONVERSATION, ids=lambda message: f"{message.role}")
def test_every_kind_of_message_survives_the_converter(message: Message) -> None:
    """B127, B131."""
    back = there_and_back(message, Message)
    assert type(back) is type(message)
    assert back == message


def test_a_conversation_and_a_reply_survive_the_converter() -> None:
    """B127."""
    assert there_and_back(tuple(CONVERSATION), tuple[Message, ...]) == tuple(CONVERSATION)
    reply = Reply(
        content="x",
        refusal="no",
        calls=(Asked(name="pay", id="a", arguments="{}"), Asked(name="")),
        usage=Usage(),
    )
    assert there_and_back(reply, Reply) == reply


def test_text_is_not_escaped_on_the_way() -> None:
    """B131."""
    [payload] = DATA_CONVERTER.payload_converter.to_payloads([CONVERSATION])
    assert f"付钱 {FAMILY} é السلام" in payload.data.decode()


def test_a_message_is_on_the_wire_as_chat_completions_has_it() -> None:
    assert wire(CONVERSATION[3]) == {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "pay", "arguments": '{"姓名": "王小明"}'},
            }
        ],
    }
    assert wire(Tool(tool_call_id="call_1", content="paid")) == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "paid",
    }


@pytest.mark.parametrize(
    "broken",
    [
        {"role": "assistant", "content": "x", "name": "bank"},
        {"role": "robot", "content": "x"},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": ["x"]},
        {"role": "user", "content": 7},
        {"content": "x"},
    ],
    ids=str,
)
def test_what_is_no_message_is_refused(broken: dict[str, Any]) -> None:
    """B127: fields of a provider's own do not get in."""
    adapter: TypeAdapter[Message] = TypeAdapter(Message)
    with pytest.raises(ValidationError):
        adapter.validate_json(json.dumps(broken))


# ----------------------------------------------------------------------------------------------------- ids


def wires(*ids: str, used: tuple[str, ...] = ()) -> list[str]:
    return [call.wire for call in place([Asked(name="pay", id=id) for id in ids], set(used), len(used))]


def segments(*ids: str) -> list[str]:
    return [call.call for call in place([Asked(name="pay", id=id) for id in ids], set(), 0)]


def test_a_call_keeps_the_id_that_the_model_gave_it() -> None:
    assert wires("call_abc123", "functions.pay:0", "呼叫") == ["call_abc123", "functions.pay:0", "呼叫"]
    assert segments("call_abc123", "functions.pay:0", "呼叫") == ["call_abc123", "functions.pay%3A0", "呼叫"]


def test_a_missing_id_is_the_number_of_the_call_in_the_conversation() -> None:
    assert wires("", "") == ["call_1", "call_2"]
    assert wires("", used=("a", "b", "c")) == ["call_4"]


def test_an_id_is_as_long_as_every_provider_takes() -> None:
    fits, long = "x" * MAX_WIRE_ID, "x" * (MAX_WIRE_ID + 1)
    assert wires(fits, long) == [fits, "call_2"]
    assert segments(fits, long)[1] == call_segment(long)  # the address keeps what it can


def test_an_id_used_before_is_replaced() -> None:
    assert wires("a", "a", "a") == ["a", "call_2", "call_3"]
    assert wires("a", used=("a",)) == ["call_2"]
    assert segments("a", "a") == ["a", "a"]  # visits tell them apart


def test_a_made_up_id_never_meets_a_real_one() -> None:
    assert wires("call_2", "") == ["call_2", "call_2_"]
    assert wires("", used=("call_2", "call_2_")[:1]) == ["call_2_"]


def test_half_a_character_in_an_id_still_makes_an_address() -> None:
    [segment] = segments("a\ud83db")
    address = str(Address.root("bank").call("pay", segment))
    assert str(Address.parse(address)) == address
    address.encode()


@given(st.lists(st.text(max_size=60), max_size=8), st.lists(st.text(max_size=8), max_size=4, unique=True))
def test_placed_calls_have_ids_that_are_unique_and_short(ids: list[str], before: list[str]) -> None:
    used = {id for id in before if id}
    placed = place([Asked(name="pay", id=id) for id in ids], set(used), len(used))
    given_ids = [call.wire for call in placed]
    assert len({*given_ids, *used}) == len(ids) + len(used)
    assert all(0 < len(id) <= MAX_WIRE_ID for id in given_ids)
    for call in placed:
        written = str(Address.root("bank").call("pay", call.call))
        assert str(Address.parse(written)) == written


@given(st.lists(st.lists(st.text(max_size=50), max_size=4), max_size=5))
def test_a_conversation_told_again_gives_the_same_ids(turns: list[list[str]]) -> None:
    """The workflow and the model's activity place the same calls apart from each other."""
    together: list[Message] = []
    used: set[str] = set()
    for ids in turns:
        asked = [Asked(name="pay", id=id) for id in ids]
        apart = list(call_ids(together))
        first = [call.wire for call in place(asked, used, len(used))]
        second = [call.wire for call in place(asked, set(apart), len(apart))]
        assert first == second
        together.append(spoken(Reply(content="x", calls=tuple(asked)), first))


# -------------------------------------------------------------------------------------------------- replies


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(content="x"), Assistant(content="x")),
        (Reply(), Assistant(content=texts.SAID_NOTHING)),
        (Reply(refusal="no"), Assistant(refusal="no")),
        (
            Reply(calls=(Asked(name="pay now!", arguments=""),)),
            Assistant(tool_calls=(ToolCall(id="w", function=Function(name="pay_now_", arguments="{}")),)),
        ),
        (
            Reply(content="x", calls=(Asked(name="pay", arguments="{broken"),)),
            Assistant(
                content="x",
                tool_calls=(ToolCall(id="w", function=Function(name="pay", arguments="{broken")),),
            ),
        ),
    ],
    ids=["words", "nothing", "refusal", "an invented name", "broken arguments"],
)
def test_a_reply_becomes_a_message_that_can_be_sent_back(reply: Reply, message: Assistant) -> None:
    assert spoken(reply, ["w"] * len(reply.calls)) == message


def test_a_message_of_words_or_calls_is_never_empty() -> None:
    for reply in (Reply(), Reply(content=""), Reply(refusal=""), Reply(content="\n ")):
        assert spoken(reply, []).content


@given(st.text())
def test_a_name_on_the_wire_is_one_that_providers_take(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", wire_name(name))


@pytest.mark.parametrize(
    ("reply", "nothing"),
    [
        (Reply(), True),
        (Reply(content=" \n\t"), True),
        (Reply(content=" ", usage=Usage(prompt_tokens=1)), True),
        (Reply(content="x"), False),
        (Reply(refusal="no"), False),
        (Reply(calls=(Asked(name=""),)), False),
    ],
    ids=str,
)
def test_a_reply_says_nothing_without_words_refusal_and_calls(reply: Reply, nothing: bool) -> None:
    assert reply.says_nothing is nothing


def test_a_mark_tells_messages_apart_and_knows_equal_ones() -> None:
    marks = [mark(message) for message in CONVERSATION]
    assert len(set(marks)) == len(CONVERSATION)
    assert marks == [mark(there_and_back(message, Message)) for message in CONVERSATION]
    assert mark(User(content="x")) != mark(Assistant(content="x"))


def test_messages_are_frozen() -> None:
    message: BaseModel = User(content="x")
    with pytest.raises(ValidationError, match="frozen"):
        message.content = "y"  # type: ignore[attr-defined]
