"""What a table is made of: columns, rows, cells. Pure values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Tone = Literal["", "good", "warn", "bad", "dim", "accent", "strong"]
"""What a cell means; a theme gives it a colour, and the text says it too."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One field. `order` is what it is sorted by, if not by its text."""

    text: str
    tone: Tone = ""
    order: float | str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `key` names the thing it is about, and stays when the line changes."""

    key: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. It is as wide as its widest cell in sight, from `least` on and up to `most`.

    `flex` is its share of what is left. Where the window is too narrow, columns of a higher `rank` go first; with wide columns on none goes.
    `flash`: a cell that changes is shown in reverse for a moment.
    """

    label: str
    least: int = 0
    most: int = 40
    is_right: bool = False
    flex: int = 0
    rank: int = 0
    flash: bool = False


class Rows(Protocol):
    """Rows that are made when they are looked at: a hundred thousand cost no more than a screen."""

    def __len__(self) -> int: ...

    def at(self, index: int) -> Row:
        """The row at a place from 0 on."""

    def place_of(self, key: str) -> int | None:
        """Where a row is now; None when it is gone."""


class RowList:
    """Rows that are there."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._places: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, index: int) -> Row:
        """The row at a place from 0 on."""
        return self.rows[index]

    def place_of(self, key: str) -> int | None:
        """Where a row is; None when there is none."""
        if self._places is None:
            self._places = {row.key: place for place, row in enumerate(self.rows)}
        return self._places.get(key)


def changed_cells(columns: Sequence[Column], before: object, after: object) -> set[tuple[str, int]]:
    """Cells of columns that flash, by row key and place, that one drawing of a row has otherwise than the one before."""
    if not isinstance(before, Row) or not isinstance(after, Row) or before.key != after.key:
        return set()
    return {
        (after.key, number)
        for number, column in enumerate(columns)
        if column.flash and before.cells[number].text != after.cells[number].text
    }


def text(value: object, tone: Tone = "", order: float | str | None = None) -> Cell:
    """A cell of anything that can be written."""
    return Cell(str(value), tone, order)


def sorted_rows(rows: Sequence[Row], column: int, *, is_reverse: bool) -> list[Row]:
    """Rows by one column: numbers before texts, texts without regard to case."""

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
