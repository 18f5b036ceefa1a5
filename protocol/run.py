"""What a run is started with, everything it knows, and what it ends with."""

from typing import Any, Literal

from pydantic import model_validator

from protocol.agents import AgentSpec, Deadline, ModelSpec, check_tree
from protocol.board import Audit, Board
from protocol.errors import BadTree
from protocol.messages import Message, Reply
from protocol.record import Ledger, Record, absent, empty

Status = Literal["completed", "rejected", "stopped", "cancelled", "failed"]
"""How a run or an agent ended; ``stopped`` is a limit, which the text names."""


class Answer(Record):
    """What an agent reports when it is done."""

    status: Status = "completed"
    text: str
    exits: bool = absent(False)


class Asking(Ledger):
    """A question from inside a tool that is open or answered, but not yet told to the tool. `part` names its part."""

    interrupt: str
    part: str | None = absent()


class Call(Ledger):
    """A tool call and what became of it so far.

    `segment` is its place in the address, `wire` its id towards the model. `outcome` is the tool message; until it
    stands, `passed` are the questions at this address that were answered so that the call may go on, `state` is
    what the tool saved, and `result` what it gave while an after-question is open.
    """

    wire: str
    segment: str
    name: str
    arguments: str
    outcome: str | None = absent()
    failed: str | None = absent()
    status: str = absent("")
    asked: int = absent(0)
    runs: int = absent(0)
    state: Any = None
    asking: list[Asking] = empty(list)
    fact: str | None = absent()


class Turn(Ledger):
    """One model call: what the agent heard before it, what it replied, and its calls."""

    heard: list[str] = empty(list)
    reply: Reply
    calls: list[Call] = empty(list)


class Memory(Ledger):
    """Everything that one agent remembers: its turns, how often each node below was visited, its answer."""

    turns: list[Turn] = empty(list)
    heard: list[str] = empty(list)
    visits: dict[str, int] = empty(dict)
    calls_made: int = absent(0)
    call: Call | None = absent()
    notes: dict[str, Any] = empty(dict)
    answer: Answer | None = absent()


class RunState(Ledger):
    """Everything a run knows: one value, and the luggage of every page turn."""

    board: Board = empty(Board)
    memories: dict[str, Memory] = empty(dict)
    remembered: dict[str, str] = empty(dict)
    inbox: list[str] = empty(list)
    ended: bool = absent(False)
    pages: int = absent(0)
    opened: str = absent("")


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
        try:
            check_tree(self.agent, self.interrupt_before, self.interrupt_after)
        except BadTree as error:
            raise ValueError(str(error)) from None
        return self


class RunResult(Record):
    """How a run ended. `transcript` is the root agent's conversation, `audit` what people decided on the way."""

    status: Status
    answer: str
    transcript: tuple[Message, ...] = absent(())
    audit: Audit = empty(Audit)
    pages: int = absent(0)
