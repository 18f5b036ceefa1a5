"""A person at the terminal: lines that are typed, and an editor for what is longer."""

import asyncio
import contextlib
import json
import os
import shlex
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Any

from cli.screen import out, styled
from protocol.errors import BadInput
from protocol.strict_json import HarmfulJson, read

_lines: deque[str] = deque()
_rest = bytearray()


class NobodyThere(Exception):
    """The input has ended (Ctrl-D)."""


def present() -> bool:
    """Whether a person can be asked: input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def ask(prompt: str, *more: tuple[str, str]) -> str:
    """Ask for one line. Raises `NobodyThere` at the end of the input.

    Nothing here blocks: a worker may run beside the prompt, and Ctrl-C ends it at once.
    """
    spaced = [part for each in more for part in (" ", each)]
    out.print(styled((prompt, "bold"), *spaced, " "), end="")
    sys.stdout.flush()
    if not _lines:
        await _fill()
    return _lines.popleft().strip()


async def yes(prompt: str) -> bool:
    """Ask for a yes or a no; an empty line is a no."""
    while True:
        answer = (await ask(prompt, ("[y/N]", "dim"))).lower()
        if answer in ("y", "yes"):
            return True
        if answer in ("", "n", "no"):
            return False


async def _fill() -> None:
    loop = asyncio.get_running_loop()
    while not _lines:
        chunk: asyncio.Future[bytes] = loop.create_future()

        def take(chunk: asyncio.Future[bytes] = chunk) -> None:
            data = os.read(sys.stdin.fileno(), 65_536)
            if not chunk.done():
                chunk.set_result(data)

        try:
            loop.add_reader(sys.stdin.fileno(), take)
        except NotImplementedError:  # Windows: a thread that ends with the process
            threading.Thread(target=lambda c=chunk: _typed(loop, c), daemon=True).start()
            data = await chunk
        else:
            try:
                data = await chunk
            finally:
                loop.remove_reader(sys.stdin.fileno())
        if not data and not _rest:
            raise NobodyThere
        _rest.extend(data if data else b"\n")
        *whole, last = bytes(_rest).split(b"\n")
        _rest[:] = last
        _lines.extend(line.decode("utf-8", "replace") for line in whole)


def _typed(loop: asyncio.AbstractEventLoop, chunk: asyncio.Future[bytes]) -> None:
    data = sys.stdin.buffer.readline()

    def hand_over() -> None:
        if not chunk.done():
            chunk.set_result(data)

    with contextlib.suppress(RuntimeError):  # the loop is gone
        loop.call_soon_threadsafe(hand_over)


async def edited(arguments: dict[str, Any]) -> dict[str, Any]:
    """Have a person edit *arguments* in their editor. Raises `BadInput`; the text is kept if it is no JSON object."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    handle, name = tempfile.mkstemp(prefix="signoff-", suffix=".json", text=True)
    path = Path(name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(arguments, ensure_ascii=False, indent=2) + "\n")
    try:
        process = await asyncio.create_subprocess_exec(*shlex.split(editor), name)
    except (OSError, ValueError):
        path.unlink()
        raise BadInput(f"the editor '{editor}' cannot be started: set EDITOR, or give --arguments") from None
    if await process.wait() != 0:
        path.unlink()
        raise BadInput(f"the editor '{editor}' ended with {process.returncode}: nothing was sent")
    try:
        value = read(path.read_text(encoding="utf-8"))
    except (HarmfulJson, UnicodeDecodeError) as error:
        raise BadInput(f"{error}: nothing was sent; your text is kept in {path}") from None
    if not isinstance(value, dict):
        raise BadInput(f"arguments are one JSON object: nothing was sent; your text is kept in {path}")
    path.unlink()
    return value
