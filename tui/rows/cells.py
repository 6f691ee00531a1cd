"""The parts of a table: columns, rows, cells. Pure values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Tone = Literal["", "good", "warn", "bad", "dim", "accent", "strong"]
"""The meaning of a cell. A theme gives it a colour, and the text expresses it too."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One field. `order` is its sort key, by default its text."""

    text: str
    tone: Tone = ""
    order: float | str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `key` identifies its subject, and stays when the line changes."""

    key: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. It is as wide as its widest visible cell, within `least` and `most`.

    `flex` is its share of the remaining width. In a narrow window columns of a higher `rank` are hidden first; in wide
    mode none is hidden. `flash`: a changed cell is shown in reverse for a moment.
    """

    label: str
    least: int = 0
    most: int = 40
    is_right: bool = False
    flex: int = 0
    rank: int = 0
    flash: bool = False


class Rows(Protocol):
    """Rows made on demand: a hundred thousand cost no more than the visible ones."""

    def __len__(self) -> int: ...

    def at(self, index: int) -> Row:
        """The row at an index."""

    def place_of(self, key: str) -> int | None:
        """The present index of a row; None if it is gone."""


class RowList:
    """Rows given as a list."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._places: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, index: int) -> Row:
        """The row at an index."""
        return self.rows[index]

    def place_of(self, key: str) -> int | None:
        """The index of a row; None if there is none."""
        if self._places is None:
            self._places = {row.key: place for place, row in enumerate(self.rows)}
        return self._places.get(key)


def changed_cells(columns: Sequence[Column], before: object, after: object) -> set[tuple[str, int]]:
    """Cells of flashing columns that differ between two drawings of a row, by row key and index."""
    if not isinstance(before, Row) or not isinstance(after, Row) or before.key != after.key:
        return set()
    return {
        (after.key, number)
        for number, column in enumerate(columns)
        if column.flash and before.cells[number].text != after.cells[number].text
    }


def text(value: object, tone: Tone = "", order: float | str | None = None) -> Cell:
    """A cell for any value."""
    return Cell(str(value), tone, order)


def sorted_rows(rows: Sequence[Row], column: int, *, is_reverse: bool) -> list[Row]:
    """Rows sorted by one column: numbers before texts, texts ignoring case."""

    def order(row: Row) -> tuple[int, float, str]:
        cell = row.cells[column]
        if isinstance(cell.order, str):
            return (1, 0.0, cell.order.casefold())
        if cell.order is not None:
            return (0, float(cell.order), "")
        try:
            return (0, float(cell.text), "")
        except ValueError:
            return (1, 0.0, cell.text.casefold())

    return sorted(rows, key=order, reverse=is_reverse)
