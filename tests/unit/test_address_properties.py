"""Addresses: writing and reading are inverses, whatever a model calls its calls."""

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.address import (
    MAX_BYTES,
    MAX_NAME_BYTES,
    Address,
    address_of,
    call_segment,
    interrupt_id,
    matches,
)
from protocol.agents import Chat, Supervisor, check_tree, walk
from protocol.errors import BadAddress, BadTree

NAMES = st.text("abcXYZ019_.-", min_size=1, max_size=MAX_NAME_BYTES)
CALL_IDS = st.text(st.characters(codec=None, exclude_categories=[]), min_size=1, max_size=80)
VISITS = st.integers(1, 10_000)


@given(st.lists(NAMES, min_size=1, max_size=7), NAMES, CALL_IDS, VISITS, st.integers(1, 500))
def test_what_is_written_is_read_back(path: list[str], tool: str, id: str, visit: int, nth: int) -> None:
    address = Address.root(path[0])
    for name in path[1:]:
        address = address.child(name, visit)
    address = address.call(tool, call_segment(id), visit)
    assert Address.parse(str(address)) == address
    assert address_of(interrupt_id(address, nth)) == address
    assert address.within(address.parent)
    assert matches(">".join(address.names), address)


@given(st.text(st.characters(codec=None, exclude_categories=[]), min_size=1, max_size=4))
@example("%41")
def test_a_short_call_id_can_be_read_back_from_its_segment(id: str) -> None:
    """Four characters always fit: of four bytes each, three letters a byte."""
    assert unquote_to_bytes(call_segment(id)) == id.encode("utf-8", "surrogatepass")


@given(st.text("a工é>\x01\x122%", max_size=4), st.text("a工é>\x01\x122%", max_size=4), st.integers(0, 90))
def test_call_ids_that_begin_alike_have_different_segments(one: str, other: str, length: int) -> None:
    if one != other:
        assert call_segment("c" * length + one) != call_segment("c" * length + other)


@given(st.text("工é\U00020000a%", min_size=1, max_size=100))
def test_wide_letters_stay_within_the_bytes(id: str) -> None:
    assert len(call_segment(id).encode()) <= MAX_NAME_BYTES


@given(CALL_IDS, CALL_IDS)
def test_different_call_ids_have_different_segments(one: str, other: str) -> None:
    if one != other:
        assert call_segment(one) != call_segment(other)


@given(CALL_IDS)
def test_a_segment_stays_within_its_bytes_and_holds_no_separator(id: str) -> None:
    written = call_segment(id)
    assert 0 < len(written.encode()) <= MAX_NAME_BYTES
    assert not set(written) & set(">:#~ \n\t'\"")


@given(st.text(">:#~ab1.%", max_size=20))
def test_what_is_read_is_written_back(text: str) -> None:
    try:
        address = Address.parse(text)
    except BadAddress:
        return
    assert str(address) == text


@given(st.lists(NAMES, min_size=2, max_size=8, unique=True), CALL_IDS)
def test_every_tree_that_is_accepted_has_addresses_below_the_limit(names: list[str], id: str) -> None:
    tree: Chat = Chat(name=names[-1])
    for name in reversed(names[:-1]):
        tree = Supervisor(name=name, agents=(tree,))
    try:
        check_tree(tree)
    except BadTree:
        return
    deepest = list(walk(tree))[-1][0]
    visited = Address(tuple(type(s)(s.name, s.call, 9_999) for s in deepest.segments))
    assert len(str(visited.call("follow_up", call_segment(id), 9_999)).encode()) < MAX_BYTES


@pytest.mark.parametrize(
    "text", ["", ">", "a>", ">a", "a>>b", "a#1", "a#0", "a#01", "a:", "a~2", "a b", "a:b#1", "ä"]
)
def test_what_was_never_written_is_not_read(text: str) -> None:
    with pytest.raises(BadAddress):
        Address.parse(text)


@pytest.mark.parametrize("text", ["a~1", "a~0", "a~x", "a~", "~2", "a~2~2"])
def test_what_is_no_interrupt_id_is_not_read(text: str) -> None:
    with pytest.raises(BadAddress):
        address_of(text)
