"""Several stores seen as one, in the order in which their records came. Pure, but for their locks.

Nothing is copied or sorted: the record at a place is found by bisection over the serials, which all stores share.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from yak.tui.messages.kept import Kept
from yak.tui.messages.store import Store


class Merged:
    """A view of stores; the oldest record is at place 0."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = tuple(stores)

    def __len__(self) -> int:
        return sum(len(store) for store in self._stores)

    def at(self, place: int) -> Kept | None:
        """The record at a place; None when it is just gone."""
        with ExitStack() as all_of_them:
            for store in self._stores:
                all_of_them.enter_context(store.frozen())
            return self._at(place)

    def _at(self, place: int) -> Kept | None:
        if not 0 <= place < len(self):
            return None
        filled = [store for store in self._stores if len(store)]
        low = min(store.serial_at(0) for store in filled)
        high = max(store.serial_at(len(store) - 1) for store in filled)
        while low < high:
            middle = (low + high) // 2
            # How many there are up to and with the middle.
            if sum(store.rank(middle + 1) for store in filled) > place:
                high = middle
            else:
                low = middle + 1
        for store in filled:
            found = store.with_serial(low)
            if found is not None:
                return found
        return None

    def place_of(self, serial: int) -> int | None:
        """Where a record is; None when it is not there."""
        with ExitStack() as all_of_them:
            for store in self._stores:
                all_of_them.enter_context(store.frozen())
            if all(store.with_serial(serial) is None for store in self._stores):
                return None
            return sum(store.rank(serial) for store in self._stores)
