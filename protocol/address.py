"""Where a question arose: the path from the root agent down to the call, and how it is written.

    financial_supervisor>transaction_agent>transfer_funds:call_abc123
    pm_supervisor>project_execution_agent>executor#3>allocate_budget:call_7
    bank>pay:call_0#2       the model used the same call id again
    bank>pay:call_0~2       the same call asks a second question

Writing and parsing are exact inverses; what is written stays under `MAX_BYTES`.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from protocol.errors import BadAddress

Kind = Literal["agent", "step", "tool", "part"]

MAX_BYTES = 240
MAX_NAME_BYTES = 48
MAX_DEPTH = 8

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_WRITTEN = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?::(?P<call>[^>:#~]+))?(?:#(?P<visit>[1-9][0-9]*))?")


def check_name(name: str) -> str:
    """Return *name* if it may stand in an address: letters, digits, ``_ . -``, at most 48 bytes.

    Raises `BadAddress` otherwise.
    """
    if not _NAME.fullmatch(name):
        raise BadAddress(f"the name {name!r} may hold only letters, digits, '_', '.' and '-'")
    if len(name) > MAX_NAME_BYTES:
        raise BadAddress(f"the name {name!r} is longer than {MAX_NAME_BYTES} bytes")
    return name


def call_segment(call_id: str) -> str:
    """The form of a model's call id in an address: reversible up to 48 bytes, then its head and a hash.

    Letters of any script, digits and ``. _ -`` stand as they are, everything else percent-encoded.
    """
    units = [_encoded(character) for character in call_id]
    written = "".join(units)
    if len(written.encode()) <= MAX_NAME_BYTES:
        return written
    head = ""
    for unit in units:
        if len((head + unit).encode()) > 24:
            break
        head += unit
    return head + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _encoded(character: str) -> str:
    if character.isalpha() or character.isdecimal() or character in "._-":
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of a path: an agent, a step, a tool call or a part of one.

    `call` is the call id as `call_segment` writes it; `visit` counts the visits of this node, or of this call id,
    under its parent from 1.
    """

    name: str
    call: str | None = None
    visit: int = 1

    def __str__(self) -> str:
        call = "" if self.call is None else f":{self.call}"
        visit = "" if self.visit == 1 else f"#{self.visit}"
        return f"{self.name}{call}{visit}"

    @property
    def kind(self) -> Kind:
        """What the text can tell: a call, or a node. Nodes that are steps are known by the tree alone."""
        return "agent" if self.call is None else "tool"


@dataclass(frozen=True, slots=True)
class Address:
    """A path of segments, written with ``>`` between them."""

    segments: tuple[Segment, ...]

    @classmethod
    def root(cls, name: str) -> "Address":
        return cls((Segment(check_name(name)),))

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read a written address. Raises `BadAddress` for anything that `str(address)` never gives."""
        segments = []
        for part in text.split(">"):
            found = _WRITTEN.fullmatch(part)
            if found is None or found["visit"] == "1":
                raise BadAddress(f"{text[:300]!r} is not an address")
            check_name(found["name"])
            segments.append(Segment(found["name"], found["call"], int(found["visit"] or 1)))
        return cls(tuple(segments))

    def child(self, name: str, visit: int = 1) -> "Address":
        """The address of the *visit*-th visit of the node *name* below this one."""
        return Address((*self.segments, Segment(name, None, visit)))

    def call(self, name: str, call: str, visit: int = 1) -> "Address":
        """The address of a tool call below this agent; *call* as `call_segment` wrote it."""
        return Address((*self.segments, Segment(name, call, visit)))

    def __str__(self) -> str:
        return ">".join(str(segment) for segment in self.segments)

    def within(self, prefix: "Address") -> bool:
        """Whether this is *prefix* itself or lies below it."""
        return self.segments[: len(prefix.segments)] == prefix.segments

    @property
    def names(self) -> tuple[str, ...]:
        """The path without call ids and visits: the node of the tree that this address stands for."""
        return tuple(segment.name for segment in self.segments)

    @property
    def is_root(self) -> bool:
        """Whether this is the agent that the run was started with."""
        return len(self.segments) == 1

    @property
    def parent(self) -> "Address":
        return Address(self.segments[:-1])

    @property
    def last(self) -> Segment:
        return self.segments[-1]


def interrupt_id(address: Address | str, nth: int) -> str:
    """The id of the *nth* question (from 1) asked at this address."""
    return str(address) if nth == 1 else f"{address}~{nth}"


def address_of(interrupt: str) -> Address:
    """The address inside an interrupt id. Raises `BadAddress`."""
    text, mark, nth = interrupt.rpartition("~")
    if not mark:
        return Address.parse(interrupt)
    if not re.fullmatch(r"[1-9][0-9]*", nth) or nth == "1":
        raise BadAddress(f"{interrupt[:300]!r} is not an interrupt id")
    return Address.parse(text)


def matches(pattern: str, address: Address) -> bool:
    """Whether *pattern* names *address*: one name (of the last node), or a path of names, ``*`` and ``**``."""
    wanted = pattern.split(">")
    names = list(address.names)
    if len(wanted) == 1 and wanted[0] not in ("*", "**"):
        return names[-1] == wanted[0]
    return _matches(wanted, names)


def _matches(wanted: list[str], names: list[str]) -> bool:
    if not wanted:
        return not names
    head, rest = wanted[0], wanted[1:]
    if head == "**":
        return any(_matches(rest, names[skip:]) for skip in range(len(names) + 1))
    return bool(names) and head in ("*", names[0]) and _matches(rest, names[1:])
