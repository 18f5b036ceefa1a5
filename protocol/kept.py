"""A list of values kept as JSON text: as objects, a long conversation takes a worker ten times the memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

from pydantic import TypeAdapter

T = TypeVar("T")


class Kept(Sequence[T], Generic[T]):
    """Values of one type, in order. Each look at one reads it anew: what is changed in it must be put back."""

    __slots__ = ("_adapter", "_texts")

    def __init__(self, adapter: TypeAdapter[T], values: Iterable[T] = ()) -> None:
        self._adapter = adapter
        self._texts = [adapter.dump_json(value) for value in values]

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            return [self._adapter.validate_json(text) for text in self._texts[at]]
        return self._adapter.validate_json(self._texts[at])

    def __setitem__(self, at: int, value: T) -> None:
        self._texts[at] = self._adapter.dump_json(value)

    def __iter__(self) -> Iterator[T]:
        return map(self._adapter.validate_json, self._texts)

    def append(self, value: T) -> None:
        self._texts.append(self._adapter.dump_json(value))

    def extend(self, values: Iterable[T]) -> None:
        for value in values:
            self.append(value)

    def cut(self, length: int) -> None:
        """Drop what stands after the first *length*."""
        del self._texts[length:]

    @property
    def size(self) -> int:
        """Bytes of all texts."""
        return sum(map(len, self._texts))
