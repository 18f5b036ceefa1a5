"""JSON from people and models: harm is refused in words, everything else is read and written as it stands."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.strict_json import (
    MAX_DEPTH,
    HarmfulJson,
    canonical,
    compact,
    digest,
    outgrows,
    read,
    refuse_huge,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"approve": true, "approve": false}', "the key 'approve' stands twice"),
        ('{"a": [{"b": 1, "b": 1}]}', "the key 'b' stands twice"),
        ('{"\\u0061": 1, "a": 2}', "the key 'a' stands twice"),
        ("NaN", "NaN is not a JSON number"),
        ('{"amount": Infinity}', "Infinity is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e400", "the number 1e400 is too large"),
        ("[-1e400]", "the number -1e400 is too large"),
        ("1" + "0" * 400 + ".0", "is too large"),
        ("1" * 5_000, "not valid JSON"),
        ("[" * 66 + "]" * 66, f"nested deeper than {MAX_DEPTH} levels"),
        ('{"a":' * 100 + "1" + "}" * 100, f"nested deeper than {MAX_DEPTH} levels"),
        ("[" * 100_000 + "]" * 100_000, f"nested deeper than {MAX_DEPTH} levels"),
        ("[" * 100_000, "nested deeper|not valid JSON"),
        ('"\\ud83d"', "half of a surrogate pair"),
        ('{"\\udc00": 1}', "half of a surrogate pair"),
        ('["\\ude00\\ud83d"]', "half of a surrogate pair"),
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ('{"a": 1} trailing', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1,}', "not valid JSON"),
        ('"line\nbreak"', "not valid JSON"),
        ("\ufeff{}", "not valid JSON"),
        (b'"\xff"', "not valid UTF-8"),
        (b'"\xed\xa0\xbd"', "half of a surrogate pair"),
        (b"", "not valid JSON"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_means_harm_is_refused_in_one_line(text: str | bytes, said: str) -> None:
    with pytest.raises(HarmfulJson, match=said) as refused:
        read(text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "b": {"a": 2}}', {"a": 1, "b": {"a": 2}}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, ...),
        ("1e308", 1e308),
        ("1e-400", 0.0),
        ("12345678901234567890", 12345678901234567890),
        (' {"姓名": "王小明"} ', {"姓名": "王小明"}),
        (b'"\xe9\xa2\x84"', "预"),
        ("null", None),
        ('"NaN"', "NaN"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_harmless_is_read(text: str | bytes, value: Any) -> None:
    """B131."""
    assert value is ... or read(text) == value
    read(text)


@given(st.text() | st.binary())
def test_reading_ends_in_a_value_or_in_words(text: str | bytes) -> None:
    try:
        value = read(text)
    except HarmfulJson:
        return
    assert read(compact(value)) == value


@given(JSON)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    assert read(compact(value)) == value
    assert read(canonical(value)) == value
    assert "\n" not in compact(value)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_equal_values_have_one_canonical_form(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical(value) == canonical(turned)
    assert digest(value) == digest(turned)
    assert list(json.loads(compact(turned))) == list(turned)  # and compact keeps the order


def test_different_values_have_different_digests() -> None:
    values = [
        {},
        {"a": 1},
        {"a": "1"},
        {"a": True},
        {"a": None},
        {"a": [1]},
        {"b": 1},
        [],
        None,
        "",
        0,
        False,
    ]
    assert len({digest(value) for value in values}) == len(values)
    assert len(digest({}, 12)) == 12


def test_nothing_is_escaped_and_nothing_is_no_number() -> None:
    """B131."""
    assert canonical({"b": "السلام", "a": "预算"}) == '{"a":"预算","b":"السلام"}'
    for write in (canonical, compact):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(math.nan)


def test_a_digest_is_taken_of_any_text() -> None:
    assert len(digest({"half": "\ud83d"})) == 16


@pytest.mark.parametrize("text", ['{"n": 1' + "0" * 400 + "}", "[[-1" + "0" * 300 + "]]"])
def test_a_whole_number_that_no_float_holds_is_refused_where_a_tool_would_take_it(text: str) -> None:
    with pytest.raises(HarmfulJson, match="is too large"):
        refuse_huge(read(text), text)


def test_digits_in_a_text_are_a_text() -> None:
    text = '{"pi": "' + "3" * 1_000 + '", "n": 12}'
    refuse_huge(read(text), text)


@pytest.mark.parametrize(
    "many", ["[" + "[]," * 999 + "[]]", "{" + ",".join(f'"{n}":1' for n in range(1_000)) + "}"]
)
def test_what_is_too_large_is_known_without_writing_it(many: str) -> None:
    value = read(many)
    assert outgrows(value, 1_900)
    assert not outgrows(value, len(many))
    assert not outgrows({}, 0)
