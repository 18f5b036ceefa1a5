"""The desk: where a workflow asks people and waits, and the one door through which every decision comes.

Any workflow can have one: inherit `AsksPeople`, then ``await self.desk.ask("payment>kyc", question)``.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributeUpdate
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from converter import Undecodable
    from protocol.address import Address, address_of, interrupt_id
    from protocol.agents import Deadline
    from protocol.board import Audit, Board, Note, Refused, answer_of, clip
    from protocol.errors import BadAddress, BadInput, DecisionRefused, UnknownInterrupt
    from protocol.interrupts import (
        AnyQuestion,
        Closed,
        Custom,
        Decision,
        Edit,
        EndRequest,
        Interrupt,
        Resume,
        ResumeReply,
        ResumeRequest,
        Review,
        SayRequest,
        WithdrawRequest,
        digest_of,
        examples,
        parse,
        parse_decision,
        parse_resume,
    )
    from protocol.views import PAGE_BYTES, InterruptsPage, Listed, PendingPage, PendingQuery
    from workflows.schema import problem

STATUS = SearchAttributeKey.for_keyword("SignoffStatus")
AGENT = SearchAttributeKey.for_keyword("SignoffAgent")
PENDING = SearchAttributeKey.for_keyword_list("SignoffPending")
APPROVERS = SearchAttributeKey.for_keyword_list("SignoffApprovers")
WAITING_SINCE = SearchAttributeKey.for_datetime("SignoffWaitingSince")
PENDING_COUNT = SearchAttributeKey.for_int("SignoffPendingCount")

MAX_ATTRIBUTE_BYTES = 1_900
"""The server terminates a run whose search attribute is larger than 2,048 bytes."""
MAX_DETAILS = 20
MAX_REASONS = 50
"""Refused targets whose reasons an update is told; a failure has to fit into a payload."""
MAX_TASK = 2_000
"""Characters of the opening line that are shown with a question."""


@dataclass
class _Early:
    """A decision by signal for a question that may open within this workflow task: a person can see a question by
    query before the task that opens it."""

    history_length: int
    target: str
    request: ResumeRequest
    refused: Refused


class Desk:
    """Asks, waits, and lets decisions in. *task* and *agent* are shown beside every question.

    *board* is the luggage of an earlier page. With ``visible=False`` no search attributes are written.
    """

    def __init__(
        self,
        *,
        task: str = "",
        agent: str = "",
        board: Board | None = None,
        visible: bool = True,
        deadline: Deadline | None = None,
    ) -> None:
        info = workflow.info()
        self.board = board or Board()
        self.board.run = self.board.run or info.first_execution_run_id or info.run_id
        self.board.judge_by(_content_problem)
        self.received = 0
        self._task, self._agent = clip(task, MAX_TASK), agent or info.workflow_type
        self._visible, self._deadline = visible, deadline
        self._waits: dict[str, list[asyncio.Future[None]]] = {}
        self._early: list[_Early] = []
        self._nth: dict[str, int] = {}
        self._changed = bool(self.board.interrupts)
        self._publisher: asyncio.Task[None] | None = None
        self._published = _Published.found()

    # ------------------------------------------------------------------------------------------- asking

    async def ask(
        self,
        address: str,
        question: AnyQuestion,
        *,
        deadline: Deadline | None = None,
        approvers: Iterable[str] = (),
    ) -> Decision | Closed:
        """Ask a person and wait for the decision, or for how the question closed without one.

        The n-th question at an address (from the second on) gets the id ``<address>~n``. Raises `BadAddress`.
        """
        Address.parse(address)
        nth = self._nth[address] = self._nth.get(address, 0) + 1
        id = interrupt_id(address, nth)
        self.open(id, question, owner=self._agent, deadline=deadline, approvers=approvers)
        answer = await self.answer(id)
        self.board.forget(id)
        return answer

    def open(
        self,
        id: str,
        question: AnyQuestion,
        *,
        owner: str,
        deadline: Deadline | None = None,
        approvers: Iterable[str] = (),
    ) -> None:
        """Put a question up without waiting; it stays as it is if it stands already."""
        if id in self.board.interrupts:
            return
        now = workflow.now()
        deadline = deadline or self._deadline
        self.board.ask(
            Interrupt(
                id=id,
                owner=owner,
                question=question,
                digest=digest_of(question),
                created=now,
                expires=None if deadline is None else now + timedelta(seconds=deadline.after),
                approvers=tuple(approvers),
                deadline=deadline,
            )
        )
        workflow.metric_meter().create_counter("signoff_opened").add(1, {"kind": question.kind})
        self._note_change()
        self._hear_early(id)

    async def answer(self, id: str) -> Decision | Closed:
        """Wait until the question *id* is closed."""
        await self.first_closed([id])
        answer = answer_of(self.board.interrupts[id])
        assert answer is not None
        return answer

    async def first_closed(self, ids: Sequence[str]) -> None:
        """Wait until one of these questions is closed, through their reminders, escalations and deadlines."""
        while all(self.board.interrupts[id].is_open for id in ids):
            wait = asyncio.get_running_loop().create_future()
            for id in ids:
                self._waits.setdefault(id, []).append(wait)
            moments = [(m, id) for id in ids if (m := _next_moment(self.board.interrupts[id])) is not None]
            if not moments:
                await wait
                continue
            moment, id = min(moments)
            try:
                await workflow.wait_condition(
                    wait.done,
                    timeout=max(moment - workflow.now(), timedelta(0)),
                    timeout_summary=clip(f"{id} deadline", 200),
                )
            except TimeoutError:
                self._pass_moment(self.board.interrupts[id], moment)

    def close(self, id: str, outcome: Any, note: str | None = None) -> None:
        """Close an open question without an answer."""
        self.board.close(id, outcome, workflow.now(), note=note)
        self._closed(id)

    def cancel_all(self) -> None:
        """Close everything that is open: the run is cancelled."""
        for interrupt in self.board.open:
            self.close(interrupt.id, "cancelled")

    def note(self, about: str, text: str) -> None:
        self.board.audit.note(Note(at=workflow.now(), about=about, text=text))

    def _pass_moment(self, interrupt: Interrupt, moment: datetime) -> None:
        """A reminder or the deadline of an open question has come."""
        deadline = interrupt.deadline
        assert deadline is not None
        if moment != interrupt.expires:
            self.board.move(interrupt.id, reminded=interrupt.reminded + 1)
            self.note(interrupt.id, "reminder: still waiting")
            return
        if deadline.on_expiry == "escalate" and interrupt.stage < len(deadline.escalate):
            step = deadline.escalate[interrupt.stage]
            self.board.move(
                interrupt.id,
                stage=interrupt.stage + 1,
                approvers=step.approvers,
                expires=moment + timedelta(seconds=step.after),
            )
            self.note(interrupt.id, f"escalated to {', '.join(step.approvers)}")
            self._note_change()
            return
        self.board.close(interrupt.id, "expired", moment)
        self._closed(interrupt.id)

    # --------------------------------------------------------------------------------------------- door

    def check_update(self, name: str, args: Sequence[Any]) -> None:
        """Refuse an update before it enters history. Raises `BadInput` or `DecisionRefused` with every reason."""
        now = workflow.now()
        request = self.read(name, args)
        match request:
            case ResumeRequest() | WithdrawRequest() if self.board.repeated(request) is not None:
                return
            case ResumeRequest():
                refused = self.board.check(request, now)
                if refused:
                    raise _all_reasons(refused)
            case WithdrawRequest():
                if (refusal := self.board.check_withdraw(request, now)) is not None:
                    raise refusal
            case _:
                raise UnknownInterrupt(f"this workflow takes no '{name}'")

    def update(self, name: str, args: Sequence[Any]) -> ResumeReply:
        """Take an update whole, or not at all. Raises `ApplicationError` if its validator was passed by."""
        self.received += 1
        try:
            self.check_update(name, args)
            return self._settle(self.read(name, args))
        except (BadInput, DecisionRefused) as refused:
            raise ApplicationError(str(refused), type=type(refused).__name__, non_retryable=True) from None

    def signal(self, name: str, args: Sequence[Any]) -> None:
        """Take what fits of a signal; the rest is on record as refused. Never raises."""
        self.received += 1
        try:
            request = self.read(name, args)
        except BadInput as error:
            self._refuse(name, str(error), None)
            return
        try:
            reply = self._settle(request)
        except DecisionRefused as error:
            self._refuse(getattr(request, "target", name), str(error), request.by)
            return
        if isinstance(request, ResumeRequest) and request.targets is not None:
            for target, result in reply.results.items():
                if result.status == "refused" and target not in self.board.interrupts:
                    self._keep_early(target, request)

    def read(
        self, name: str, args: Sequence[Any]
    ) -> ResumeRequest | WithdrawRequest | SayRequest | EndRequest:
        """The request in a message. Raises `BadInput`."""
        if len(args) != 1:
            raise BadInput(f"send one JSON object, not {len(args)} arguments")
        value = args[0]
        if isinstance(value, RawValue):
            value = workflow.payload_converter().from_payloads([value.payload], None)[0]
        if isinstance(value, Undecodable):
            raise BadInput(f"the payload cannot be read: {value.reason}")
        match name:
            case "resume":
                return parse_resume(value)
            case "withdraw":
                return parse(WithdrawRequest, value)
            case "say":
                return parse(SayRequest, value)
            case "end":
                return parse(EndRequest, value)
            case _:
                pass
        try:
            address_of(name)
        except BadAddress:
            raise BadInput(f"no message is called '{clip(name, 200)}', and no interrupt") from None
        return parse_decision(name, value)

    def _settle(self, request: Any) -> ResumeReply:
        now = workflow.now()
        match request:
            case ResumeRequest():
                reply = self.board.settle(request, now)
            case WithdrawRequest():
                reply = self.board.withdraw(request, now)
            case _:
                raise UnknownInterrupt("this workflow is no conversation")
        for id, result in reply.results.items():
            if result.status == "taken":
                self._closed(id)
            elif result.status == "refused":
                workflow.metric_meter().create_counter("signoff_refused").add(1)
        return reply

    def _refuse(self, target: str, reason: str, by: str | None) -> None:
        self.board.refuse(target, reason, by, workflow.now())
        workflow.metric_meter().create_counter("signoff_refused").add(1)

    def _keep_early(self, target: str, request: ResumeRequest) -> None:
        # Signals are applied before the results of the same workflow task.
        length = workflow.info().get_current_history_length()
        self._early = [early for early in self._early if early.history_length == length][-100:]
        refused = next((r for r in reversed(self.board.audit.refused) if r.target == clip(target, 200)), None)
        if refused is not None:
            self._early.append(_Early(length, target, request, refused))

    def _hear_early(self, id: str) -> None:
        length = workflow.info().get_current_history_length()
        for early in self._early:
            if early.target == id and early.history_length == length and self.board.interrupts[id].is_open:
                assert early.request.targets is not None
                # Not under its request id: that of a request whose parts come to their questions one by one.
                one = {"targets": {id: early.request.targets[id]}, "request_id": None}
                only = early.request.model_copy(update=one)
                if not self.board.check(only, workflow.now()):
                    self.board.audit.take_back(early.refused)
                    self._settle(only)

    def _closed(self, id: str) -> None:
        interrupt = self.board.interrupts.get(id)
        for wait in self._waits.pop(id, ()):
            if not wait.done():
                wait.set_result(None)
        self._note_change()
        if interrupt is not None and interrupt.outcome is not None and interrupt.decided is not None:
            meter = workflow.metric_meter()
            meter.create_counter("signoff_decided").add(1, {"outcome": interrupt.outcome})
            seconds = max((interrupt.decided - interrupt.created).total_seconds(), 0.0)
            meter.create_histogram_float("signoff_wait_seconds", unit="s").record(seconds)

    # ------------------------------------------------------------------------------------------ showing

    @property
    def status(self) -> Literal["waiting", "running"]:
        return "waiting" if self.board.open else "running"

    def pending(self, query: PendingQuery) -> PendingPage:
        """The open interrupts, or the one that was asked for, under `PAGE_BYTES`."""
        found = self.board.open
        if query.id is not None:
            found = [interrupt for interrupt in found if interrupt.id == query.id]
        if query.after is not None:
            ids = [interrupt.id for interrupt in found]
            found = found[ids.index(query.after) + 1 :] if query.after in ids else []
        shown, more = self._listed(found)
        return PendingPage(
            run=self.board.run, status=self.status, count=len(self.board.open), interrupts=shown, more=more
        )

    def interrupts(self) -> InterruptsPage:
        shown, more = self._listed(self.board.open)
        return InterruptsPage(open=shown, closed=tuple(self.board.audit.closed[-100:]), more=more)

    def audit(self) -> Audit:
        return self.board.audit

    def _listed(self, interrupts: list[Interrupt]) -> tuple[tuple[Listed, ...], bool]:
        shown: list[Listed] = []
        room = PAGE_BYTES
        for interrupt in interrupts:
            listed = self._list(interrupt)
            room -= len(listed.model_dump_json())
            if room < 0 and shown:
                return tuple(shown), True
            shown.append(listed)
        return tuple(shown), False

    def _list(self, interrupt: Interrupt) -> Listed:
        return Listed(
            workflow_id=workflow.info().workflow_id,
            run=self.board.run,
            id=interrupt.id,
            owner=interrupt.owner,
            digest=interrupt.digest,
            created=interrupt.created,
            expires=interrupt.expires,
            approvers=interrupt.approvers,
            task=self._task,
            question=interrupt.question,
            answers=tuple(examples(interrupt.question)),
        )

    def _note_change(self) -> None:
        self._changed = True
        self.publish()

    def publish(self) -> None:
        """Show from now on what waits: one upsert per workflow task in which it changed."""
        if self._publisher is None:
            self._publisher = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        while True:
            await workflow.wait_condition(lambda: self._changed)
            self._changed = False
            waiting = self.board.open
            workflow.set_current_details(_details(waiting))
            if self._visible:
                published = _Published.of(waiting, self._agent)
                if updates := published.since(self._published):
                    workflow.upsert_search_attributes(updates)
                    self._published = published


class AsksPeople:
    """A workflow that asks people: it has a `desk`, and the messages and queries by which it is answered.

    Every message takes one JSON object. A workflow with an ``__init__`` of its own calls this one's.
    """

    desk: Desk

    def __init__(self) -> None:
        self.desk = Desk()

    @workflow.signal(
        name="resume", description="Decide: {'targets': {'<interrupt id>': {'decision': …}}, 'by': …}"
    )
    def resume_signal(self, *args: Any) -> None:
        self.desk.signal("resume", args)

    @workflow.update(
        name="resume", description="Decide, and hear what became of it; refused ones change nothing."
    )
    def resume_update(self, *args: Any) -> ResumeReply:
        return self.desk.update("resume", args)

    @resume_update.validator
    def _check_resume(self, *args: Any) -> None:
        self.desk.check_update("resume", args)

    @workflow.signal(
        name="withdraw", description="Close a question: {'target': '<interrupt id>', 'reason': …}"
    )
    def withdraw_signal(self, *args: Any) -> None:
        self.desk.signal("withdraw", args)

    @workflow.update(name="withdraw", description="Close a question without running what it asks about.")
    def withdraw_update(self, *args: Any) -> ResumeReply:
        return self.desk.update("withdraw", args)

    @withdraw_update.validator
    def _check_withdraw(self, *args: Any) -> None:
        self.desk.check_update("withdraw", args)

    @workflow.signal(dynamic=True, description="A signal named by an interrupt id carries its decision.")
    def any_signal(self, name: str, args: Sequence[RawValue]) -> None:
        self.desk.signal(name, args)

    @workflow.update(dynamic=True, description="An update named by an interrupt id carries its decision.")
    def any_update(self, name: str, args: Sequence[RawValue]) -> ResumeReply:
        return self.desk.update(name, args)

    @any_update.validator
    def _check_any(self, name: str, args: Sequence[RawValue]) -> None:
        self.desk.check_update(name, args)

    @workflow.query(name="pending", description="What waits for a person: {} or {'id': '<interrupt id>'}")
    def pending_query(self, *args: Any) -> PendingPage:
        return self.desk.pending(asked(PendingQuery, args))

    @workflow.query(name="interrupts", description="What waits, and what was decided lately.")
    def interrupts_query(self, *args: Any) -> InterruptsPage:
        return self.desk.interrupts()

    @workflow.query(name="audit", description="Who decided what, and which attempts were refused.")
    def audit_query(self, *args: Any) -> Audit:
        return self.desk.audit()


Q = TypeVar("Q")


def asked(model: type[Q], args: Sequence[Any]) -> Q:
    """The query in a query's arguments; anything that is none counts as the empty one, since queries never raise."""
    try:
        return parse(model, args[0])  # type: ignore[type-var]
    except (BadInput, IndexError):
        return model()


def _content_problem(interrupt: Interrupt, decision: Decision) -> str | None:
    match decision, interrupt.question:
        case Edit(arguments=arguments), Review(parameters=parameters):
            return problem(parameters, arguments)
        case Resume(data=data), Custom(expects=dict() as expects):
            return problem(expects, data)
        case _:
            return None


def _all_reasons(refused: dict[str, DecisionRefused]) -> DecisionRefused:
    first, *others = refused.values()
    if not others:
        return first
    said = [str(reason) for reason in refused.values()]
    more = f"; and {len(said) - MAX_REASONS} more" if len(said) > MAX_REASONS else ""
    return type(first)("; ".join(said[:MAX_REASONS]) + more)


def _next_moment(interrupt: Interrupt) -> datetime | None:
    """The next reminder or deadline of an open question."""
    deadline = interrupt.deadline
    if deadline is None or interrupt.expires is None:
        return None
    reminders = [interrupt.created + timedelta(seconds=after) for after in sorted(deadline.reminders)]
    return min([*reminders[interrupt.reminded : interrupt.reminded + 1], interrupt.expires])


@dataclass(frozen=True)
class _Published:
    """What visibility shows of a run."""

    agent: str | None = None
    status: str | None = None
    pending: tuple[str, ...] = ()
    count: int = 0
    approvers: tuple[str, ...] = ()
    waiting_since: datetime | None = None

    @classmethod
    def found(cls) -> "_Published":
        """What an earlier page, or the client that started the run, has written already."""
        found = workflow.info().typed_search_attributes
        return cls(
            agent=found.get(AGENT),
            status=found.get(STATUS),
            pending=tuple(found.get(PENDING) or ()),
            count=found.get(PENDING_COUNT) or 0,
            approvers=tuple(found.get(APPROVERS) or ()),
            waiting_since=found.get(WAITING_SINCE),
        )

    @classmethod
    def of(cls, waiting: list[Interrupt], agent: str) -> "_Published":
        return cls(
            agent=agent,
            status="waiting" if waiting else "running",
            pending=_clamped(interrupt.id for interrupt in waiting),
            count=len(waiting),
            approvers=_clamped(dict.fromkeys(name for interrupt in waiting for name in interrupt.approvers)),
            waiting_since=min((interrupt.created for interrupt in waiting), default=None),
        )

    def since(self, before: "_Published") -> list[SearchAttributeUpdate[Any]]:
        """The changes that lead here from *before*."""
        updates: list[SearchAttributeUpdate[Any]] = []
        changes: tuple[tuple[SearchAttributeKey[Any], Any, Any], ...] = (
            (AGENT, self.agent, before.agent),
            (STATUS, self.status, before.status),
            (PENDING, list(self.pending), list(before.pending)),
            (PENDING_COUNT, self.count, before.count),
            (APPROVERS, list(self.approvers), list(before.approvers)),
            (WAITING_SINCE, self.waiting_since, before.waiting_since),
        )
        for key, now, then in changes:
            if now != then:
                unset = now is None or now == []
                updates.append(key.value_unset() if unset else key.value_set(now))
        return updates


def _clamped(values: Iterable[str]) -> tuple[str, ...]:
    """As many of *values* as the server stores for a run that it does not terminate."""
    kept: list[str] = []
    size = 2
    for value in values:
        size += len(json.dumps(value)) + 2
        if size > MAX_ATTRIBUTE_BYTES:
            break
        kept.append(value)
    return tuple(kept)


def _details(waiting: list[Interrupt]) -> str:
    """What the Temporal UI shows of a run that waits: flat bullets, since its box is narrow and nests none."""
    if not waiting:
        return ""
    lines = [f"**Waiting for {len(waiting)} decision{'s' if len(waiting) > 1 else ''}.**"]
    for interrupt in waiting[:MAX_DETAILS]:
        lines += ["", *_paragraph(interrupt)]
    if len(waiting) > MAX_DETAILS:
        lines += ["", f"And {len(waiting) - MAX_DETAILS} more."]
    return "\n".join(lines)


def _paragraph(interrupt: Interrupt) -> list[str]:
    since = interrupt.created.isoformat(timespec="seconds")
    until = f", until {interrupt.expires.isoformat(timespec='seconds')}" if interrupt.expires else ""
    question = interrupt.question
    # What is decided comes first and by itself: long reasons of a model would push it out of sight.
    asked = question.model_dump(mode="json", exclude={"kind", "because", "result", "parameters"})
    answers = [{"targets": {interrupt.id: answer}} for answer in examples(question)]
    return [
        f"### `{interrupt.id}`",
        "",
        f"- {question.kind}, since {since}{until}",
        f"- asks {_code(asked, 1_000)}",
        *([f"- what it gave {_code(question.result, 500)}"] if question.result is not None else []),
        *([f"- in the words of the model {_code(question.because, 300)}"] if question.because else []),
        "- to answer, send the update or signal **resume** with one of",
        *(f"- {_code(answer, 500)}" for answer in answers),
    ]


def _code(value: Any, most: int) -> str:
    """*value* in one line of code, whatever is in it: backticks of a model must not end it and go on as the page."""
    text = clip(json.dumps(value, ensure_ascii=False), most)
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"
