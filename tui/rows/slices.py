"""Rows of a long table, refreshed a slice at a time: updates are cheap, and visible rows are always up to date."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from yak.tui.rows.cells import Row

SLICE: Final = 500
"""Rows refreshed per update beside the visible ones: some milliseconds."""


class SlicedRows:
    """Caches a row for each key; `update` refreshes some. Rows that were never made are `bare`."""

    def __init__(self, make: Callable[[str], Row], bare: Callable[[str], Row], *, slice_size: int = SLICE) -> None:
        self._make, self._bare, self._slice = make, bare, slice_size
        self._rows: dict[str, Row] = {}
        self._next = 0

    def forget(self) -> None:
        """Drop all rows: their format changed."""
        self._rows.clear()
        self._next = 0

    def update(self, keys: Sequence[str], in_sight: Iterable[str] = ()) -> list[Row]:
        """The rows of these keys, in order. Refreshes the visible ones and the next slice."""
        rows = self._rows
        if len(rows) > 2 * len(keys):
            self._rows = rows = {key: rows[key] for key in keys if key in rows}
        if self._next >= len(keys):
            self._next = 0
        turn = keys[self._next : self._next + self._slice]
        self._next += self._slice
        made = dict.fromkeys(turn)
        for key in turn:
            rows[key] = self._make(key)
        for key in in_sight:
            if key in rows and key not in made:
                rows[key] = self._make(key)
        found = []
        for key in keys:
            row = rows.get(key)
            if row is None:
                row = rows[key] = self._bare(key)
            found.append(row)
        return found
