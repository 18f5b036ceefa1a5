"""A terminal with somebody at it: waits for words, then types."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.cli.conftest import PLENTY, Cli

CTRL_C, CTRL_D = "\x03", "\x04"
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Screen:
    """What stood on the screen when the command ended, without its colours, and as it was sent."""

    code: int
    text: str
    raw: bytes


def at_terminal(
    cli: Cli, words: Sequence[str], typed: Sequence[tuple[str, str | Callable[[], str]]]
) -> Screen:
    """Run a command at a terminal; each time the first text of *typed* appears, the second is typed, or done first
    what it calls."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, cli.columns, 0, 0))
    environment = {**cli.env, "TERM": "xterm"}
    del environment["COLUMNS"]

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        cli.command(*words),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=cli.folder,
        preexec_fn=take_terminal,
    )
    os.close(theirs)
    said, seen, steps = b"", 0, list(typed)
    give_up = time.monotonic() + PLENTY
    try:
        while time.monotonic() < give_up:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    said += os.read(ours, 65_536)
                except OSError:  # the other side has closed it
                    process.wait(PLENTY)
                    break
            elif process.poll() is not None:
                break
            if steps and steps[0][0] in _plain(said[seen:]):
                seen = len(said)
                keys = steps.pop(0)[1]
                os.write(ours, (keys if isinstance(keys, str) else keys()).encode())
        else:
            pytest.fail(f"it did not end; on the screen: {_plain(said)[-500:]}")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(ours)
    assert not steps, f"'{steps[0][0]}' never appeared on: {_plain(said)}"
    assert "Traceback" not in _plain(said), _plain(said)
    return Screen(process.returncode, _plain(said), said)


def _plain(raw: bytes) -> str:
    return _CODES.sub("", raw.decode("utf-8", "replace")).replace("\r\n", "\n")
