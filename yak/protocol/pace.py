"""How much one slice of a large request or answer does."""

from collections.abc import Generator
from typing import TypeVar

from yak.limits import SLICE_ELEMENTS

_T = TypeVar("_T")


class Pace:
    """Counts the elements of a slice."""

    __slots__ = ("_passed",)

    def __init__(self) -> None:
        self._passed = 0

    def is_over(self, elements: int) -> bool:
        """Count some more elements; whether the slice has enough of them, so that the caller yields."""
        self._passed += elements
        if self._passed < SLICE_ELEMENTS:
            return False
        self._passed = 0
        return True


def at_once(slices: Generator[None, None, _T]) -> _T:
    """Run slices without pauses: most requests and answers have too few elements for one."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            value: _T = end.value
            return value
