"""Questions to people, their decisions, and which decision fits which question."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from protocol import strict_json
from protocol.agents import Deadline
from protocol.errors import BadInput
from protocol.record import Record, absent, explain, read

MAX_TEXT = 20_000
"""Characters of a reason, comment, feedback or answer."""
MAX_REQUEST_BYTES = 512 * 1024
"""Bytes of one decision as JSON."""
MAX_TARGETS = 1_000
"""Targets of one decision."""

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Words = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=r"\S")]
Name = Annotated[str, StringConstraints(max_length=200)]

# ------------------------------------------------------------------------------------------- questions

When = Literal["before", "after", "gate", "tool"]


class Question(Record):
    """What every question says: `because` is the model's text beside the call, `when` what raised it.

    `result` stands on a question asked after a tool or agent ran: what it gave.
    """

    because: str = absent("")
    when: When
    result: str | None = absent()


class Approval(Question):
    """May this run? Asked by a gate or a breakpoint."""

    kind: Literal["approval"] = "approval"
    tool: str
    arguments: dict[str, Any]


class Review(Question):
    """May this run, and with these arguments? `parameters` is the schema that edited arguments must fit."""

    kind: Literal["review"] = "review"
    tool: str
    arguments: dict[str, Any]
    parameters: dict[str, Any]


class Feedback(Question):
    """Is this content good as it is? Asked by a review agent; `round` counts from 1."""

    kind: Literal["feedback"] = "feedback"
    content: str
    round: int


class FollowUp(Question):
    """Questions of the model, to be answered one by one or in one text."""

    kind: Literal["follow_up"] = "follow_up"
    questions: tuple[str, ...]


class Custom(Question):
    """Whatever a tool asked from inside; `expects` is the schema of the data it wants, if it said so.

    `problem` stands on a question asked again because the data did not fit.
    """

    kind: Literal["custom"] = "custom"
    tool: str
    info: Any
    expects: dict[str, Any] | None = absent()
    problem: str | None = absent()


AnyQuestion = Annotated[Approval | Review | Feedback | FollowUp | Custom, Field(discriminator="kind")]

# ------------------------------------------------------------------------------------------- decisions


class Approve(Record):
    """Run it. ``remember="call"`` also releases later calls of this run with the same arguments."""

    decision: Literal["approve"] = "approve"
    comment: Text | None = absent()
    remember: Literal["call"] | None = absent()


class Reject(Record):
    decision: Literal["reject"] = "reject"
    reason: Text | None = absent()


class Edit(Record):
    """Run it with these arguments instead; the tool stays the same."""

    decision: Literal["edit"] = "edit"
    arguments: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _an_object(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("arguments"), str):
            raise BadInput("arguments is a text: send the object itself")
        return data


class Accept(Record):
    """The content is good as it is."""

    decision: Literal["accept"] = "accept"
    comment: Text | None = absent()


class Revise(Record):
    decision: Literal["revise"] = "revise"
    feedback: Words


class Answer(Record):
    """One text for all the questions, or one text per question, in order."""

    decision: Literal["answer"] = "answer"
    answer: Words | None = absent()
    answers: tuple[Words, ...] | None = absent()

    @model_validator(mode="after")
    def _one_of_both(self) -> "Answer":
        if (self.answer is None) == (self.answers is None):
            raise ValueError("give either answer or answers")
        return self


class Resume(Record):
    """Data for a tool that asked from inside; no data is an answer too."""

    decision: Literal["resume"] = "resume"
    data: Any = Field(None, exclude_if=lambda value: value is None)


Decision = Approve | Reject | Edit | Accept | Revise | Answer | Resume
AnyDecision = Annotated[Decision, Field(discriminator="decision")]

# The whole grammar of the conversation between agents and people, in one place.
ANSWERS: dict[str, tuple[str, ...]] = {
    "approval": ("approve", "reject"),
    "review": ("approve", "edit", "reject"),
    "feedback": ("accept", "revise"),
    "follow_up": ("answer",),
    "custom": ("resume",),
}


def examples(question: Approval | Review | Feedback | FollowUp | Custom) -> list[dict[str, Any]]:
    """Ready-made JSON for each decision that fits a question, to be sent under the interrupt's id."""
    match question:
        case Approval():
            return [{"decision": "approve"}, {"decision": "reject", "reason": "…"}]
        case Review():
            edit = {"decision": "edit", "arguments": question.arguments}
            return [{"decision": "approve"}, edit, {"decision": "reject", "reason": "…"}]
        case Feedback():
            return [{"decision": "accept"}, {"decision": "revise", "feedback": "…"}]
        case FollowUp():
            return [
                {"decision": "answer", "answers": ["…" for _ in question.questions]},
                {"decision": "answer", "answer": "…"},
            ]
        case Custom():
            return [{"decision": "resume", "data": "…"}, {"decision": "resume"}]


# ------------------------------------------------------------------------------------------ interrupts

Outcome = Literal[
    "approved",
    "rejected",
    "edited",
    "answered",
    "accepted",
    "revised",
    "resumed",
    "expired",
    "superseded",
    "withdrawn",
    "cancelled",
    "unused",
    "unknown",
]

OUTCOME_OF: dict[str, Outcome] = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited",
    "answer": "answered",
    "accept": "accepted",
    "revise": "revised",
    "resume": "resumed",
}


class Interrupt(Record):
    """One question to a person, open while `outcome` is missing.

    `owner` is the written address of the agent that asks; `digest` is that of the question's canonical JSON.
    `stage` counts the escalations that have happened, `reminded` the reminders.
    """

    id: str
    owner: str
    question: AnyQuestion
    digest: str
    created: datetime
    expires: datetime | None = absent()
    approvers: tuple[str, ...] = absent(())
    deadline: Deadline | None = absent()
    stage: int = absent(0)
    reminded: int = absent(0)
    outcome: Outcome | None = absent()
    decision: AnyDecision | None = absent()
    by: str | None = absent()
    decided: datetime | None = absent()
    note: str | None = absent()

    @property
    def is_open(self) -> bool:
        return self.outcome is None


def digest_of(question: Approval | Review | Feedback | FollowUp | Custom) -> str:
    """16 hex digits that change whenever anything of the question does."""
    return strict_json.digest(question.model_dump(mode="json"))


class Closed(Record):
    """An interrupt that ended without an answer. `note` is a reason that somebody gave, if any.

    `on_expiry` is what the question's deadline says of its end; it means something for ``expired`` alone.
    """

    outcome: Literal["expired", "withdrawn", "superseded", "cancelled"]
    note: str | None = absent()
    on_expiry: Literal["reject", "approve", "escalate", "fail"] = "reject"

    @property
    def lets_through(self) -> bool:
        """Whether the deadline says to go on as if it were approved."""
        return self.outcome == "expired" and self.on_expiry == "approve"

    @property
    def fails(self) -> bool:
        return self.outcome == "expired" and self.on_expiry == "fail"


# -------------------------------------------------------------------------------------------- requests


class Envelope(Record):
    """What stands beside a decision: who claims to send it, and what it must still be true of.

    `run` is the chain's first run id, `digest` the question's; a difference refuses the decision.
    """

    by: Name | None = absent()
    request_id: Name | None = absent()
    run: Name | None = absent()
    digest: Name | None = absent()


AllOf = Annotated[Approve | Reject | Accept, Field(discriminator="decision")]


class ResumeRequest(Envelope):
    """Decisions for one or many interrupts: `targets` by id, or `all` of those open, optionally `under` a prefix."""

    targets: dict[str, AnyDecision] | None = absent()
    all: AllOf | None = absent()
    under: str | None = absent()

    @model_validator(mode="after")
    def _says_what(self) -> "ResumeRequest":
        if (self.targets is None) == (self.all is None):
            raise ValueError("give either targets or all")
        if self.under is not None and self.all is None:
            raise ValueError("under goes with all")
        if self.targets is not None and len(self.targets) > MAX_TARGETS:
            raise ValueError(f"more than {MAX_TARGETS} targets")
        if self.digest is not None and (self.targets is None or len(self.targets) != 1):
            raise ValueError("digest names one question: send it with one target")
        return self


class WithdrawRequest(Envelope):
    """Close an interrupt without running what it asks about."""

    target: str
    reason: Text | None = absent()


class SayRequest(Envelope):
    text: Words


class EndRequest(Envelope):
    pass


class Result(Record):
    """What became of one target: taken, refused (why), or skipped because it takes no such decision."""

    status: Literal["taken", "refused", "skipped"]
    decision: str = absent("")
    reason: str = absent("")


class ResumeReply(Record):
    """What became of each target, by interrupt id."""

    results: dict[str, Result]


T = TypeVar("T")
R = TypeVar("R", bound=Record)

_DECISION: TypeAdapter[Decision] = TypeAdapter(AnyDecision)
_ENVELOPE = tuple(Envelope.model_fields)


def parse(model: type[R], value: Any) -> R:
    """Read plain JSON data as *model*, strictly. Raises `BadInput` naming the fields that do not fit."""
    return _read(TypeAdapter(model), value)


def parse_resume(value: Any) -> ResumeRequest:
    """Read decisions for many. A target without one is refused: where fields may be ``null``, it would be left out."""
    targets = value.get("targets") if isinstance(value, dict) else None
    if isinstance(targets, dict) and None in targets.values():
        nothing = next(target for target, decision in targets.items() if decision is None)
        raise BadInput(f"targets.{nothing[:200]}: no decision")
    return parse(ResumeRequest, value)


def parse_decision(interrupt: str, value: Any) -> ResumeRequest:
    """Read what was sent under the name of an interrupt: a decision with its envelope beside it."""
    if not isinstance(value, dict):
        raise BadInput(f"send one JSON object, not {_kind(value)}")
    envelope = {key: value[key] for key in _ENVELOPE if key in value}
    decision = _read(_DECISION, {key: item for key, item in value.items() if key not in envelope})
    return parse(ResumeRequest, {**envelope, "targets": {interrupt: decision.model_dump(mode="json")}})


def _read(adapter: TypeAdapter[T], value: Any) -> T:
    if not isinstance(value, dict):
        raise BadInput(f"send one JSON object, not {_kind(value)}")
    too_large = f"the request is larger than {MAX_REQUEST_BYTES // 1024} KB"
    if strict_json.outgrows(value, MAX_REQUEST_BYTES):
        raise BadInput(too_large)
    try:
        text = strict_json.compact(value)
    except ValueError:
        raise BadInput("not a JSON object") from None
    if len(text) > MAX_REQUEST_BYTES:
        raise BadInput(too_large)
    try:
        strict_json.refuse_huge(value, text)
    except strict_json.HarmfulJson as error:
        raise BadInput(str(error)) from None
    try:
        return read(adapter, value)
    except ValidationError as error:
        raise BadInput(explain(error)) from None


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a text", bool: "true or false"}.get(
        type(value), "a number" if isinstance(value, int | float) else "nothing" if value is None else "bytes"
    )
