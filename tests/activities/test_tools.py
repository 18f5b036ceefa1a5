"""Tools as a worker runs them: what the model is offered, what it is told, and how they stop to ask."""

import asyncio
import json
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.tools import (
    CompositeInterrupt,
    FunctionTool,
    Interrupt,
    StatefulInterrupt,
    Toolbox,
    WrongType,
    idempotency_key,
    interrupt_state,
    resume_context,
    tool,
)
from protocol import texts
from protocol.agents import MAX_RESULT, Deadline, Gate
from protocol.errors import BadAddress, BadInput
from protocol.work import (
    MAX_ASKED_BYTES,
    Again,
    Finished,
    Gated,
    Given,
    Interrupted,
    ToolInput,
    ToolReply,
    Unusable,
)

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


async def run(function: FunctionTool | Callable[..., Any], arguments: Any = None, **more: Any) -> ToolReply:
    """Run a tool as its activity would; what it says of the outcome."""
    made = function if isinstance(function, FunctionTool) else tool(name="made")(function)
    return await made.run(
        ToolInput(**{"address": "bank>pay:call_1", "arguments": arguments or {}, "key": "k", **more})
    )


async def told(function: FunctionTool | Callable[..., Any], arguments: Any = None, **more: Any) -> str:
    reply = await run(function, arguments, **more)
    assert isinstance(reply, Finished)
    return reply.text


async def failed(function: FunctionTool | Callable[..., Any], arguments: Any = None) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await run(function, arguments)
    assert caught.value.message
    assert caught.value.__cause__ is None
    return caught.value


async def asked(function: FunctionTool | Callable[..., Any], again: Again | None = None) -> Interrupted:
    reply = await run(function, again=again)
    assert isinstance(reply, Interrupted)
    return reply


def resumed(data: Any = None, *, part: str = "", **more: Any) -> Again:
    return Again(given={part: Given(data=data)}, **more)


class Address(BaseModel):
    city: str
    zip: int


class ApprovalResult(BaseModel):
    approved: bool
    comment: str = ""


@dataclass
class Transfer:
    amount: Decimal
    at: datetime


# ------------------------------------------------------------------------------------ what the model is offered


def test_a_function_is_offered_with_its_name_docstring_and_signature() -> None:
    @tool
    def pay(
        to: Annotated[Address, Field(description="Where it goes")],
        amount: Annotated[float, Field(gt=0)],
        kind: Literal["wire", "card"] = "wire",
    ) -> str:
        """Pay somebody,
        at once.

        Not for the model.
        """
        return ""

    assert pay.spec.name == "pay"
    assert pay.spec.type == "pay"
    assert pay.spec.description == "Pay somebody, at once."
    assert pay.spec.parameters == {
        "$defs": {
            "Address": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
                "required": ["city", "zip"],
            }
        },
        "type": "object",
        "properties": {
            "to": {"$ref": "#/$defs/Address", "description": "Where it goes"},
            "amount": {"type": "number", "exclusiveMinimum": 0},
            "kind": {"type": "string", "enum": ["wire", "card"], "default": "wire"},
        },
        "required": ["to", "amount"],
        "additionalProperties": False,
    }


def test_titles_are_dropped_where_they_are_titles_only() -> None:
    @tool
    def search(title: str, properties: dict[str, str] = {"title": "any"}) -> str:  # noqa: B006
        return ""

    properties = search.spec.parameters["properties"]
    assert properties["title"] == {"type": "string"}
    assert properties["properties"]["default"] == {"title": "any"}


def test_a_tool_without_parameters_has_a_schema_of_an_object() -> None:
    def now() -> str:
        return ""

    assert tool(now).spec.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_tool_is_still_its_function() -> None:
    @tool
    def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    assert double(4) == 8
    assert double.__doc__ == "Twice as much."


def test_gates_are_written_into_the_spec() -> None:
    def pay(amount: float) -> str:
        return ""

    by_hand = Gate(kind="review", deadline=Deadline(after=5))
    assert tool(pay).spec.gate is None
    assert tool(approval=True)(pay).spec.gate == Gate(kind="approval")
    assert tool(approval=lambda args: args.amount > 1)(pay).spec.gate == Gate(
        kind="approval", conditional=True
    )
    assert tool(review=True)(pay).spec.gate == Gate(kind="review")
    assert tool(deny=True)(pay).spec.gate == Gate(kind="deny")
    assert tool(review=by_hand)(pay).spec.gate == by_hand


def test_a_function_that_cannot_be_a_tool_is_refused_by_name() -> None:
    def many(*numbers: int) -> str:
        return ""

    def untyped(n) -> str:  # type: ignore[no-untyped-def]
        return ""

    def hidden(_n: int) -> str:
        return ""

    def fine(n: int) -> str:
        return ""

    for function, said in (
        (many, "takes \\*args"),
        (untyped, "'n'.*no type"),
        (hidden, "'_n'.*another name"),
    ):
        with pytest.raises(BadInput, match=said):
            tool(function)
    with pytest.raises(BadInput, match="two gates"):
        tool(approval=True, review=True)(fine)
    with pytest.raises(BadInput, match="reserved"):
        tool(name="transfer_to_agent")(fine)
    with pytest.raises(BadAddress, match="may hold only"):
        tool(name="pay now")(fine)


async def test_parameters_may_have_the_names_of_pydantic_methods() -> None:
    def export(
        json: str, copy: int, schema: str, model_id: int, model_dump: int, model_extra: int
    ) -> list[Any]:
        return [json, copy, schema, model_id, model_dump, model_extra]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tool(export)
    arguments = {"json": "j", "copy": 1, "schema": "s", "model_id": 2, "model_dump": 3, "model_extra": 4}
    assert await told(made, arguments) == '["j",1,"s",2,3,4]'


def test_two_functions_under_one_activity_type_are_refused() -> None:
    def lookup(n: int) -> str:
        return ""

    first, again = tool(lookup), tool(lookup)
    other = tool(name="lookup")(lambda: "")
    Toolbox([first, first, again]).activities()
    with pytest.raises(BadInput, match="'lookup'"):
        Toolbox([first, other])
    Toolbox([first, tool(name="lookup", activity_type="lookup_orders")(lambda: "")])


# ------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"amount": 5, "to": "Bo", "force": True, "sudo": 1}, "unknown field 'force'; unknown field 'sudo'"),
        ({"amount": 5}, "field 'to' is missing"),
        ({"amount": -5, "to": "Bo"}, "amount: Input should be greater than 0"),
        ({"amount": "much", "to": "Bo"}, "amount: "),
        ({"amount": None, "to": "Bo"}, "amount: "),
        ({"amount": math.nan, "to": "Bo"}, "ValueError: "),
        ({"amount": 5, "to": "nobody"}, "KeyError: 'nobody'"),
    ],
    ids=str,
)
async def test_unusable_arguments_are_explained_and_nothing_runs(
    arguments: dict[str, Any], said: str
) -> None:
    """B087."""
    paid = []

    def known(name: str) -> str:
        return {"Bo": "Bo"}[name]

    @tool
    def pay(amount: Annotated[float, Field(gt=0)], to: Annotated[str, AfterValidator(known)]) -> None:
        paid.append(to)

    reply = await run(pay, arguments)
    assert isinstance(reply, Unusable)
    assert said in reply.problem
    assert "\n" not in reply.problem
    assert paid == []


async def test_arguments_arrive_as_the_types_of_the_signature() -> None:
    arrived: list[Any] = []

    @tool
    def move(to: Address, at: datetime, amount: Decimal, tags: set[str], note: str = "none") -> None:
        arrived.extend([to, at, amount, tags, note])

    await run(
        move,
        {"to": {"city": "北京", "zip": 1}, "at": "2025-01-01T00:00:00Z", "amount": "0.10", "tags": ["a"]},
    )
    city, at = Address(city="北京", zip=1), datetime(2025, 1, 1, tzinfo=UTC)
    assert arrived == [city, at, Decimal("0.10"), {"a"}, "none"]


@pytest.mark.parametrize(
    ("amount", "outcome"),
    [
        (999.99, Finished),
        (1000, Finished),
        (1000.01, Gated),
        ("5000", Gated),
        (1e3, Finished),
        (-5000, Finished),
        (None, Unusable),
        (..., Unusable),
        ([5000], Unusable),
        (10**30, Gated),
    ],
    ids=str,
)
async def test_a_condition_sees_validated_arguments(amount: Any, outcome: type) -> None:
    """B150."""

    @tool(approval=lambda args: args.amount > 1000)
    def pay(amount: float) -> str:
        return "paid"

    assert isinstance(await run(pay, {} if amount is ... else {"amount": amount}), outcome)


@pytest.mark.parametrize("error", [ZeroDivisionError(), AttributeError("amuont"), ValueError("no")], ids=repr)
async def test_a_condition_that_fails_asks(error: Exception) -> None:
    """B150."""

    def condition(args: Any) -> bool:
        raise error

    @tool(approval=condition)
    def pay(amount: float) -> str:
        return "paid"

    assert await run(pay, {"amount": 1}) == Gated()


async def test_what_a_person_released_is_not_held_back_again() -> None:
    @tool(review=lambda args: True)
    def pay(amount: float) -> str:
        return "paid"

    assert await run(pay, {"amount": 1}) == Gated()
    assert await told(pay, {"amount": 1}, released=True) == "paid"
    assert isinstance(await run(pay, {"amount": "x"}), Unusable)  # before anybody is asked


# --------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain é السلام", "plain é السلام"),
        ("", texts.EMPTY_TEXT),
        (None, texts.NOTHING),
        (0, "0"),
        (False, "false"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ({"b": 1, "a": "预算"}, '{"b":1,"a":"预算"}'),
        ({3}, "[3]"),
        (datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC), '"2025-01-02T03:04:05Z"'),
        (b"bytes", '"bytes"'),
        (Decimal("0.1"), '"0.1"'),
        (Address(city="北京", zip=1), '{"city":"北京","zip":1}'),
        ([Transfer(Decimal("1"), datetime(2025, 1, 1))], '[{"amount":"1","at":"2025-01-01T00:00:00"}]'),
        ("half \ud83d of one", "half ? of one"),
    ],
    ids=repr,
)
async def test_every_result_has_a_text(result: Any, text: str) -> None:
    """B117, B131."""
    assert await told(lambda: result) == text


def round_in_a_ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    "result",
    [object(), b"\xff\xfe", {"half": "\ud83d"}, round_in_a_ring(), threading.Lock(), {1: object()}],
    ids=["object", "bytes", "half a character", "ring", "lock", "inside"],
)
async def test_a_result_without_a_text_is_an_error_of_that_call(result: Any) -> None:
    """B117."""
    assert (await failed(lambda: result)).message


@pytest.mark.parametrize(
    "text",
    ["x" * 3_000_000, "\U0001f600" * 3_000_000, f"{FAMILY}é" * 600_000],
    ids=["3 MB", "emoji", "families"],
)
async def test_a_large_result_is_shortened_and_says_so(text: str) -> None:
    """B122."""
    shown = await told(lambda: text)
    assert len(shown) <= MAX_RESULT
    assert len(shown.encode()) < 1_000_000
    head, _, rest = shown.partition("\n[… ")
    hidden, _, tail = rest.partition(" characters hidden; ask for a smaller part …]\n")
    assert len(head) + int(hidden) + len(tail) == len(text)
    assert texts.shortened(shown, MAX_RESULT) == shown  # the workflow cuts what other workers give
    assert shown.startswith(text[:1000])
    assert shown.endswith(text[-1000:])


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 10, 99])
async def test_a_result_is_shortened_to_any_length(most: int) -> None:
    """B122."""
    shown = await told(lambda: "0123456789" * 10, max_result=most)
    head, _, rest = shown.partition("\n[… ")
    hidden, _, tail = rest.partition(" characters hidden; ask for a smaller part …]\n")
    assert len(head) + len(tail) + int(hidden) == 100
    assert len(head) + len(tail) <= most


async def test_a_result_at_the_limit_stays_whole() -> None:
    assert await told(lambda: "x" * MAX_RESULT) == "x" * MAX_RESULT


# ---------------------------------------------------------------------------------------------------- errors


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Rude(BaseException):
    pass


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def async_raising(error: BaseException) -> Callable[[], Any]:
    async def function() -> None:
        raise error

    return function


@pytest.mark.parametrize("kind", [raising, async_raising], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError(), "ValueError"),
        (ValueError("  "), "ValueError"),
        (ValueError("no such account: 王"), "ValueError: no such account: 王"),
        (KeyError("amount"), "KeyError: 'amount'"),
        (Unspeakable(), "Unspeakable"),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError(), "TimeoutError"),
        (StopIteration(), "RuntimeError: "),
        (SystemExit(2), "SystemExit: 2"),
        (Rude("go away"), "Rude: go away"),
        (ValueError("half \ud83d of one"), "ValueError: half ? of one"),
        (ApplicationError("closed", non_retryable=True), "ApplicationError: closed"),
    ],
    ids=repr,
)
async def test_every_failure_has_words(kind: Callable[..., Any], error: BaseException, text: str) -> None:
    """B015."""
    async with asyncio.timeout(10):
        assert (await failed(kind(error))).message.startswith(text)


async def test_a_failure_of_any_size_fits_a_payload() -> None:
    """B015, B122."""
    failure = await failed(raising(ValueError("x" * 5_000_000)))
    assert len(failure.message) < 5_000


async def test_a_failure_says_where_it_happened() -> None:
    failure = await failed(raising(ValueError("x")))
    frames = []
    place = failure.__traceback__
    while place is not None:
        frames.append(place.tb_frame.f_code.co_name)
        place = place.tb_next
    assert frames[-1] == "function"


async def test_a_sync_tool_that_runs_out_of_an_iterator_ends() -> None:
    """A future cannot hold a StopIteration: unconverted, the call would never end."""

    def first() -> int:
        nothing: Iterator[int] = iter(())
        return next(nothing)

    async with asyncio.timeout(5):
        assert "StopIteration" in (await failed(first)).message


async def test_a_cancelled_activity_ends_as_cancelled() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        started.set()
        await asyncio.sleep(60)
        return "late"

    environment = ActivityEnvironment()
    with ThreadPoolExecutor(1) as threads:
        call = ToolInput(address="a>wait:1", arguments={}, key="k")
        running = asyncio.ensure_future(environment.run(wait.activity(threads), call))
        await started.wait()
        environment.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


# --------------------------------------------------------------------------------------------- how they run


async def test_sync_tools_run_in_threads_and_async_tools_in_the_loop() -> None:
    def there() -> str:
        return threading.current_thread().name

    async def here() -> str:
        return threading.current_thread().name

    call = ToolInput(address="a>b:1", arguments={}, key="k")
    with ThreadPoolExecutor(1, thread_name_prefix="tool") as threads:
        assert (await tool(there).run(call, threads)) == Finished(text="tool_0")
    assert await told(here) == threading.current_thread().name


async def test_sync_tools_run_side_by_side() -> None:
    together = threading.Barrier(3, timeout=10)

    @tool
    def meet() -> str:
        together.wait()
        return "met"

    assert await asyncio.gather(*(told(meet) for _ in range(3))) == ["met"] * 3


async def test_a_sync_function_may_return_something_to_await() -> None:
    async def later() -> str:
        return "in the end"

    assert await told(lambda: later()) == "in the end"


async def test_tools_of_a_worker_are_activities_of_their_own_type() -> None:
    @tool(activity_type="billing.pay")
    def pay(amount: float) -> str:
        return f"paid {amount}"

    [activity] = Toolbox([pay]).activities()
    call = ToolInput(address="bank>pay:call_1", arguments={"amount": 5}, key="k")
    assert await ActivityEnvironment().run(activity, call) == Finished(text="paid 5.0")
    assert pay.spec.type == "billing.pay"


async def test_a_running_tool_knows_its_idempotency_key() -> None:
    assert await told(idempotency_key, key="0f3a") == "0f3a"

    async def nested() -> str:
        return await asyncio.to_thread(idempotency_key)

    assert await told(nested, key="0f3a") == "0f3a"
    with pytest.raises(RuntimeError, match="inside a running tool"):
        idempotency_key()


# -------------------------------------------------------------------------------------- stopping from inside


async def test_an_interrupt_is_a_question_and_no_failure() -> None:
    assert await asked(raising(Interrupt({"why": "预算"}))) == Interrupted(info={"why": "预算"})
    assert await asked(raising(Interrupt())) == Interrupted()


async def test_an_except_of_the_tool_does_not_swallow_an_interrupt() -> None:
    def careful() -> str:
        try:
            raise Interrupt("sure?")
        except Exception:
            return "swallowed"

    assert await asked(careful) == Interrupted(info="sure?")


async def test_an_interrupt_carries_any_type_with_a_json_form() -> None:
    @dataclass
    class Question:
        at: datetime
        to: Address

    info = Question(datetime(2025, 1, 1), Address(city="北京", zip=1))
    stopped = await asked(raising(StatefulInterrupt(info, {Decimal("0.1")}, expects=ApprovalResult)))
    assert stopped == Interrupted(
        info={"at": "2025-01-01T00:00:00", "to": {"city": "北京", "zip": 1}},
        has_state=True,
        state=["0.1"],
        expects=ApprovalResult.model_json_schema(),
    )


async def test_a_state_of_nothing_is_a_state() -> None:
    stopped = await asked(raising(StatefulInterrupt("sure?", None)))
    assert (stopped.has_state, stopped.state) == (True, None)


async def test_a_composite_interrupt_asks_one_question_for_each_part() -> None:
    stopped = await asked(
        raising(CompositeInterrupt("batch", [1], parts={"a": {"n": 1}, "b": None}, expects=bool))
    )
    assert stopped.parts is not None
    assert {name: part.info for name, part in stopped.parts.items()} == {"a": {"n": 1}, "b": None}
    assert stopped.parts["a"].expects == {"type": "boolean"}
    assert (stopped.info, stopped.state) == ("batch", [1])


@pytest.mark.parametrize(
    "interrupt",
    [
        Interrupt(object()),
        Interrupt(float("nan")),
        Interrupt({"half": "\ud83d"}),
        Interrupt("x", expects=threading.Lock),
        StatefulInterrupt("x", object()),
        StatefulInterrupt("x", "x" * MAX_ASKED_BYTES),
        Interrupt("预" * (MAX_ASKED_BYTES // 2)),
        CompositeInterrupt("x", None, parts={"no name": 1}),
        CompositeInterrupt("x", None, parts={"a": object()}),
    ],
    ids=[
        "info",
        "nan",
        "half a character",
        "expects",
        "state",
        "large state",
        "large info",
        "part name",
        "part info",
    ],
)
async def test_an_interrupt_that_cannot_be_asked_is_a_failure_in_words(interrupt: Interrupt) -> None:
    assert (await failed(raising(interrupt))).message


class TransferState(BaseModel):
    amount: float
    asked: int


async def three_phases() -> str:
    """The three-phase tool: interrupt; resumed and meant, act; resumed but not meant, interrupt again."""
    previous = interrupt_state(TransferState)
    if not previous.was_interrupted:
        raise StatefulInterrupt({"amount": 5}, TransferState(amount=5, asked=1), expects=ApprovalResult)
    state = previous.state
    assert state is not None
    resume = resume_context(ApprovalResult)
    if not resume.is_target:
        raise StatefulInterrupt(
            {"amount": state.amount}, TransferState(amount=state.amount, asked=state.asked + 1)
        )
    if resume.data is None or not resume.data.approved:
        return f"disapproved: {resume.data.comment if resume.data else 'no data'}"
    return f"moved {state.amount}, asked {state.asked} times"


async def test_the_three_phase_tool_of_the_articles_works() -> None:
    first = await asked(three_phases)
    assert (first.info, first.state) == ({"amount": 5}, {"amount": 5, "asked": 1})

    second = await asked(three_phases, Again(has_state=True, state=first.state))
    assert (second.info, second.state) == ({"amount": 5}, {"amount": 5, "asked": 2})

    def answered(data: Any) -> Again:
        return resumed(data, has_state=True, state=second.state)

    assert await told(three_phases, again=answered({"approved": True})) == "moved 5.0, asked 2 times"
    assert await told(three_phases, again=answered({"approved": False, "comment": "no"})) == "disapproved: no"
    assert await told(three_phases, again=answered(None)) == "disapproved: no data"


async def test_a_tool_that_was_never_interrupted_knows_so() -> None:
    def look() -> list[Any]:
        state, resume = interrupt_state(), resume_context()
        return [state.was_interrupted, state.has_state, resume.is_target, resume.has_data]

    assert await told(look) == "[false,false,false,false]"
    assert await told(look, again=Again()) == "[true,false,false,false]"
    assert await told(look, again=resumed()) == "[true,false,true,false]"
    assert await told(look, again=resumed(0)) == "[true,false,true,true]"


async def test_each_part_finds_its_own_answer() -> None:
    def look() -> list[Any]:
        return [resume_context(int, part=part).data for part in ("a", "b", "c")] + [
            resume_context().is_target
        ]

    again = Again(given={"a": Given(data=1), "c": Given(data=3)})
    assert await told(look, again=again) == "[1,null,3,false]"


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (TransferState, TransferState(amount=1, asked=2)),
        (Transfer, Transfer(Decimal("0.10"), datetime(2025, 1, 1, tzinfo=UTC))),
        (dict[int, str], {1: "a"}),
        (set[str], {"a"}),
        (tuple[int, str], (1, "a")),
        (bytes, b"raw"),
        (Any, {"a": [1, None]}),
        (type(None), None),
    ],
    ids=str,
)
async def test_a_state_comes_back_as_the_type_it_had(type_: Any, value: Any) -> None:
    saved = await asked(raising(StatefulInterrupt("?", value)))
    found: list[Any] = []

    def look() -> None:
        found.append(interrupt_state(type_).state)

    await run(look, again=Again(has_state=saved.has_state, state=saved.state))
    assert found == [value]


async def test_a_state_of_another_type_is_an_error_that_names_both() -> None:
    def look() -> None:
        interrupt_state(TransferState)

    with pytest.raises(ApplicationError, match="the state is a list, not a TransferState") as caught:
        await run(look, again=Again(has_state=True, state=["amount"]))
    assert caught.value.type == WrongType.__name__


@pytest.mark.parametrize(
    "data",
    ["yes", True, ["approved"], {"approve": True}, {"approved": None}]
    + [{"approved": loose} for loose in ("true", "false", 1, 1.0, "yes", [True])],
    ids=str,
)
async def test_data_of_another_type_reopens_the_question_and_is_never_a_yes(data: Any) -> None:
    """B034."""
    state = {"amount": 5.0, "asked": 1}
    reopened = await asked(three_phases, resumed(data, has_state=True, state=state))
    assert reopened.problem is not None
    assert reopened.problem.startswith(f"the data is a {type(data).__name__}, not a ApprovalResult: ")
    assert "\n" not in reopened.problem


async def test_unusable_data_of_a_part_names_the_part() -> None:
    def look() -> None:
        resume_context(int, part="b")

    assert (await asked(look, resumed("three", part="b"))).problem_part == "b"


async def test_what_one_call_knows_another_does_not() -> None:
    async def look() -> Any:
        before = resume_context(int).data
        await asyncio.sleep(0.01)
        assert resume_context(int).data == before
        return before

    replies = await asyncio.gather(*(told(look, again=resumed(n)) for n in range(20)))
    assert [json.loads(reply) for reply in replies] == list(range(20))


def test_a_mistyped_option_of_a_tool_is_named() -> None:
    options: dict[str, Any] = {"aproval": True}
    with pytest.raises(BadInput, match="the tool 'pay': unknown field 'aproval'"):

        @tool(**options)
        def pay() -> str:
            return "paid"
