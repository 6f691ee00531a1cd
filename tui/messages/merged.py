"""Several stores as one, ordered by the arrival of records. Pure, except for their locks.

Nothing is copied or sorted: bisection over the serials, which all stores share, finds the record at a position.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from yak.tui.messages.kept import Kept
from yak.tui.messages.store import Store


class Merged:
    """A view of stores, with the positions of a Store."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = tuple(stores)

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        with ExitStack() as locks:
            for store in self.stores:
                locks.enter_context(store.frozen())
            yield

    def span(self) -> tuple[int, int]:
        """The first position, and the one after the last."""
        with self._frozen():
            first = self._first()
            return first, first + sum(len(store) for store in self.stores)

    def at(self, place: int) -> Kept | None:
        """The record at a position; None if it is gone, or has not arrived."""
        with self._frozen():
            index = place - self._first()
            ends = [each for store in self.stores if (each := store.ends()) is not None]
            if not ends or not 0 <= index < sum(len(store) for store in self.stores):
                return None
            low, high = min(oldest for oldest, _ in ends), max(newest for _, newest in ends)
            while low < high:
                middle = (low + high) // 2
                if sum(store.rank(middle + 1) for store in self.stores) > index:
                    high = middle
                else:
                    low = middle + 1
            return self._with_serial(low)

    def place_of(self, serial: int) -> int | None:
        """The position of a record; None if it is absent."""
        with self._frozen():
            if self._with_serial(serial) is None:
                return None
            return self._first() + sum(store.rank(serial) for store in self.stores)

    def _first(self) -> int:
        return sum(store.first for store in self.stores)

    def _with_serial(self, serial: int) -> Kept | None:
        return next((found for store in self.stores if (found := store.with_serial(serial)) is not None), None)
