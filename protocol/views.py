"""What a run shows of itself: one JSON object in, one out, and never more than a query may carry."""

from datetime import datetime
from typing import Any, Literal

from protocol.board import AuditEntry
from protocol.interrupts import AnyQuestion
from protocol.messages import Message
from protocol.record import Record, absent
from protocol.run import Answer

PAGE_BYTES = 1_000_000
"""Bytes of a page of a listing; a query result may have 2 MB."""


class Listed(Record):
    """An open interrupt with all that is needed to decide it, from a service that knows nothing else.

    `question` is what `digest` is of; `answers` is ready-made JSON for each decision that fits, to be sent as
    signal or update named `id`, or within `resume`. `owner` is the address of the agent that asks.
    """

    workflow_id: str
    run: str
    id: str
    owner: str
    digest: str
    created: datetime
    expires: datetime | None = absent()
    approvers: tuple[str, ...] = absent(())
    task: str
    question: AnyQuestion
    answers: tuple[dict[str, Any], ...]


class PendingQuery(Record):
    """Ask for the open interrupts: all, the one of `id`, or those that follow `after` in the order of asking."""

    id: str | None = absent()
    after: str | None = absent()


class PendingPage(Record):
    """Query ``pending``. `count` is the number of all that are open; ``more`` says that a page follows."""

    run: str
    status: Literal["waiting", "running"]
    count: int
    interrupts: tuple[Listed, ...]
    more: bool = False


class InterruptsPage(Record):
    """Query ``interrupts``: open ones, and the newest closed ones, oldest first."""

    open: tuple[Listed, ...]
    closed: tuple[AuditEntry, ...]
    more: bool = False


class TranscriptQuery(Record):
    """Ask for the conversation of `agent` (a written address; the root by default) from message `start` on."""

    agent: str | None = absent()
    start: int = absent(0)


class TranscriptPage(Record):
    """Query ``transcript``. `length` is the number of messages in all."""

    agent: str
    start: int
    length: int
    messages: tuple[Message, ...]
    more: bool = False


class SeenCall(Record):
    """A tool call in the tree: ``waiting`` for a person, ``running``, or what became of it."""

    address: str
    name: str
    status: str


class SeenAgent(Record):
    """An agent in the tree; the calls are those of its last turn."""

    address: str
    kind: str
    status: str
    turns: int = absent(0)
    calls: tuple[SeenCall, ...] = absent(())
    answer: Answer | None = absent()


class Tree(Record):
    """Query ``tree``: every agent that the run has entered, parents first. Finished ones of earlier pages may be
    missing. `status` is ``waiting`` or ``running``, or how the run ended."""

    run: str
    status: str
    agents: tuple[SeenAgent, ...]
    more: bool = False
