"""Rows of a long table, made anew a slice at a time: tens of thousands cost a little each time, and those in sight are always fresh."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from yak.tui.rows.cells import Row

SLICE: Final = 500
"""Rows made anew at a time beside those in sight: some milliseconds."""


class SlicedRows:
    """Keeps a row for each key; `update` makes some of them anew. Rows that were never made are `bare`."""

    def __init__(self, make: Callable[[str], Row], bare: Callable[[str], Row], *, slice_size: int = SLICE) -> None:
        self._make, self._bare, self._slice = make, bare, slice_size
        self._rows: dict[str, Row] = {}
        self._next = 0

    def forget(self) -> None:
        """All of them are to be written otherwise."""
        self._rows.clear()
        self._next = 0

    def update(self, keys: Sequence[str], in_sight: Iterable[str] = ()) -> list[Row]:
        """The rows of these keys, in this order. Made anew are those in sight, and the next slice of all."""
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
