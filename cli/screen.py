"""The terminal: everything that is shown goes through here, readable at 40 columns, and never raw.

Texts come from models and strangers. They are shown as they are, in any script, except for what steers a terminal.
"""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

CUT = 600
"""Characters of one text that are shown without ``--full``."""
PIPE_WIDTH = 160
"""Columns where no terminal says how many there are."""

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)
_JOINERS = "\u200c\u200d"
"""Belong to words and emoji of some scripts, and steer nothing."""


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() or columns.isdecimal() else PIPE_WIDTH
    return _Terminal(stderr=stderr, width=width, highlight=False, emoji=False, soft_wrap=False, markup=False)


out = _console(stderr=False)
err = _console(stderr=True)


def visible(text: str) -> str:
    """*text* with everything that steers a terminal written out: ``\\x1b``, ``\\u202e``."""
    return _STEERING.sub(_written_out, text.replace("\r\n", "\n"))


def _written_out(found: re.Match[str]) -> str:
    char = found[0]
    if char in _JOINERS:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(text: str, *, full: bool = True, most: int = CUT) -> str:
    """*text* as it may be shown; unless *full*, a long one is cut and says how many characters are hidden."""
    if full or len(text) <= most:
        return visible(text)
    return f"{visible(text[:most])}… ({len(text) - most:,} more characters: --full)"


def line(text: str, *, most: int = CUT) -> str:
    """*text* on one line."""
    return shown(" ".join(text.split()), full=False, most=most)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A text of parts, each plain or with its style; what is in it is shown, not read as markup."""
    return Text.assemble(*parts)


def say(*parts: str | tuple[str, str], indent: int = 0) -> None:
    """Print a line; a long one is wrapped below its first column."""
    text = styled(*parts)
    out.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)


def verbatim(text: str, style: str = "") -> None:
    """Print a line that is to be copied: never wrapped by us."""
    out.print(Text(text, style), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON: indented for a person, on one line for a pipe."""
    text = json.dumps(as_json(value), ensure_ascii=False, indent=2 if out.is_terminal else None)
    sys.stdout.write(_STEERING.sub(_escaped, text) + "\n")
    sys.stdout.flush()


def as_json(value: Any) -> Any:
    """Records, and containers of them, as plain JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [as_json(item) for item in value]


def _escaped(found: re.Match[str]) -> str:
    if found[0] in _JOINERS:
        return found[0]
    code = ord(found[0])
    units = (
        [code] if code < 0x10000 else [0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF)]
    )
    return "".join(f"\\u{unit:04x}" for unit in units)


def complain(message: str, *, as_data: str | None = None) -> None:
    """Say on standard error what went wrong, in one line; as JSON with the kind of mistake *as_data*."""
    message = line(message, most=4_000)
    if as_data is not None:
        sys.stderr.write(json.dumps({"error": as_data, "message": message}, ensure_ascii=False) + "\n")
        return
    err.print(styled(("error: ", "bold red"), message), soft_wrap=True)


def hint(message: str) -> None:
    """Say beside the output, on standard error."""
    err.print(styled((message, "dim")), soft_wrap=True)


def command(*words: str) -> str:
    """A command of ours as a person can paste it, whatever is in its words."""
    return shlex.join((*_called_as(), *map(visible, words)))


def _called_as() -> Sequence[str]:
    """How this program was called, so that what it proposes works in the same terminal."""
    program = Path(sys.argv[0])
    if program.suffix != ".py":
        on_path = shutil.which(program.name)
        return (
            (program.name,) if on_path and Path(on_path).resolve() == program.resolve() else (str(program),)
        )
    on_path = shutil.which("python")
    same = on_path is not None and Path(on_path).absolute() == Path(sys.executable).absolute()
    return ("python" if same else _from_here(sys.executable), str(program))


def _from_here(path: str) -> str:
    near = os.path.relpath(path)
    return path if near.startswith("..") else near
