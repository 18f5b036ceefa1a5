"""Reading JSON that people and models send: what decodes well but means harm is refused, in words."""

import hashlib
import json
import math
import re
from typing import Any

MAX_DEPTH = 64
"""Levels of nesting that are read; real arguments have a handful."""
HUGE = 10**300
_DIGITS = re.compile("[0-9]{300}")
_SUSPECT = re.compile("\\\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""What a text has to hold for a character to be half of a pair."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class HarmfulJson(ValueError):
    """The text is no JSON, or JSON that two readers would understand differently."""


def read(text: str | bytes) -> Any:
    """Read one JSON value.

    Refused: duplicate keys, NaN, infinities and numbers that overflow to them, half surrogate pairs, and more
    than `MAX_DEPTH` levels. Raises `HarmfulJson` with a reason that can be shown to its sender.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        value = json.loads(
            text, object_pairs_hook=_without_twins, parse_constant=_refuse_constant, parse_float=_finite
        )
    except HarmfulJson:
        raise
    except RecursionError:
        raise HarmfulJson(f"nested deeper than {MAX_DEPTH} levels") from None
    except UnicodeDecodeError:
        raise HarmfulJson("not valid UTF-8") from None
    except ValueError as error:
        raise HarmfulJson(f"not valid JSON ({error})") from None
    _refuse_depth(value)
    if _SUSPECT.search(text):
        _inspect(value)
    return value


def refuse_huge(value: Any, text: str) -> None:
    """Refuse a whole number of *value*, written in *text*, that becomes infinite where a float is wanted. Raises
    `HarmfulJson`."""
    level = [value] if _DIGITS.search(text) else []
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, int) and abs(each) >= HUGE:
                raise HarmfulJson(f"the number {str(each)[:40]}… is too large")
            below.extend(each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        level = below


def canonical(value: Any) -> str:
    """Write a JSON value in the one way that equal values share: sorted keys, no spaces, nothing escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def compact(value: Any) -> str:
    """Write a JSON value on one line as it stands, keys in their order, nothing escaped. Raises `ValueError`."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def outgrows(value: Any, most: int) -> bool:
    """Whether *value* takes more than *most* characters for its brackets and commas alone, known without writing it."""
    level, size = [value], 0
    while level and size <= most:
        size += sum(5 * len(each) if type(each) is dict else 2 * len(each) for each in level)
        if size > most:
            return True
        below: list[Any] = []
        for each in level:
            below.extend(each.values() if type(each) is dict else each)
        level = [each for each in below if type(each) in (dict, list)]
    return False


def digest(value: Any, length: int = 16) -> str:
    """The first *length* hex digits of the SHA-256 of the canonical JSON of *value*."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise HarmfulJson(f"the key '{twin[:80]}' stands twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise HarmfulJson(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise HarmfulJson(f"the number {text[:40]} is too large")
    return number


def _refuse_depth(root: Any) -> None:
    """No look at each value: messages of megabytes come in while everybody waits."""
    level, depth = [root], 0
    while level:
        if depth > MAX_DEPTH:
            raise HarmfulJson(f"nested deeper than {MAX_DEPTH} levels")
        below: list[Any] = []
        for value in level:
            below.extend(value.values() if type(value) is dict else value if type(value) is list else ())
        level, depth = [value for value in below if type(value) in (dict, list)], depth + 1


def _inspect(root: Any) -> None:
    level = [root]
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                if _SURROGATE.search(value):
                    raise HarmfulJson("text with half of a surrogate pair")
            elif isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        level = below
