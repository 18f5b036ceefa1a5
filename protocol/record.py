"""What every value that crosses a boundary has in common: frozen, strict, nothing unknown, nothing empty written."""

import json
import operator
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from protocol.strict_json import compact

T = TypeVar("T")

MAX_EXPLAINED = 300
"""Characters of one thing that is wrong: what was sent may be a key of a megabyte."""


class Record(BaseModel):
    """A frozen value, strict in JSON mode: ``"true"`` is not ``true``, an unknown field is refused by its name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Ledger(BaseModel):
    """A value that changes in place and travels over page turns; only the run that owns it writes to it."""

    model_config = ConfigDict(extra="forbid", strict=True)


def absent(default: Any = None, **more: Any) -> Any:
    """A field that is written only when it holds something: payloads are paid for by the byte."""
    return Field(default, exclude_if=operator.not_, **more)


def empty(factory: Any) -> Any:
    """A container field that is written only when it holds something."""
    return Field(default_factory=factory, exclude_if=operator.not_)


def read(adapter: TypeAdapter[T], value: Any) -> T:
    """Read plain JSON data, strictly. Raises `ValidationError`, or `ValueError` for what is no JSON.

    A field whose value is ``null`` counts as absent where ``null`` is no value of it: Java and Go clients send
    every field. It is read as JSON text, since strict Python mode would refuse every list for a tuple.
    """
    try:
        return adapter.validate_json(compact(value))
    except ValidationError as error:
        nulls = [
            d["loc"] for d in error.errors(include_url=False, include_context=False) if d["input"] is None
        ]
        if not nulls:
            raise
        value = json.loads(compact(value))
        for loc in nulls:
            _drop(value, loc)
        return adapter.validate_json(compact(value))


def _drop(value: Any, loc: tuple[int | str, ...]) -> None:
    *path, last = loc
    for part in path:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            value = value[part]  # type: ignore[index]  # parts of a loc that are no keys name union members
    if isinstance(value, dict) and value.get(str(last), ...) is None:
        del value[str(last)]


def explain(error: ValidationError, most: int = 5) -> str:
    """Say in one line what is wrong with a value, naming each field: ``amount: should be greater than 0``."""
    said = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False)[:most]:
        where = ".".join(str(part) for part in detail["loc"]) or "value"
        match detail["type"]:
            case "extra_forbidden":
                said.append(f"unknown field '{where}'")
            case "missing":
                said.append(f"field '{where}' is missing")
            case "union_tag_not_found":
                said.append(f"{where}: field {detail['msg'].rpartition(' ')[2]} is missing")
            case _:
                said.append(f"{where}: {detail['msg'].removeprefix('Value error, ')}")
    rest = error.error_count() - len(said)
    said = [each if len(each) <= MAX_EXPLAINED else f"{each[:MAX_EXPLAINED]}…" for each in said]
    return "; ".join(said) + (f"; and {rest} more" if rest > 0 else "")
