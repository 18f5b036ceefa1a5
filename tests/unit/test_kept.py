"""Lists of values kept as text, and the turns of an agent, of which only the last changes in place."""

import pytest
from pydantic import TypeAdapter, ValidationError

from protocol.kept import Kept
from protocol.messages import Reply
from protocol.run import Call, Memory, Turn, Turns

WORDS = ["one", "zwei", "三", "\U0001f642", 'a "b"\n']


def kept(words: list[str]) -> Kept[str]:
    return Kept(TypeAdapter(str), words)


def test_what_is_kept_is_what_was_put_in() -> None:
    words = kept(WORDS)
    assert (list(words), len(words), words[-1], words[1:3]) == (WORDS, 5, WORDS[-1], WORDS[1:3])
    assert words.size == sum(len(TypeAdapter(str).dump_json(word)) for word in WORDS)
    with pytest.raises(IndexError):
        words[5]


def test_a_list_is_added_to_cut_and_mended() -> None:
    words = kept(WORDS)
    words.cut(2)
    words.extend(["drei", "four"])
    words[0] = "eins"
    words.cut(9)
    assert list(words) == ["eins", "zwei", "drei", "four"]


def test_a_look_gives_a_copy() -> None:
    turns: Kept[Turn] = Kept(TypeAdapter(Turn), [turn("a")])
    turns[0].nudge = "lost"
    assert turns[0].nudge == ""


def turn(text: str) -> Turn:
    return Turn(reply=Reply(content=text))


def texts(turns: Turns | list[Turn]) -> list[str]:
    return [each.reply.content for each in turns]


def test_turns_are_a_list() -> None:
    assert not Turns()
    turns = Turns(map(turn, "abc"))
    assert (texts(turns), len(turns)) == (["a", "b", "c"], 3)
    assert (texts(turns[:-1]), texts(turns[-1:]), texts(turns[1:])) == (["a", "b"], ["c"], ["b", "c"])
    assert [turns[n].reply.content for n in (0, 1, 2, -1, -2, -3)] == ["a", "b", "c", "c", "b", "a"]
    for missing in (3, -4):
        with pytest.raises(IndexError):
            turns[missing]
    with pytest.raises(IndexError):
        Turns()[-1]


def test_the_last_turn_changes_in_place_until_the_next() -> None:
    turns = Turns([turn("a")])
    turns[-1].calls.append(Call(segment="pay:c1", name="pay"))
    turns[-1].calls[0].outcome = "paid"
    assert turns[0] is turns[-1]
    turns.append(turn("b"))
    assert turns[0].calls[0].outcome == "paid"
    mended = turns[0]
    mended.calls[0].outcome = "left out"
    assert turns[0].calls[0].outcome == "paid"
    turns.rewrite(0, mended)
    assert turns[0].calls[0].outcome == "left out"


def test_turns_travel_as_a_plain_list() -> None:
    memory = Memory(turns=Turns([turn("a"), turn("b")]))
    written = memory.model_dump_json()
    assert written == '{"turns":[{"reply":{"content":"a"}},{"reply":{"content":"b"}}]}'
    read = Memory.model_validate_json(written)
    assert texts(read.turns) == ["a", "b"]
    assert read.model_dump_json() == written
    assert Memory().model_dump_json() == "{}"


@pytest.mark.parametrize("turns", ['[{"reply":{"content":3}}]', '[{"reply":{},"more":1}]', "7", '{"a":1}'])
def test_turns_are_read_strictly(turns: str) -> None:
    with pytest.raises(ValidationError, match="turns"):
        Memory.model_validate_json(f'{{"turns":{turns}}}')
