"""Tools: Python functions as activities of their own type, and how they ask a person from inside.

    @tool(approval=lambda args: args.amount > 10_000)
    def transfer_funds(from_account: str, to_account: str, amount: Annotated[float, Field(gt=0)]) -> str:
        "Transfer money between two accounts."

A tool that stops raises `Interrupt`, `StatefulInterrupt` or `CompositeInterrupt`: an event, not a failure. When it
runs again it reads `interrupt_state` and `resume_context`.
"""

import asyncio
import contextvars
import functools
import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_json
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.model import beating
from protocol import strict_json, texts
from protocol.address import check_name
from protocol.agents import MAX_RESULT, RESERVED_TOOLS, Gate, ToolSpec
from protocol.errors import BadAddress, BadInput
from protocol.record import explain
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

T = TypeVar("T")

# ------------------------------------------------------------------------------------- asking from inside


class Interrupt(BaseException):
    """Stop and ask a person. `info` is what the person sees, `expects` the type of the answer's data.

    A `BaseException`, so that a tool's own ``except Exception`` cannot swallow it. `info` is any JSON value,
    dataclass or pydantic model.
    """

    def __init__(self, info: Any = None, *, expects: Any = None) -> None:
        super().__init__(info)
        self.info, self.expects = info, expects


class StatefulInterrupt(Interrupt):
    """Stop and ask, and find `state` again when the tool runs the next time. It is never shown to the person."""

    def __init__(self, info: Any, state: Any, *, expects: Any = None) -> None:
        super().__init__(info, expects=expects)
        self.state = state


class CompositeInterrupt(StatefulInterrupt):
    """Stop with one question per part: `parts` maps a part's name to its info; `expects` holds for all of them.

    The tool runs again as soon as at least one part is decided, with every answer not yet given to it. A part
    raised again with equal info stays as it is; one not raised again is withdrawn.
    """

    def __init__(self, info: Any, state: Any, *, parts: Mapping[str, Any], expects: Any = None) -> None:
        super().__init__(info, state, expects=expects)
        self.parts = dict(parts)


@dataclass(frozen=True)
class InterruptState(Generic[T]):
    """What a tool knows of its own last stop."""

    was_interrupted: bool
    has_state: bool = False
    state: T | None = None


@dataclass(frozen=True)
class ResumeContext(Generic[T]):
    """What a tool knows of the answer: whether one came for it (or for the part), and its data."""

    is_target: bool
    has_data: bool = False
    data: T | None = None


class WrongType(TypeError):
    """State or data that is not of the type the tool asked for; the message names both."""


class _UnusableData(WrongType):
    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


@dataclass(frozen=True)
class _Running:
    address: str
    key: str
    again: Again | None


_running: contextvars.ContextVar[_Running | None] = contextvars.ContextVar("signoff_running", default=None)


@overload
def interrupt_state() -> InterruptState[Any]: ...
@overload
def interrupt_state(type_: type[T]) -> InterruptState[T]: ...
def interrupt_state(type_: Any = Any) -> InterruptState[Any]:
    """Whether this call was interrupted before, and the state it saved, as *type_*.

    Any pydantic model, dataclass or JSON type. Raises `WrongType` if the state is something else.
    """
    running = _running.get()
    if running is None or running.again is None:
        return InterruptState(was_interrupted=False)
    if not running.again.has_state:
        return InterruptState(was_interrupted=True)
    try:
        state = _as(type_, running.again.state)
    except ValidationError as error:
        raise WrongType(_wrong("state", running.again.state, type_, error)) from None
    return InterruptState(was_interrupted=True, has_state=True, state=state)


@overload
def resume_context(*, part: str | None = None) -> ResumeContext[Any]: ...
@overload
def resume_context(type_: type[T], *, part: str | None = None) -> ResumeContext[T]: ...
def resume_context(type_: Any = Any, *, part: str | None = None) -> ResumeContext[Any]:
    """Whether a person's answer came for this call, or for its *part*, and the data, as *type_*.

    Data of another type reopens the question with the error shown, and the call is not spent.
    """
    running = _running.get()
    given: Given | None = None
    if running is not None and running.again is not None:
        given = running.again.given.get(part or "")
    if given is None:
        return ResumeContext(is_target=False)
    if given.data is None:
        return ResumeContext(is_target=True)
    try:
        data = _as(type_, given.data)
    except ValidationError as error:
        raise _UnusableData(_wrong("data", given.data, type_, error), part or "") from None
    return ResumeContext(is_target=True, has_data=True, data=data)


def idempotency_key() -> str:
    """The key of this call: the same over retries, workers, page turns and resets. Pass it on to what you call.

    Raises `RuntimeError` outside of a tool.
    """
    running = _running.get()
    if running is None:
        raise RuntimeError("idempotency_key() is known inside a running tool only")
    return running.key


def _as(type_: Any, value: Any) -> Any:
    return (
        value if type_ is Any else TypeAdapter(type_).validate_json(strict_json.compact(value), strict=True)
    )


def _wrong(what: str, value: Any, type_: Any, error: ValidationError) -> str:
    wanted = getattr(type_, "__name__", str(type_))
    return f"the {what} is a {type(value).__name__}, not a {wanted}: {explain(error)}"


# ---------------------------------------------------------------------------------------- tool functions


class FunctionTool:
    """A Python function as a tool: `spec` goes into the agent tree, `activity` to the worker.

    Calling it calls the function itself.
    """

    def __init__(
        self, function: Callable[..., Any], spec: ToolSpec, condition: Callable[[Any], Any] | None
    ) -> None:
        self.function, self.spec, self._condition = function, spec, condition
        self.arguments = arguments_model(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def activity(self, threads: ThreadPoolExecutor) -> Callable[[ToolInput], Awaitable[Any]]:
        """The function as an activity of the tool's own type; sync functions run in *threads*."""

        @activity.defn(name=self.spec.type)
        async def run(input: ToolInput) -> ToolReply:
            async with beating():
                return await self.run(input, threads)

        return run

    async def run(self, input: ToolInput, threads: ThreadPoolExecutor | None = None) -> ToolReply:
        """Validate, ask the condition, run the function; an interrupt is a reply like any other."""
        try:
            arguments = self.arguments.model_validate_json(strict_json.compact(input.arguments))
        except ValidationError as error:
            return Unusable(problem=explain(error))
        except Exception as error:  # from a validator of the tool's own
            return Unusable(problem=_says(error))
        if self._condition is not None and not input.released and self._holds_back(arguments):
            return Gated()
        token = _running.set(_Running(input.address, input.key, input.again))
        try:
            result = await self._call(dict(arguments), threads)
            return Finished(text=texts.shortened(as_text(result), input.max_result or MAX_RESULT))
        except Interrupt as interrupt:
            try:
                return _asked(interrupt)
            except ApplicationError as error:
                raise error from None  # without the interrupt, whatever its size
        except _UnusableData as error:
            return Interrupted(problem=str(error), problem_part=error.part)
        except asyncio.CancelledError:
            # Cancelled from outside, Temporal must hear of it; raised by the tool itself, it is a failure.
            if activity.in_activity() and activity.is_cancelled():
                raise
            raise _failure("CancelledError", "CancelledError") from None
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # also a SystemExit, which would take the worker with it
            # The place where it happened goes along, but not the error itself: it may be of any size, or unreadable.
            raise _failure(_says(error), type(error).__name__).with_traceback(error.__traceback__) from None
        finally:
            _running.reset(token)

    async def _call(self, values: dict[str, Any], threads: ThreadPoolExecutor | None) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**values)
        context = contextvars.copy_context()
        work = functools.partial(context.run, _without_stop_iteration, self.function, values)
        result = await asyncio.get_running_loop().run_in_executor(threads, work)
        return await result if inspect.isawaitable(result) else result

    def _holds_back(self, arguments: BaseModel) -> bool:
        assert self._condition is not None
        try:
            return bool(self._condition(arguments))
        except Exception:
            return True  # a rule that cannot be applied asks; it never lets through


def _without_stop_iteration(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    try:
        return function(**values)
    except StopIteration as error:
        # A future cannot hold one: the call would never end.
        raise RuntimeError("StopIteration") from error


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: bool | Callable[[Any], Any] | Gate = False,
    review: bool | Callable[[Any], Any] | Gate = False,
    deny: bool = False,
    attempts: int = 1,
    on_error: Literal["tell", "fail"] = "tell",
    timeout: float = 600.0,
    heartbeat: float | None = None,
    activity_type: str | None = None,
    task_queue: str | None = None,
    max_result: int = MAX_RESULT,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool. Its name, docstring and signature are what the model sees.

    `approval` and `review` gate it: always (``True``), on a condition of its validated arguments, or by a `Gate`
    with a deadline. Without `attempts` it runs at most once; with ``attempts=n`` it is declared idempotent by
    `idempotency_key`. Times in seconds. Raises `BadInput` for a function that cannot be a tool.
    """
    if function is not None:
        return _made(function)
    return functools.partial(_made, **options)


def _made(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    approval: bool | Callable[[Any], Any] | Gate = False,
    review: bool | Callable[[Any], Any] | Gate = False,
    deny: bool = False,
    activity_type: str | None = None,
    **options: Any,
) -> FunctionTool:
    asked = [rule for rule in (approval, review, deny) if rule is not False]
    if len(asked) > 1:
        raise BadInput(f"the tool '{function.__name__}' has two gates: give approval, review or deny")
    tool_name = check_name(name or function.__name__)
    if tool_name in RESERVED_TOOLS:
        raise BadInput(f"the tool name '{tool_name}' is reserved")
    rule: Any = asked[0] if asked else False
    kind: Literal["approval", "review", "deny"] = (
        "deny" if deny else "review" if review is not False else "approval"
    )
    condition = rule if callable(rule) and not isinstance(rule, Gate) else None
    gate = (
        rule
        if isinstance(rule, Gate)
        else Gate(kind=kind, conditional=condition is not None)
        if asked
        else None
    )
    try:
        spec = ToolSpec(
            name=tool_name,
            description=description if description is not None else _first_paragraph(function),
            parameters=schema_of(arguments_model(function)),
            activity="" if activity_type in (None, tool_name) else activity_type,
            gate=gate,
            **options,
        )
    except ValidationError as error:
        raise BadInput(f"the tool '{tool_name}': {explain(error)}") from None
    return FunctionTool(function, spec, condition)


def arguments_model(function: Callable[..., Any]) -> type[BaseModel]:
    """The parameters of a function as a pydantic model that refuses unknown ones. Raises `BadInput`."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise BadInput(f"the tool '{function.__name__}' takes *args or **kwargs: name its parameters")
        if parameter.name not in hints:
            raise BadInput(f"the parameter '{parameter.name}' of the tool '{function.__name__}' has no type")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    with warnings.catch_warnings():
        # A parameter may be called `json` or `copy`: nobody asks the model for those.
        warnings.filterwarnings("ignore", "Field name .* shadows an attribute", UserWarning)
        config = ConfigDict(extra="forbid", protected_namespaces=())
        model = create_model(function.__name__, __config__=config, **fields)
    for name in fields:
        if name not in model.model_fields:
            raise BadInput(f"the parameter '{name}' of the tool '{function.__name__}' needs another name")
    return model


def schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a tool's parameters, without the titles that pydantic adds: they are paid for by byte."""
    schema: dict[str, Any] = _untitled(arguments.model_json_schema())
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def _untitled(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _untitled(item) for name, item in value.items()}
        if key in ("properties", "$defs")
        else value
        if key in ("const", "default", "enum", "examples")
        else _untitled(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _first_paragraph(function: Callable[..., Any]) -> str:
    paragraph = (inspect.getdoc(function) or "").split("\n\n")[0]
    return re.sub(r"\s+", " ", paragraph).strip()


def as_text(result: Any) -> str:
    """What the model is told of a result: a text as it is, everything else as JSON. Raises `TypeError`."""
    if result is None:
        return texts.NOTHING
    if isinstance(result, str):
        return result.encode("utf-8", "replace").decode() or texts.EMPTY_TEXT
    try:
        return to_json(result, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise TypeError(f"a result of type {type(result).__name__} has no text form ({error})") from None


def _asked(interrupt: Interrupt) -> Interrupted:
    parts = None
    try:
        expects = None if interrupt.expects is None else TypeAdapter(interrupt.expects).json_schema()
        if isinstance(interrupt, CompositeInterrupt):
            parts = {
                check_name(name): PartAsked(info=_plain(info), expects=expects)
                for name, info in interrupt.parts.items()
            }
    except (BadAddress, PydanticUserError) as error:
        raise _failure(f"an interrupt cannot be asked: {_says(error)}", type(error).__name__) from None
    stateful = isinstance(interrupt, StatefulInterrupt)
    reply = Interrupted(
        info=_plain(interrupt.info),
        has_state=stateful,
        state=_plain(interrupt.state) if isinstance(interrupt, StatefulInterrupt) else None,
        expects=expects,
        parts=parts,
    )
    if len(reply.model_dump_json().encode()) > MAX_ASKED_BYTES:
        raise _failure(f"its question and state are larger than {MAX_ASKED_BYTES // 1024} KB", "TooLarge")
    return reply


def _plain(value: Any) -> Any:
    try:
        return strict_json.read(to_json(value, inf_nan_mode="constants"))
    except (PydanticSerializationError, strict_json.HarmfulJson) as error:
        raise _failure(f"an interrupt holds what is no JSON: {error}", "WrongType") from None


def _says(error: BaseException) -> str:
    """A text for an exception that is never empty, also when its own ``str`` fails."""
    name = type(error).__name__
    try:
        words = str(error).strip()
    except Exception:
        words = ""
    return texts.shortened(f"{name}: {words}" if words else name, 4_000).encode("utf-8", "replace").decode()


def _failure(text: str, kind: str) -> ApplicationError:
    return ApplicationError(text, type=kind, category=ApplicationErrorCategory.BENIGN)


class Toolbox:
    """The tools of a worker, one activity type each. Raises `BadInput` for two functions under one type."""

    def __init__(self, tools: Iterable[FunctionTool], *, threads: int = 100) -> None:
        self._tools: dict[str, FunctionTool] = {}
        self._threads = threads
        for each in tools:
            known = self._tools.setdefault(each.spec.type, each)
            if known is not each and known.function is not each.function:
                raise BadInput(
                    f"two functions want the activity type '{each.spec.type}': give one of them activity_type="
                )

    def activities(self) -> list[Callable[..., Any]]:
        threads = ThreadPoolExecutor(self._threads, thread_name_prefix="tool")
        return [each.activity(threads) for each in self._tools.values()]
