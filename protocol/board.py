"""The board: which answer counts, for which question, once. The only place with those rules.

Synchronous and pure: no clock, no I/O. Check first, then change; a refused decision changes nothing but the list
of refused attempts.
"""

import difflib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import PrivateAttr

from protocol import strict_json
from protocol.address import Address, address_of
from protocol.errors import AlreadyDecided, BadAddress, DecisionRefused, UnfitDecision, UnknownInterrupt
from protocol.interrupts import (
    ANSWERS,
    OUTCOME_OF,
    Answer,
    Approve,
    Closed,
    Decision,
    Edit,
    Envelope,
    FollowUp,
    Interrupt,
    Outcome,
    Result,
    ResumeReply,
    ResumeRequest,
    WithdrawRequest,
)
from protocol.record import Ledger, Record, absent, empty

KEEP_REFUSED = 100
KEEP_CLOSED = 500
KEEP_CLOSED_BYTES = 400_000
KEEP_HANDLED = 1_000
KEEP_HANDLED_BYTES = 200_000
MOST_NEAR = 3
"""Unknown targets of one request that are told what waits; each costs a comparison with all of it."""
MOST_COMPARED = 100
CLIP_TEXT = 200
CLIP_ARGUMENTS = 2_048

Fits = Callable[[Interrupt, Decision], str | None]
"""Says what is wrong with a decision's content, or nothing: edited arguments against the tool's schema."""


class AuditEntry(Record):
    """What became of one question. `by` is who the decision *claimed* to come from; nobody has proved it.

    Arguments are clipped to `CLIP_ARGUMENTS` characters of JSON; `digest` is that of the whole question.
    `effective` stands only where it differs from `proposed`: a person edited the arguments.
    """

    id: str
    kind: str
    tool: str | None = absent()
    owner: str
    digest: str
    proposed: str | None = absent()
    effective: str | None = absent()
    outcome: Outcome
    by: str | None = absent()
    reason: str | None = absent()
    created: datetime
    decided: datetime


class Refused(Record):
    """An attempt that changed nothing."""

    at: datetime
    target: str
    reason: str
    by: str | None = absent()


class Note(Record):
    """Something else that a reader of the audit should know: a reminder, an escalation, shortened results."""

    at: datetime
    about: str
    text: str


class Audit(Ledger):
    """What was asked, decided and refused: the newest in full, the rest as counts."""

    closed: list[AuditEntry] = empty(list)
    refused: list[Refused] = empty(list)
    notes: list[Note] = empty(list)
    older_closed: dict[str, int] = empty(dict)
    refused_in_all: int = absent(0)
    _bytes: int = PrivateAttr(0)  # of `closed`; counted along, since one request may close a thousand

    def model_post_init(self, context: Any, /) -> None:
        self._bytes = sum(map(_size, self.closed))

    def close(self, entry: AuditEntry) -> None:
        self.closed.append(entry)
        self._bytes += _size(entry)
        while len(self.closed) > KEEP_CLOSED or self._bytes > KEEP_CLOSED_BYTES:
            oldest = self.closed.pop(0)
            self._bytes -= _size(oldest)
            self.older_closed[oldest.outcome] = self.older_closed.get(oldest.outcome, 0) + 1

    def restate(self, interrupt: str, outcome: Outcome) -> None:
        """Correct what became of an answer."""
        for index in range(len(self.closed) - 1, -1, -1):
            stated = self.closed[index]
            if stated.id == interrupt:
                self.closed[index] = stated.model_copy(update={"outcome": outcome})
                self._bytes += _size(self.closed[index]) - _size(stated)
                return

    def refuse(self, refused: Refused) -> None:
        self.refused_in_all += 1
        self.refused.append(
            refused.model_copy(
                update={
                    "target": clip(refused.target, CLIP_TEXT),
                    "reason": clip(refused.reason, CLIP_TEXT),
                    "by": None if refused.by is None else clip(refused.by, CLIP_TEXT),
                }
            )
        )
        del self.refused[:-KEEP_REFUSED]

    def take_back(self, refused: Refused) -> None:
        """A refused attempt that counted after all: its question opened within the same moment."""
        if refused in self.refused:
            self.refused.remove(refused)
            self.refused_in_all -= 1

    def note(self, note: Note) -> None:
        self.notes.append(note.model_copy(update={"text": clip(note.text, CLIP_TEXT)}))
        del self.notes[:-KEEP_REFUSED]


class Handled(Record):
    """An accepted request, remembered under its `request_id`: a retry gets the same reply, and no second effect."""

    digest: str
    reply: ResumeReply


class Board(Ledger):
    """Every question that is open, or whose answer its call has not taken to its end; in the order of asking."""

    run: str = ""
    interrupts: dict[str, Interrupt] = empty(dict)
    audit: Audit = empty(Audit)
    handled: dict[str, Handled] = empty(dict)
    _fits: Fits = PrivateAttr(default_factory=lambda: _anything_fits)

    def judge_by(self, fits: Fits) -> None:
        """Have the content of decisions judged by *fits*; set anew after every page turn."""
        self._fits = fits

    @property
    def open(self) -> list[Interrupt]:
        return [interrupt for interrupt in self.interrupts.values() if interrupt.is_open]

    # ------------------------------------------------------------------------------------------ asking

    def ask(self, interrupt: Interrupt) -> Interrupt:
        """Put a question up, or find the one that stands under this id already (the story is told again)."""
        return self.interrupts.setdefault(interrupt.id, interrupt)

    def forget(self, interrupt: str) -> None:
        """Take a closed question down once its call is over; the audit keeps what became of it."""
        found = self.interrupts.get(interrupt)
        if found is not None and not found.is_open:
            del self.interrupts[interrupt]

    # -------------------------------------------------------------------------------------- deciding

    def check(self, request: ResumeRequest, now: datetime) -> dict[str, DecisionRefused]:
        """Why each target of *request* would be refused; empty if all of it would be taken."""
        if (problem := self._belongs(request.run)) is not None:
            return dict.fromkeys(request.targets or ("all",), problem)
        if request.all is not None:
            return (
                {}
                if any(self._takes(i, request.all) for i in self._covered(request, now))
                else {
                    "all": UnknownInterrupt(f"nothing open takes '{request.all.decision}'; {self._waiting()}")
                }
            )
        if not request.targets:
            return {"targets": UnknownInterrupt(f"targets is empty; {self._waiting()}")}
        refused: dict[str, DecisionRefused] = {}
        for target, decision in request.targets.items():
            near = len(refused) < MOST_NEAR
            if (problem := self._problem(target, decision, request.digest, now, near=near)) is not None:
                refused[target] = problem
        return refused

    def settle(self, request: ResumeRequest, now: datetime) -> ResumeReply:
        """Take every target that fits, refuse the others one by one, and say what became of each.

        A request id is remembered only if something was taken. All-or-nothing is the caller's: `check` first.
        """
        if (reply := self.repeated(request)) is not None:
            return reply
        refused = self.check(request, now)
        results = {name: Result(status="refused", reason=str(problem)) for name, problem in refused.items()}
        for name, problem in refused.items():
            self.refuse(name, str(problem), request.by, now)
        if request.all is not None and not refused:
            for interrupt in self._covered(request, now):
                results[interrupt.id] = self._one_of_all(interrupt, request, now)
        elif request.all is None:
            for target, decision in (request.targets or {}).items():
                if target not in refused:
                    results[target] = self._take(self.interrupts[target], decision, request.by, now)
        reply = ResumeReply(results=results)
        if any(result.status == "taken" for result in results.values()):
            self.remember(request, reply)
        return reply

    def withdraw(self, request: WithdrawRequest, now: datetime) -> ResumeReply:
        """Close one open interrupt without running it. Raises `DecisionRefused`."""
        if (reply := self.repeated(request)) is not None:
            return reply
        if (problem := self.check_withdraw(request, now)) is not None:
            raise problem
        self.close(request.target, "withdrawn", now, by=request.by, note=request.reason)
        reply = ResumeReply(results={request.target: Result(status="taken", decision="withdraw")})
        self.remember(request, reply)
        return reply

    def check_withdraw(self, request: WithdrawRequest, now: datetime) -> DecisionRefused | None:
        return self._belongs(request.run) or self._closed_to(request.target, request.digest, now)

    def repeated(self, request: Envelope) -> ResumeReply | None:
        """The reply that this very request got before, if its id was used. Raises `UnfitDecision` if the content
        differs."""
        handled = None if request.request_id is None else self.handled.get(request.request_id)
        if handled is None:
            return None
        if handled.digest != _digest(request):
            raise UnfitDecision(
                f"request_id '{request.request_id}' was used for another request: use a new one"
            )
        if handled.reply.results or not isinstance(request, ResumeRequest):
            return handled.reply
        known = "this request was handled before: the audit says what became of it"
        return ResumeReply(
            results={target: Result(status="skipped", reason=known) for target in request.targets or ("all",)}
        )

    def refuse(self, target: str, reason: str, by: str | None, now: datetime) -> Refused:
        """Put a refused attempt on record."""
        refused = Refused(at=now, target=target, reason=reason, by=by)
        self.audit.refuse(refused)
        return self.audit.refused[-1]

    # --------------------------------------------------------------------------------------- closing

    def close(
        self,
        interrupt: str,
        outcome: Outcome,
        now: datetime,
        *,
        by: str | None = None,
        note: str | None = None,
    ) -> Interrupt:
        """Close an open question without an answer: expired, withdrawn, superseded, cancelled."""
        closed = self.interrupts[interrupt].model_copy(
            update={"outcome": outcome, "decided": now, "by": by, "note": note}
        )
        self.interrupts[interrupt] = closed
        self.audit.close(_entry(closed))
        return closed

    def restate(self, interrupt: str, outcome: Outcome) -> None:
        """Correct what became of an answer: never delivered (unused), or its effect is not known (unknown)."""
        self.audit.restate(interrupt, outcome)

    def leave_unused(self) -> None:
        """Correct what became of every answer that nobody took: the run is over."""
        for interrupt in self.interrupts.values():
            if interrupt.decision is not None:
                self.audit.restate(interrupt.id, "unused")

    def move(self, interrupt: str, **changes: Any) -> None:
        """Note on an open question that it was reminded of, or handed on to the next approvers."""
        self.interrupts[interrupt] = self.interrupts[interrupt].model_copy(update=changes)

    # --------------------------------------------------------------------------------------- the rules

    def _belongs(self, run: str | None) -> DecisionRefused | None:
        if run is None or run == self.run:
            return None
        return UnfitDecision("the decision belongs to an earlier run of this id: look at what waits now")

    def _problem(
        self, target: str, decision: Decision, digest: str | None, now: datetime, *, near: bool
    ) -> DecisionRefused | None:
        closed = self._closed_to(target, digest, now, near=near)
        if closed is not None:
            return closed
        interrupt = self.interrupts[target]
        if not self._takes(interrupt, decision):
            fitting = " or ".join(ANSWERS[interrupt.question.kind])
            kind = interrupt.question.kind
            return UnfitDecision(
                f"'{target}' is a question of kind {kind}: it takes {fitting}, not {decision.decision}"
            )
        return self._content(interrupt, decision)

    def _closed_to(
        self, target: str, digest: str | None, now: datetime, *, near: bool = True
    ) -> DecisionRefused | None:
        interrupt = self.interrupts.get(target)
        if interrupt is None:
            earlier = next((entry for entry in reversed(self.audit.closed) if entry.id == target), None)
            if earlier is not None:
                return AlreadyDecided(_already(target, earlier.outcome, earlier.by))
            return UnknownInterrupt(
                f"nothing waits under '{clip(target, CLIP_TEXT)}'"
                + (f"; {self._waiting(target)}" if near else "")
            )
        if interrupt.outcome is not None:
            return AlreadyDecided(_already(target, interrupt.outcome, interrupt.by))
        if interrupt.expires is not None and now >= interrupt.expires:
            return AlreadyDecided(f"'{target}' expired at {interrupt.expires.isoformat(timespec='seconds')}")
        if digest is not None and digest != interrupt.digest:
            return UnfitDecision(f"the question under '{target}' changed: look at it again")
        return None

    def _content(self, interrupt: Interrupt, decision: Decision) -> DecisionRefused | None:
        match decision, interrupt.question:
            case Answer(answers=tuple() as answers), FollowUp(questions=questions) if len(answers) != len(
                questions
            ):
                return UnfitDecision(
                    f"{len(questions)} questions want {len(questions)} answers, not {len(answers)}"
                )
            case Approve(remember=str()), question if question.when != "gate":
                return UnfitDecision("remember goes with the question of a gate")
            case _:
                problem = self._fits(interrupt, decision)
                return None if problem is None else UnfitDecision(f"'{interrupt.id}': {problem}")

    def _takes(self, interrupt: Interrupt, decision: Decision) -> bool:
        return decision.decision in ANSWERS[interrupt.question.kind]

    def _covered(self, request: ResumeRequest, now: datetime) -> list[Interrupt]:
        covered = [i for i in self.open if i.expires is None or now < i.expires]
        if request.under is None:
            return covered
        try:
            prefix = Address.parse(request.under)
        except BadAddress:
            return []
        return [interrupt for interrupt in covered if address_of(interrupt.id).within(prefix)]

    def _one_of_all(self, interrupt: Interrupt, request: ResumeRequest, now: datetime) -> Result:
        decision = request.all
        assert decision is not None
        if not self._takes(interrupt, decision):
            return Result(
                status="skipped", reason=f"a {interrupt.question.kind} takes no {decision.decision}"
            )
        return self._take(interrupt, decision, request.by, now)

    def _take(self, interrupt: Interrupt, decision: Decision, by: str | None, now: datetime) -> Result:
        outcome = OUTCOME_OF[decision.decision]
        question = interrupt.question
        if isinstance(decision, Edit) and decision.arguments == getattr(question, "arguments", None):
            outcome = "approved"  # an edit that changes nothing is an approval
        taken = interrupt.model_copy(
            update={"outcome": outcome, "decision": decision, "by": by, "decided": now}
        )
        self.interrupts[interrupt.id] = taken
        self.audit.close(_entry(taken))
        return Result(status="taken", decision=decision.decision)

    def remember(self, request: Envelope, reply: ResumeReply) -> None:
        """Keep the reply to an accepted request under its id, if it has one: a retry gets the same."""
        if request.request_id is None:
            return
        self.handled[request.request_id] = Handled(digest=_digest(request), reply=reply)
        while len(self.handled) > KEEP_HANDLED:
            del self.handled[next(iter(self.handled))]
        weight = sum(map(_weight, self.handled.values()))
        for id, handled in list(self.handled.items())[:-1]:
            if weight <= KEEP_HANDLED_BYTES:
                return
            # That it was handled is known for as long as its id is; the words of the reply are not.
            self.handled[id] = handled.model_copy(update={"reply": ResumeReply(results={})})
            weight -= _weight(handled) - _weight(self.handled[id])

    def _waiting(self, near: str = "", most: int = 5) -> str:
        """What waits, the likest first, for the person who mistyped an id."""
        ids = [interrupt.id for interrupt in self.open]
        if not ids:
            return "nothing waits in this run"
        if near and len(ids) <= MOST_COMPARED:
            ids.sort(key=lambda id: -difflib.SequenceMatcher(None, id, near[:400]).quick_ratio())
        more = f" and {len(ids) - most} more" if len(ids) > most else ""
        return f"waiting: {', '.join(ids[:most])}{more}"


def _anything_fits(interrupt: Interrupt, decision: Decision) -> str | None:
    return None


def clip(text: str, most: int) -> str:
    """*text*, or its head with the number of characters that were cut."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def answer_of(interrupt: Interrupt) -> Decision | Closed | None:
    """The decision on a closed interrupt, or how it closed without one; nothing while it is open."""
    match interrupt.outcome:
        case None:
            return None
        case "expired" | "withdrawn" | "superseded" | "cancelled" as outcome:
            deadline = interrupt.deadline
            return Closed(
                outcome=outcome, note=interrupt.note, on_expiry=deadline.on_expiry if deadline else "reject"
            )
        case _:
            return interrupt.decision


def _already(target: str, outcome: str, by: str | None) -> str:
    return f"'{target}' is already decided: {outcome}" + (f" by {by}" if by else "")


def _digest(request: Envelope) -> str:
    return strict_json.digest(
        [type(request).__name__, request.model_dump(mode="json", exclude={"request_id"})]
    )


def _weight(handled: Handled) -> int:
    return 40 + sum(len(name) + len(result.reason) + 60 for name, result in handled.reply.results.items())


def _entry(interrupt: Interrupt) -> AuditEntry:
    question, decision = interrupt.question, interrupt.decision
    proposed = getattr(question, "arguments", None)
    effective = None
    if interrupt.outcome == "edited" and isinstance(decision, Edit):
        effective = decision.arguments
    assert interrupt.outcome is not None
    assert interrupt.decided is not None
    return AuditEntry(
        id=interrupt.id,
        kind=question.kind,
        tool=getattr(question, "tool", None),
        owner=interrupt.owner,
        digest=interrupt.digest,
        proposed=_written(proposed),
        effective=_written(effective),
        outcome=interrupt.outcome,
        by=interrupt.by,
        reason=_words(interrupt),
        created=interrupt.created,
        decided=interrupt.decided,
    )


def _size(entry: AuditEntry) -> int:
    return len(entry.model_dump_json().encode())


def _written(arguments: dict[str, Any] | None) -> str | None:
    return None if arguments is None else clip(strict_json.compact(arguments), CLIP_ARGUMENTS)


def _words(interrupt: Interrupt) -> str | None:
    decision = interrupt.decision
    for field in ("reason", "comment", "feedback", "answer"):
        if (text := getattr(decision, field, None)) is not None:
            return clip(str(text), CLIP_ARGUMENTS)
    if isinstance(decision, Answer) and decision.answers is not None:
        return clip("\n".join(decision.answers), CLIP_ARGUMENTS)
    return interrupt.note
