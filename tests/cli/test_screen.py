"""What may stand on a screen."""

import json
import sys
from datetime import timedelta

import pytest

from cli.deciding import with_values
from cli.screen import command, line, print_json, shown, visible
from protocol.errors import BadInput
from starter import _age


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("日本語 עברית 🎫 é", "日本語 עברית 🎫 é"),
        ("two\nlines\tand a tab\r\n", "two\nlines\tand a tab\n"),
        ("\x1b[31mred\x00\x7f\x9b", "\\x1b[31mred\\x00\\x7f\\x9b"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\u200b\ufeff\U000e0041", "\\u200b\\ufeff\\U000e0041"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_what_steers_a_terminal_is_written_out_and_all_else_stays(text: str, seen: str) -> None:
    """B131"""
    assert visible(text) == seen


def test_a_cut_text_says_how_much_is_hidden() -> None:
    """B145"""
    assert shown("x" * 700, full=False) == "x" * 600 + "… (100 more characters: --full)"
    assert shown("x" * 1_700, full=True) == "x" * 1_700
    assert line("a\n  b\tc") == "a b c"


def test_json_on_the_screen_is_the_same_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": "\x1b[31m\x9b\u202e日本\U000e0041", "b": [1, None, {"c": "\n"}]}
    print_json(value)
    said = capsys.readouterr().out
    assert json.loads(said) == value
    assert "日本" in said
    assert not set("\x1b\x9b\u202e\U000e0041") & set(said)


def test_commands_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/nowhere/signoff"])
    assert command("approve", "run; rm -rf", "a>b:c") == "/nowhere/signoff approve 'run; rm -rf' 'a>b:c'"


def test_values_are_json_or_texts() -> None:
    changed = with_values({"a": 1, "b": "x", "c": True}, ["a=2", "b=two words", "d=[1]", "c=no"])
    assert changed == {"a": 2, "b": "two words", "c": "no", "d": [1]}
    with pytest.raises(BadInput, match="name=value"):
        with_values({}, ["a"])


def test_an_age_is_a_number_with_its_unit() -> None:
    assert _age("1.5h") == timedelta(minutes=90)
    assert _age(None) is None
    for wrong in ("", "5", "h", "-1h", "1w", "99999999d"):
        with pytest.raises(BadInput, match="no age"):
            _age(wrong)
