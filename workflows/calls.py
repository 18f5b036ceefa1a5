"""A tool call from its arguments to its outcome: through its gates, into its activity, and back as often as it asks."""

from typing import Any

from pydantic import TypeAdapter, ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from converter import Undecodable
    from protocol import strict_json, texts
    from protocol.address import MAX_BYTES, Address, Segment, check_name, interrupt_id
    from protocol.agents import FOLLOW_UP, MAX_RESULT, Gate, ToolSpec
    from protocol.board import answer_of
    from protocol.errors import BadAddress
    from protocol.interrupts import Answer as Answered
    from protocol.interrupts import Closed, Custom, FollowUp, Resume, digest_of
    from protocol.run import Call, Part
    from protocol.work import (
        MAX_ASKED_BYTES,
        Again,
        Finished,
        Gated,
        Given,
        Interrupted,
        PartAsked,
        ToolInput,
        ToolReply,
        Unusable,
    )
    from workflows import gates
    from workflows.gates import Run, Told
    from workflows.scope import Scope, reason_of

NOT_REGISTERED = "is not registered on this worker, available activities"
"""How the Python SDK says that a worker does not know an activity."""

SHUT_DOWN = ("Worker is shutting down", "Worker shutting down")
"""How the SDK says that a worker went away before the end of an activity."""

_REPLY: TypeAdapter[Finished | Unusable | Gated | Interrupted] = TypeAdapter(ToolReply)


async def call_tool(
    me: Scope, call: Call, address: Address, tool: ToolSpec, arguments: dict[str, Any], *, stops: bool = True
) -> Told:
    """Take a call to its end: before, gate, tool, after, each with its own question where one is asked.

    A step has its breakpoints as a node, around this (``stops=False``).
    """

    async def asks_user(arguments: dict[str, Any]) -> Told:
        return await _follow_up(me, call, address, tool, arguments)

    async def works(arguments: dict[str, Any]) -> Told:
        return await _until_finished(me, call, address, tool, arguments)

    run: Run = asks_user if tool.type == FOLLOW_UP else works
    if stops and me.stops_after(address):
        run = gates.after(me, call, address, tool, run)
    if tool.gate is not None and not tool.gate.conditional:
        run = gates.gate(me, call, address, tool, tool.gate, run)
    if stops and me.stops_before(address):
        run = gates.before(me, call, address, tool, run)
    return await run(arguments)


async def _follow_up(
    me: Scope, call: Call, address: Address, tool: ToolSpec, arguments: dict[str, Any]
) -> Told:
    """The tool whose result is a person's answer."""
    questions = tuple(str(question) for question in arguments.get("questions", ()))
    question = FollowUp(questions=questions, because=gates.because(me), when="tool")
    answer = await me.ask(call, address, question, deadline=tool.deadline)
    match answer:
        case Answered(answer=str() as text):
            return Told(text, "done")
        case Answered(answers=tuple() as answers):
            return Told(texts.answered(questions, answers), "done")
        case _:
            refusal = gates.refused(answer, tool.name)
            return gates.noted(call, refusal or Told(texts.expired(tool.name), "expired"))


async def _until_finished(
    me: Scope, call: Call, address: Address, tool: ToolSpec, arguments: dict[str, Any]
) -> Told:
    """Run the tool, ask what it asks, and run it again with the answers, until it is done."""
    while True:
        if call.interrupted is not None and not call.given:
            ended = await _answers(me, call, tool)
            if ended is not None:
                return gates.noted(call, ended)
        effective = arguments if call.effective is None else call.effective
        try:
            given = await me.run.work(tool, _input(me, call, address, tool, effective))
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return _failed(me, call, address, tool, error)
        match _reply(given, tool):
            case Finished(text=text):
                _close_parts(me, call)
                told = Told(texts.shortened(text or texts.EMPTY_TEXT, tool.max_result), "done")
                return gates.as_consented(call, told) if "condition" in call.passed else told
            case Unusable(problem=problem):
                return Told(texts.bad_arguments(tool.name, problem), "failed")
            case Gated():
                ended = await _held_back(me, call, address, tool, effective)
                if ended is not None:
                    return gates.noted(call, ended)
            case Interrupted() as stop:
                wrong = _open_parts(me, call, address, tool, stop)
                if wrong is not None:
                    _close_parts(me, call)
                    return Told(texts.failed(tool.name, wrong), "failed")


def _input(me: Scope, call: Call, address: Address, tool: ToolSpec, arguments: dict[str, Any]) -> ToolInput:
    stop = call.interrupted
    again = (
        None if stop is None else Again(has_state=stop.has_state, state=stop.state, given=dict(call.given))
    )
    return ToolInput(
        address=str(address),
        arguments=arguments,
        key=me.run.key(str(address), arguments),
        released="condition" in call.passed,
        max_result=None if tool.max_result == MAX_RESULT else tool.max_result,
        again=again,
    )


def _reply(given: Any, tool: ToolSpec) -> Finished | Unusable | Gated | Interrupted:
    """What a tool's activity gave. A tool served by anybody may give any JSON: a text, or data."""
    if isinstance(given, dict) and "outcome" in given:
        try:
            return _REPLY.validate_json(strict_json.compact(given))
        except ValidationError:
            pass
    if given is None:
        return Finished(text=texts.NOTHING)
    if isinstance(given, str):
        return Finished(text=given)
    try:
        return Finished(text=strict_json.compact(given))
    except (TypeError, ValueError):
        why = given.reason if isinstance(given, Undecodable) else f"{type(given).__name__} is no JSON"
        return Finished(text=texts.unreadable(tool.name, why))


def _failed(me: Scope, call: Call, address: Address, tool: ToolSpec, error: ActivityError) -> Told:
    _close_parts(me, call)
    fails = tool.on_error == "fail"
    cause = error.cause
    if isinstance(cause, TimeoutError) or (
        isinstance(cause, ApplicationError) and cause.message.startswith(SHUT_DOWN)
    ):
        if call.asked:
            me.run.desk.board.restate(interrupt_id(address, call.asked), "unknown")
        for name in call.given:
            if name:
                place = Address((*address.segments, Segment(name)))
                me.run.desk.board.restate(interrupt_id(place, call.parts_asked[name]), "unknown")
        return Told(texts.OUTCOME_UNKNOWN, "unknown", fails)
    if (
        isinstance(cause, ApplicationError)
        and cause.type == "NotFoundError"
        and NOT_REGISTERED in cause.message
    ):
        return Told(texts.not_served(tool.name), "failed", fails)
    return Told(texts.failed(tool.name, reason_of(error)), "failed", fails)


async def _held_back(
    me: Scope, call: Call, address: Address, tool: ToolSpec, arguments: dict[str, Any]
) -> Told | None:
    """The tool's own condition held it back: ask as its gate says. Nothing if it may run now."""
    rule = tool.gate or Gate(kind="approval")
    if rule.kind == "deny" or "condition" in call.passed:
        return Told(texts.disapproved(tool.name, rule.reason), "rejected")
    key = gates.remembered_as(me, tool, rule, arguments)
    if key not in me.run.state.remembered:
        question = gates.gate_question(me, tool, rule, arguments)
        answer = await me.ask(call, address, question, deadline=rule.deadline, approvers=rule.approvers)
        refusal = gates.refused(answer, tool.name)
        if refusal is not None:
            return refusal
        gates.consent(me, call, tool.name, arguments, answer, key)
    call.passed.append("condition")
    return None


# ------------------------------------------------------------------------------------ questions from inside


def _open_parts(me: Scope, call: Call, address: Address, tool: ToolSpec, stop: Interrupted) -> str | None:
    """Put up what the tool asks, or say why that cannot be. A part asked again undecided with equal info stays."""
    if stop.problem is not None and call.interrupted is not None:
        return _ask_again(me, call, address, tool, stop)
    wanted = {"": PartAsked(info=stop.info, expects=stop.expects)} if stop.parts is None else stop.parts
    problem = _unaskable(stop)
    if problem is not None:
        return problem
    call.interrupted = stop
    call.given = {}  # it was told these; what it asks now is new
    standing = {part.part: part for part in call.parts}
    call.parts = []
    for name, part in standing.items():
        if name not in wanted:
            _drop(me, part, "withdrawn")
    for name, asked in wanted.items():
        question = _custom(me, tool, asked)
        old = standing.get(name)
        if old is not None and old.digest == digest_of(question):
            call.parts.append(old)
            continue
        if old is not None:
            _drop(me, old, "superseded")
        problem = _open_part(me, call, address, name, question, tool)
        if problem is not None:
            return problem
    return None


def _unaskable(stop: Interrupted) -> str | None:
    """Why these questions cannot be put up. Our tools are held to it where they run; others are served by anybody."""
    if stop.parts == {}:
        return "it asked for no parts"
    try:
        for name in stop.parts or ():
            check_name(name)
    except BadAddress as error:
        return f"an interrupt cannot be asked: {error}"
    if len(stop.model_dump_json().encode()) > MAX_ASKED_BYTES:
        return f"its question and state are larger than {MAX_ASKED_BYTES // 1024} KB"
    return None


def _ask_again(me: Scope, call: Call, address: Address, tool: ToolSpec, stop: Interrupted) -> str | None:
    """The data of one answer did not fit the tool: its question is asked anew, and the call is not spent."""
    last, name = call.interrupted, stop.problem_part
    assert last is not None
    if call.given.pop(name, None) is None:
        return stop.problem  # it was given no such answer
    asked = PartAsked(info=last.info, expects=last.expects) if last.parts is None else last.parts.get(name)
    if asked is None:
        return stop.problem
    return _open_part(
        me, call, address, name, _custom(me, tool, asked, texts.part_problem(stop.problem or "")), tool
    )


def _open_part(
    me: Scope, call: Call, address: Address, name: str, question: Custom, tool: ToolSpec
) -> str | None:
    place = address if not name else Address((*address.segments, Segment(name)))
    if name:
        nth = call.parts_asked[name] = call.parts_asked.get(name, 0) + 1
    else:
        call.asked += 1
        nth = call.asked
    id = interrupt_id(place, nth)
    if len(id.encode()) > MAX_BYTES + 8:
        return f"the name of its part '{name}' is too long here"
    me.run.desk.open(id, question, owner=str(me), deadline=tool.deadline)
    same = digest_of(question.model_copy(update={"problem": None}))
    call.parts.append(Part(interrupt=id, part=name, digest=same))
    return None


def _custom(me: Scope, tool: ToolSpec, asked: PartAsked, problem: str | None = None) -> Custom:
    return Custom(
        tool=tool.name,
        info=asked.info,
        expects=asked.expects,
        because=gates.because(me),
        when="tool",
        problem=problem,
    )


async def _answers(me: Scope, call: Call, tool: ToolSpec) -> Told | None:
    """Wait until at least one question is answered, and collect every answer there is.

    The end of the call, if nothing of it can be answered any more.
    """
    desk = me.run.desk
    while True:
        for part in [part for part in call.parts if not part.closed]:
            interrupt = desk.board.interrupts[part.interrupt]
            if interrupt.is_open:
                continue
            match answer_of(interrupt):
                case Resume(data=data):
                    call.given[part.part] = Given(data=data)
                    call.parts.remove(part)
                case Closed(lets_through=True):
                    call.given[part.part] = Given()
                    call.parts.remove(part)
                case Closed() as closed:
                    part.closed = closed
                case _:  # no other decision fits a custom question
                    part.closed = Closed(outcome="withdrawn")
            desk.board.forget(part.interrupt)
        if call.given:
            return None
        waiting = [part for part in call.parts if not part.closed]
        if not waiting:
            ends = next((part.closed for part in call.parts if part.closed is not None), None)
            return gates.refused(ends or Closed(outcome="withdrawn"), tool.name)
        await desk.first_closed([part.interrupt for part in waiting])


def _drop(me: Scope, part: Part, outcome: str) -> None:
    """A question that the tool does not ask any more, open or answered too late to be told."""
    desk = me.run.desk
    interrupt = desk.board.interrupts.get(part.interrupt)
    if interrupt is None:
        return
    if interrupt.is_open:
        desk.close(part.interrupt, outcome)
    else:
        desk.board.restate(part.interrupt, "unused")
    desk.board.forget(part.interrupt)


def _close_parts(me: Scope, call: Call) -> None:
    """The call is over: what it still asked is withdrawn, what it was never told is unused."""
    for part in call.parts:
        _drop(me, part, "withdrawn")
    call.parts = []
