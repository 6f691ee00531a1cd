"""How much one slice of a large request or answer does."""

from yak.limits import SLICE_ELEMENTS


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
