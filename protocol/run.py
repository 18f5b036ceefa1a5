"""What a run is started with, everything it knows, and what it ends with."""

from typing import Any, Literal

from pydantic import Field, model_validator

from protocol.agents import AgentSpec, Deadline, ModelSpec, check_tree
from protocol.board import Audit, Board
from protocol.errors import BadTree
from protocol.interrupts import Closed
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


class Memory(Ledger):
    """Everything that one agent remembers.

    `visits` counts the visits of each node below and of each call id; `calls_made` all calls of its model. `call`
    is what is asked at its own address: a breakpoint, a step's tool call, a review.
    """

    turns: list[Turn] = empty(list)
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
