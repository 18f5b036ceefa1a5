"""Chat messages as the chat-completions wire has them, and the conversation that an agent's turns make.

An agent remembers *turns*: what it heard, what it replied, what became of each call. Messages are derived from
turns, so a tool call without its one tool message, in call order, cannot be written down.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from protocol import strict_json, texts
from protocol.address import call_segment
from protocol.record import Record, absent

MAX_WIRE_ID = 40
"""Characters of a tool call id that every provider accepts (OpenAI refuses more)."""


class Function(Record):
    """The function half of a tool call; `arguments` is the raw text the model wrote."""

    name: str
    arguments: str


class ToolCall(Record):
    """A tool call as it is sent back to the model: `id` is the wire id."""

    id: str
    type: Literal["function"] = "function"
    function: Function


class System(Record):
    role: Literal["system"] = "system"
    content: str


class User(Record):
    role: Literal["user"] = "user"
    content: str


class Assistant(Record):
    role: Literal["assistant"] = "assistant"
    content: str | None = absent()
    refusal: str | None = absent()
    tool_calls: tuple[ToolCall, ...] = absent(())


class Tool(Record):
    role: Literal["tool"] = "tool"
    tool_call_id: str
    content: str


Message = Annotated[System | User | Assistant | Tool, Field(discriminator="role")]


def wire(message: System | User | Assistant | Tool) -> dict[str, Any]:
    """The message as a chat-completions request has it."""
    return message.model_dump(mode="json")


class Usage(Record):
    """Tokens of one model call, as the endpoint counted them."""

    prompt_tokens: int = absent(0)
    completion_tokens: int = absent(0)


class Asked(Record):
    """A tool call as the model wrote it, before it has a place in the conversation.

    `id` may be missing, too long, or used before; `arguments` is raw text and may be no JSON.
    """

    name: str
    id: str = absent("")
    arguments: str = absent("")


class Reply(Record):
    """What one model call gave: text, a refusal, tool calls; any of them may be missing."""

    content: str = absent("")
    refusal: str | None = absent()
    calls: tuple[Asked, ...] = absent(())
    usage: Usage | None = absent()

    @property
    def says_nothing(self) -> bool:
        """A reply that is neither words nor calls."""
        return not self.calls and not self.content.strip() and not self.refusal


class ToolOffer(Record):
    """A tool as the model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str = absent("")
    parameters: dict[str, Any]


class Placed(Record):
    """A call with its two ids: *wire* goes back to the model, *call* stands in the address."""

    wire: str
    call: str
    asked: Asked


def place(calls: Sequence[Asked], used: set[str], before: int) -> list[Placed]:
    """Give every call its two ids; *used* are the wire ids of this conversation so far and is added to.

    *before* is the number of calls the conversation held already. The wire id is the model's own, or ``call_<n>``
    if that is missing, over 40 characters or taken. Both workflow and model activity place calls with this one
    function, so that they always agree.
    """
    placed = []
    for n, asked in enumerate(calls, before + 1):
        wire_id = asked.id
        if not wire_id or len(wire_id) > MAX_WIRE_ID or wire_id in used:
            wire_id = f"call_{n}"
            while wire_id in used:
                wire_id += "_"
        used.add(wire_id)
        placed.append(Placed(wire=wire_id, call=call_segment(asked.id or wire_id), asked=asked))
    return placed


def spoken(reply: Reply, wire_ids: Sequence[str]) -> Assistant:
    """The assistant message that a reply becomes, once its calls are placed."""
    calls = tuple(
        ToolCall(id=wire_id, function=Function(name=wire_name(asked.name), arguments=asked.arguments or "{}"))
        for wire_id, asked in zip(wire_ids, reply.calls, strict=True)
    )
    content = reply.content or None
    if content is None and not calls and not reply.refusal:
        content = texts.SAID_NOTHING
    return Assistant(content=content, refusal=reply.refusal, tool_calls=calls)


def wire_name(name: str) -> str:
    """A tool name that providers accept in a conversation, also when the model invented it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64] or "unnamed"


def mark(message: System | User | Assistant | Tool) -> str:
    """A short fingerprint of a message, to tell whether two memories of a conversation end alike."""
    return strict_json.digest(wire(message), 12)


def call_ids(messages: Sequence[System | User | Assistant | Tool]) -> Iterator[str]:
    """The wire ids of every call in a conversation, in order."""
    for message in messages:
        if isinstance(message, Assistant):
            yield from (call.id for call in message.tool_calls)
