"""What a workflow and its activities say to each other."""

from typing import Annotated, Any, Literal

from pydantic import Field

from protocol.agents import ModelSpec
from protocol.messages import Message, ToolOffer
from protocol.record import Record, absent, empty

COMPLETE = "signoff.complete"
"""The activity type of a model call."""
CONVERSATION = "conversation"
"""The query by which a model call asks its own workflow for what its worker does not remember."""

MAX_TAIL_BYTES = 4_000
PAGE_BYTES = 450_000
MAX_ASKED_BYTES = 256 * 1024
"""Bytes of JSON that a tool may ask with or save: `info` and `state` together."""


class Brief(Record):
    """What a model is told beside the conversation. ``must_call``: words alone are no answer here."""

    instructions: str = absent("")
    offers: tuple[ToolOffer, ...] = absent(())
    model: ModelSpec
    must_call: bool = absent(False)


class ModelRequest(Record):
    """The input of one model call: which conversation, how long it is, and at most its newest messages.

    `length` counts messages without the system message; `tail` are the newest of them, following the message
    whose `mark` is `after`. `brief` and `tail` are left out when they would be large, or are known already.
    """

    agent: str
    length: int
    after: str = absent("")
    tail: tuple[Message, ...] | None = Field(None, exclude_if=lambda value: value is None)
    brief: Brief | None = absent()


class ConversationQuery(Record):
    """Ask for the messages of an agent from `start` up to `stop`."""

    agent: str
    start: int
    stop: int


class ConversationPage(Record):
    """Some of the messages asked for, from `start` on, under `PAGE_BYTES`; with the first page, the brief."""

    messages: tuple[Message, ...]
    brief: Brief | None = absent()


class Given(Record):
    """A person's answer on its way into a tool; no data is an answer too."""

    data: Any = Field(None, exclude_if=lambda value: value is None)


class Again(Record):
    """What a tool that was interrupted sees when it runs again: its own state, and the answers by part name.

    The answer to a question without parts stands under ``""``.
    """

    has_state: bool = absent(False)
    state: Any = Field(None, exclude_if=lambda value: value is None)
    given: dict[str, Given] = empty(dict)


class ToolInput(Record):
    """The input of a tool's activity, for workers in any language.

    `key` is the same over retries, workers, page turns and resets of this call with these arguments. ``released``
    says that a person released what the tool's conditional gate may hold back.
    """

    address: str
    arguments: dict[str, Any]
    key: str
    released: bool = absent(False)
    max_result: int | None = absent()
    again: Again | None = absent()


class Finished(Record):
    """The tool is done; `text` is what the model is told."""

    outcome: Literal["finished"] = "finished"
    text: str


class Unusable(Record):
    """The arguments do not fit the function: nothing ran."""

    outcome: Literal["unusable"] = "unusable"
    problem: str


class Gated(Record):
    """The tool's condition holds these arguments back until a person released them: nothing ran."""

    outcome: Literal["gated"] = "gated"


class PartAsked(Record):
    info: Any = Field(None, exclude_if=lambda value: value is None)
    expects: dict[str, Any] | None = absent()


class Interrupted(Record):
    """The tool asks a person from inside: one question, or one per part. An event, not a failure.

    `problem` says why an answer could not be used; then state and questions stay as they were.
    """

    outcome: Literal["interrupted"] = "interrupted"
    info: Any = Field(None, exclude_if=lambda value: value is None)
    has_state: bool = absent(False)
    state: Any = Field(None, exclude_if=lambda value: value is None)
    expects: dict[str, Any] | None = absent()
    parts: dict[str, PartAsked] | None = absent()
    problem: str | None = absent()
    problem_part: str = absent("")


ToolReply = Annotated[Finished | Unusable | Gated | Interrupted, Field(discriminator="outcome")]
