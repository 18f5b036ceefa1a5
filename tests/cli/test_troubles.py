"""What goes wrong around a command: nobody serves, nobody answers, nobody reads, somebody presses Ctrl-C."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from devserver import DevServer
from tests.cli.conftest import PLENTY, Cli, bare, serves, worker_process

CALL = "ticket_booker>BookTicket:call_1"


@contextlib.contextmanager
def deaf_server() -> Iterator[str]:
    """A server that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held: list[socket.socket] = []

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(listening.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for each in held:
                each.close()


@pytest.fixture
def unserved(server: DevServer, tmp_path: Path) -> Cli:
    """A command line whose task queue nobody serves."""
    queue = f"unserved-{uuid.uuid4().hex[:6]}"
    environment = {**bare(tmp_path), "TEMPORAL_ADDRESS": server.address, "SIGNOFF_TASK_QUEUE": queue}
    return Cli(environment, tmp_path)


async def waiting_without_worker(cli: Cli, server: DevServer) -> str:
    """The id of a run that waits, and whose worker was killed."""
    with worker_process(cli.environment) as worker:
        await serves(server, cli.environment["SIGNOFF_TASK_QUEUE"])
        id = cli.started("approval")
        worker.kill()
    return id


async def test_without_a_worker_the_inbox_shows_what_waits_and_says_why_not_more(
    unserved: Cli, server: DevServer
) -> None:
    id = await waiting_without_worker(unserved, server)
    rows = unserved("inbox", "--json", "-n", "500").json["rows"]
    row = next(row for row in rows if row["workflow_id"] == id)
    assert (row["status"], row["count"], row["ids"]) == ("waiting", 1, [CALL])
    assert row["interrupts"] is None
    assert "no worker" in row["problem"]
    shown = unserved("inbox", "--agent", "ticket_booker", "-n", "500")
    assert CALL in shown.out
    assert "the questions cannot be shown: no worker" in shown.out


async def test_without_a_worker_a_decision_can_be_left_for_later(unserved: Cli, server: DevServer) -> None:
    """B108"""
    id = await waiting_without_worker(unserved, server)
    for words in (["approve", id], ["approve", id, CALL], ["show", id], ["withdraw", id]):
        refused = unserved("--timeout", "2", *words)
        assert refused.code == 1, words
        assert f"no worker answers for the run '{id}'" in refused.err
        if words[0] == "approve":
            assert f"{id} '{CALL}' --signal" in refused.err
    mistyped = unserved("approve", id, f"{CALL}7", "--signal")
    assert "nothing is known to wait under this id: it may be refused" in mistyped.out
    left = unserved("approve", id, CALL, "--signal")
    assert left.code == 0
    assert f"→ {CALL}  left" in left.out
    assert "may be refused" not in left.out
    with worker_process(unserved.environment):
        end = unserved.eventually(
            lambda: (seen := unserved("show", id, "--json")).code == 0 and "answer" in seen.json and seen.json
        )
    assert end["status"] == "completed"
    assert end["audit"]["closed"][0]["by"] == "li.wei"
    assert unserved("audit", id).code == 0, "the audit of an ended run needs no worker"


def test_a_run_started_without_a_worker_says_so(unserved: Cli) -> None:
    said = unserved("start", "approval")
    assert said.code == 0
    assert "no worker serves the task queue" in said.err


def test_a_server_that_never_answers_is_waited_for_no_longer_than_wanted(cli: Cli) -> None:
    with deaf_server() as address:
        for words in (["inbox"], ["approve", "x"], ["start", "approval"]):
            began = time.monotonic()
            said = cli("--address", address, "--timeout", "1", *words)
            assert time.monotonic() - began < 10
            assert said.code == 1
            assert f"no Temporal server answers at {address}" in said.err


def nobody_reads(cli: Cli, *words: str) -> tuple[int, str]:
    """The exit code, and what stands on standard error, of a command whose output nobody reads."""
    with subprocess.Popen(
        cli.command(*words), env=cli.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    return process.returncode, said


def test_output_into_a_pipe_that_closes_early_ends_quietly(cli: Cli) -> None:
    id = cli.started("approval")
    for words in (["show", id], ["inbox", "--json"], ["export", "nested"], ["watch", id]):
        code, said = nobody_reads(cli, *words)
        assert code == 141, words
        assert "Traceback" not in said
        assert "Broken" not in said


def test_a_decision_counts_also_when_nobody_reads_what_came_of_it(cli: Cli) -> None:
    id = cli.started("approval")
    assert nobody_reads(cli, "approve", id)[0] == 141
    end = cli.eventually(lambda: (seen := cli("show", id, "--json").json).get("answer") and seen)
    assert [entry["outcome"] for entry in end["audit"]["closed"]] == ["approved"]


def test_ctrl_c_leaves_the_run_that_is_watched_alone(cli: Cli) -> None:
    id = cli.started("approval")
    with subprocess.Popen(
        cli.command("watch", id), env=cli.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        while "BookTicket" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(PLENTY) == 130
    assert cli("approve", id).code == 0


def test_what_steers_a_terminal_is_shown_and_not_sent_to_it(cli: Cli) -> None:
    """B131"""
    evil = "Book a ticket to Beijing for Martin 1234567 \x1b[31m\x1b]0;owned\x07 日本 \u202eabc 🎫"
    id = cli.started("approval", "--task", evil)
    for words in (["show", id], ["watch", id, "--json"], ["show", id, "--json"], ["inbox"]):
        if words[0] == "watch":
            cli("approve", id)
        out = cli(*words).out
        assert not set("\x1b\x07\u202e") & set(out), words
        if words[-1] == id:
            assert "\\x1b[31m" in out
            assert "\\u202e" in out
        if words[0] != "inbox":
            assert "日本" in out


def test_40_columns_are_enough(cli: Cli) -> None:
    id = cli.started("approval")
    narrow = cli.with_(columns=40)
    for words in (["show", id], ["inbox", "-n", "3"], ["audit", id], ["demo", "--list"]):
        lines = narrow(*words).out.splitlines()
        # What is to be copied is not broken up by us.
        too_long = [line for line in lines if len(line.rstrip()) > 40 and "starter.py" not in line]
        assert too_long == [], words


# --------------------------------------------------------------------------------- without any server


@pytest.fixture
def alone(tmp_path: Path) -> Cli:
    """A command line on a machine where no server is configured."""
    home = tmp_path / "home"
    home.mkdir()
    return Cli({"HOME": str(home), "PATH": os.defpath}, tmp_path)


def test_the_demo_brings_its_own_server_and_leaves_nothing_behind(alone: Cli) -> None:
    said = alone("demo")
    assert said.code == 0, said.err
    assert "May this run?" in said.out
    assert "The ticket to Beijing is booked for Martin." in said.out
    assert said.err == ""
    assert [path.name for path in alone.folder.iterdir()] == ["home"]


def test_the_demo_tells_programs_what_happened(alone: Cli) -> None:
    played = alone("demo", "approval", "--variant", "reject", "--json").json
    assert played["ok"] is True
    assert [each["decision"] for each in played["decisions"]] == ["reject", "approve"]
    assert played["result"]["status"] == "completed"


@pytest.mark.slow
def test_every_variant_of_every_scenario_plays_unattended(alone: Cli) -> None:
    said = alone("demo", "all", "--auto")
    assert said.code == 0, said.out
    assert "✘" not in said.out
    assert "reject_then_smaller_amount" in said.out


def test_a_demo_that_is_terminated_takes_its_server_along(alone: Cli) -> None:
    with subprocess.Popen(
        alone.command("demo", "nested"),
        env=alone.env,
        cwd=alone.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = ""
        while "http://" not in line:
            line = process.stdout.readline()
        process.terminate()
        process.stdout.read()
    assert process.returncode in (0, 143)
    address = line.split("//")[1].split("/")[0]
    host, port = address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=2).close()


@pytest.mark.slow
def test_the_exit_code_is_the_same_over_50_starts(cli: Cli) -> None:
    assert [cli("inbox").code for _ in range(50)] == [0] * 50
    assert [cli("approve", "no-such-run").code for _ in range(50)] == [1] * 50
