"""Somebody sits at the terminal: is asked, thinks again, and leaves."""

import os
import signal
import stat
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.cli.conftest import PLENTY, Cli
from tests.cli.terminal import CTRL_C, CTRL_D, at_terminal

CHOOSE = "[q]uit:"
CALL = "ticket_booker>BookTicket:call_1"


@pytest.fixture
def alone(tmp_path: Path) -> Cli:
    return Cli({"HOME": str(tmp_path), "PATH": os.defpath, "SIGNOFF_BY": "li.wei"}, tmp_path)


def test_a_person_decides_the_demo(alone: Cli) -> None:
    screen = at_terminal(
        alone,
        ["demo"],
        [
            (CHOOSE, "r\n"),
            ("(may be empty)", "cancelled, take Tianjin\n"),
            (CHOOSE, "?\n"),
            (CHOOSE, "app\n"),
        ],
    )
    assert screen.code == 0
    assert "✎ li.wei reject: cancelled, take Tianjin" in screen.text
    assert "The ticket to Tianjin is booked for Martin." in screen.text


def test_a_person_edits_in_the_demo(alone: Cli) -> None:
    screen = at_terminal(
        alone,
        ["demo", "review_edit"],
        [
            (CHOOSE, "e\n"),
            ("location", "上海\n"),
            ("passenger_name", "\n"),
            ("passenger_phone", "\n"),
            ("send this?", "y\n"),
        ],
    )
    assert screen.code == 0
    assert "A ticket to 上海 is booked for Martin." in screen.text


def test_a_person_answers_question_by_question(alone: Cli) -> None:
    screen = at_terminal(
        alone, ["demo", "follow_up"], [("answer 1:", "\n"), ("answer 1:", "jazz\n"), ("answer 2:", "150\n")]
    )
    assert screen.code == 0
    assert "jazz" in screen.text


@pytest.mark.parametrize(("key", "code"), [(CTRL_C, 130), (CTRL_D, 1)], ids=["Ctrl-C", "Ctrl-D"])
def test_leaving_at_the_prompt_of_a_demo(alone: Cli, key: str, code: int) -> None:
    screen = at_terminal(alone, ["demo"], [(CHOOSE, key)])
    assert screen.code == code
    assert "nothing more was sent" in screen.text


def test_quitting_a_demo_is_no_failure(alone: Cli) -> None:
    assert at_terminal(alone, ["demo"], [(CHOOSE, "q\n")]).code == 0


def test_without_an_id_the_question_is_shown_before_it_is_decided(cli: Cli) -> None:
    id = cli.started("approval")
    kept = at_terminal(cli, ["approve", id], [("approve this?", "n\n")])
    assert kept.code == 1
    assert '"Beijing"' in kept.text
    assert "nothing was sent" in kept.text
    assert cli("show", id, CALL).code == 0
    assert at_terminal(cli, ["approve", id], [("approve this?", "y\n")]).code == 0


@pytest.mark.parametrize(
    "words", [["approve"], ["reject"], ["edit", "--set", "location=X"], ["revise"], ["answer"]]
)
def test_ctrl_c_at_a_prompt_sends_nothing(cli: Cli, words: list[str]) -> None:
    scenario = {"edit": "review_edit", "revise": "feedback_loop", "answer": "follow_up"}.get(
        words[0], "approval"
    )
    prompt = {"edit": "send this?", "revise": "what should change?", "answer": "answer 1:"}.get(
        words[0], "this?"
    )
    id = cli.started(scenario)
    left = at_terminal(cli, [words[0], id, *words[1:]], [(prompt, CTRL_C)])
    assert left.code == 130
    assert len(cli("show", id, "--json").json["interrupts"]) == 1
    cli("cancel", id)


def editor(folder: Path, script: str) -> str:
    file = folder / "editor"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_edit_opens_the_editor_and_shows_the_difference_before_it_sends(cli: Cli) -> None:
    id = cli.started("review_edit")
    with_editor = cli.with_(EDITOR=editor(cli.folder, 'sed -i s/Beijing/北京/ "$1"'))
    screen = at_terminal(with_editor, ["edit", id], [("send this?", "y\n")])
    assert screen.code == 0
    assert '-  "location": "Beijing"' in screen.text
    assert '+  "location": "北京"' in screen.text
    end = cli.eventually(lambda: (seen := cli("show", id, "--json").json).get("answer") and seen)
    assert "北京" in end["answer"]


def test_an_edited_text_that_is_no_json_is_kept_and_nothing_is_sent(cli: Cli) -> None:
    id = cli.started("review_edit")
    broken = cli.with_(EDITOR=editor(cli.folder, 'echo "{" > "$1"'), TMPDIR=str(cli.folder))
    screen = at_terminal(broken, ["edit", id], [])
    assert screen.code == 1
    assert "nothing was sent; your text is kept in" in screen.text
    assert [path.read_text() for path in cli.folder.glob("signoff-*.json")] == ["{\n"]
    failing = cli.with_(EDITOR=editor(cli.folder, "exit 3"))
    assert "nothing was sent" in at_terminal(failing, ["edit", id], []).text
    missing = cli.with_(EDITOR="no-such-editor")
    assert "cannot be started: set EDITOR" in at_terminal(missing, ["edit", id], []).text
    assert len(cli("show", id, "--json").json["interrupts"]) == 1


def test_a_terminal_is_sent_no_code_of_a_stranger(cli: Cli) -> None:
    id = cli.started("approval", "--task", "Book a ticket to Beijing for Martin 1234567 \x1b]0;owned\x07")
    screen = at_terminal(cli, ["show", id], [])
    assert b"\x1b]0" not in screen.raw
    assert b"\x07" not in screen.raw
    assert "\\x1b]0;owned\\x07" in screen.text


def test_an_inbox_that_is_watched_shows_what_comes_until_it_is_left(cli: Cli) -> None:
    """It keeps itself live: the run that is started meanwhile appears, and nothing is decided by looking"""
    first = cli.started("approval", "--id", f"live-a-{uuid.uuid4().hex[:6]}")
    ids = [first]

    def another() -> str:
        ids.append(cli.started("approval", "--id", f"live-b-{uuid.uuid4().hex[:6]}"))
        return ""

    screen = at_terminal(
        cli, ["inbox", "-n", "500", "--watch", "--prefix", "live-"], [(first, another), ("live-b-", CTRL_C)]
    )
    assert screen.code == 130
    assert "Ctrl-C ends" in screen.text
    assert all(cli("approve", id).code == 0 for id in ids)


def test_an_inbox_is_watched_through_a_pipe(cli: Cli) -> None:
    """One look after the other, each whole"""
    id = cli.started("approval", "--id", f"piped-{uuid.uuid4().hex[:6]}")
    for words in ([], ["--json"]):
        with subprocess.Popen(
            cli.command("inbox", "-n", "500", "--watch", "--prefix", id, *words),
            env=cli.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            for _ in range(2):
                while id not in process.stdout.readline():
                    assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(PLENTY) == 130
    assert cli("approve", id).code == 0
