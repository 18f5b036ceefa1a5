"""What a run is started with, everything it knows, and what it ends with."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, overload

from pydantic import Field, GetCoreSchemaHandler, TypeAdapter, model_validator
from pydantic_core import CoreSchema, core_schema

from protocol.agents import AgentSpec, Chat, Deadline, ModelSpec, check_tree
from protocol.board import Audit, Board
from protocol.errors import BadTree
from protocol.interrupts import Closed
from protocol.kept import Kept
from protocol.messages import Message, Reply
from protocol.record import Ledger, Record, absent, empty
from protocol.work import Given, Interrupted

Status = Literal["completed", "rejected", "stopped", "cancelled", "failed"]
"""How a run or an agent ended; ``stopped`` is a limit, which the text names."""


class Answer(Record):
    """What an agent reports when it is done.

    ``exits`` ends the loop around it; `facts` are what people refused or changed on the way.
    """

    status: Status = "completed"
    text: str
    exits: bool = absent(False)
    facts: tuple[str, ...] = absent(())


class Part(Ledger):
    """A question that a tool asked from inside and that was not answered to it yet.

    `part` is its part's name (``""`` without parts), `digest` that of the question; `closed` says how it ended
    without an answer.
    """

    interrupt: str
    part: str = absent("")
    digest: str
    closed: Closed | None = absent()


class Call(Ledger):
    """A tool call and what became of it so far.

    `segment` is its place in the address, `wire` its id towards the model. `outcome` is the tool message. Until it
    stands: `asked` counts the questions that were answered at this address (and by part), `passed` names the
    gates that let it through, `effective` are arguments that a person changed, `interrupted` is the tool's last
    stop, `parts` its questions still unanswered and `given` the answers for its next run; `result` is what it gave
    while an after-question is open.
    """

    wire: str = absent("")
    segment: str
    name: str
    arguments: str = absent("")
    outcome: str | None = absent()
    status: str = absent("")
    facts: list[str] = empty(list)
    asked: int = absent(0)
    passed: list[str] = empty(list)
    effective: dict[str, Any] | None = Field(None, exclude_if=lambda value: value is None)
    comment: str | None = absent()
    interrupted: Interrupted | None = absent()
    parts: list[Part] = empty(list)
    parts_asked: dict[str, int] = empty(dict)
    given: dict[str, Given] = empty(dict)
    result: str | None = Field(None, exclude_if=lambda value: value is None)


class Turn(Ledger):
    """One model call: what the agent heard before it, what it replied, its calls, and what it was told to mend.

    `limit` says that the agent may not think again until somebody speaks, and that the audit says so.
    """

    heard: list[str] = empty(list)
    reply: Reply
    calls: list[Call] = empty(list)
    nudge: str = absent("")
    limit: bool = absent(False)


class Turns(Sequence[Turn]):
    """The turns of one agent, in order. Only the last one changes in place; those before it are kept as text, and
    a look at one of them gives a copy."""

    __slots__ = ("_last", "_past")

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self._past: Kept[Turn] = Kept(_TURN)
        self._last: Turn | None = None
        for turn in turns:
            self.append(turn)

    def __len__(self) -> int:
        return len(self._past) + (self._last is not None)

    @overload
    def __getitem__(self, at: int) -> Turn: ...
    @overload
    def __getitem__(self, at: slice) -> list[Turn]: ...
    def __getitem__(self, at: int | slice) -> Turn | list[Turn]:
        if isinstance(at, slice):
            return list(self)[at]
        if self._last is not None and at in (-1, len(self) - 1):
            return self._last
        return self._past[at if at >= 0 else at + 1]

    def __iter__(self) -> Iterator[Turn]:
        yield from self._past
        if self._last is not None:
            yield self._last

    def append(self, turn: Turn) -> None:
        if self._last is not None:
            self._past.append(self._last)
        self._last = turn

    def rewrite(self, at: int, turn: Turn) -> None:
        """Put *turn* in the place of an earlier one."""
        self._past[at] = turn

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        turns = core_schema.generator_schema(handler.generate_schema(Turn))  # read and written one by one
        return core_schema.no_info_after_validator_function(
            cls,
            turns,
            serialization=core_schema.plain_serializer_function_ser_schema(iter, return_schema=turns),
        )


_TURN = TypeAdapter(Turn)


class Memory(Ledger):
    """Everything that one agent remembers.

    `visits` counts the visits of each node below and of each call id; `calls_made` all calls of its model. `call`
    is what is asked at its own address: a breakpoint, a step's tool call, a review.
    """

    turns: Turns = empty(Turns)
    visits: dict[str, int] = empty(dict)
    calls_made: int = absent(0)
    call: Call | None = absent()
    answer: Answer | None = absent()


class RunState(Ledger):
    """Everything a run knows: one value, and the luggage of every page turn.

    `memories` by written agent address; `remembered` are the approvals given with ``remember``; `inbox` holds what
    was said in a conversation and not heard yet.
    """

    board: Board = empty(Board)
    memories: dict[str, Memory] = empty(dict)
    remembered: dict[str, str] = empty(dict)
    inbox: list[str] = empty(list)
    ended: bool = absent(False)
    pages: int = absent(0)


class RunRequest(Record):
    """The start input of `AgentRun`: one JSON object, from any language.

    `interrupt_before` and `interrupt_after` name nodes or tools, or give their paths (``*``, ``**``). `deadline`
    holds for every question that names none. ``chat=true`` keeps the run open for `say`. ``visible=false`` does
    without search attributes. `state` is the run's own luggage and never given from outside.
    """

    task: str
    agent: AgentSpec
    model: ModelSpec | None = absent()
    interrupt_before: tuple[str, ...] = absent(())
    interrupt_after: tuple[str, ...] = absent(())
    deadline: Deadline | None = absent()
    chat: bool = absent(False)
    visible: bool = True
    state: RunState | None = absent()

    @model_validator(mode="after")
    def _can_run(self) -> "RunRequest":
        if not self.task.strip():
            raise ValueError("task is empty")
        if self.chat and not isinstance(self.agent, Chat):
            raise ValueError(
                f"chat=true goes with a chat, supervisor or deep agent, not with {self.agent.kind}"
            )
        try:
            check_tree(self.agent, self.interrupt_before, self.interrupt_after)
        except BadTree as error:
            raise ValueError(str(error)) from None
        return self


class RunResult(Record):
    """How a run ended. `transcript` is the root agent's conversation, `audit` what people decided on the way.

    `left_out` counts the oldest messages that a result has no room for; `pages` the page turns.
    """

    status: Status
    answer: str
    transcript: tuple[Message, ...] = absent(())
    audit: Audit = empty(Audit)
    pages: int = absent(0)
    left_out: int = absent(0)
