"""The parts of a table: columns, rows and cells; filtered, refreshed in slices, packed into lines, cut to widths. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from rich.cells import cell_len, set_cell_size

from yak.errors import UsageError
from yak.plain_text import one_line

Tone = Literal["", "good", "warn", "bad", "dim", "accent", "strong"]
"""The meaning of a cell. A theme gives it a colour, and the text expresses it too."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One field. `order` is its sort key, by default its text."""

    text: str
    tone: Tone = ""
    order: float | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # of an answer: here the screen can report it, in the layout it cannot
            raise TypeError(f"{self.text!r} is no text")


@dataclass(frozen=True, slots=True, init=False)
class Row:
    """One line. `key` identifies its subject, and stays when the line changes."""

    key: str
    cells: tuple[Cell, ...]

    def __init__(self, key: str, *cells: Cell) -> None:
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "cells", cells)


@dataclass(frozen=True, slots=True)
class Column:
    """One column. It is as wide as its widest visible cell, within `least` and `most`.

    `flex` is its share of the remaining width. In a narrow window columns of a higher `rank` are hidden first; in wide
    mode none is hidden. A flexible one that needs more than its least width keeps up to `preferred`: columns of rank 2 and
    higher are hidden for that. `flash`: a changed cell is shown in reverse for a moment.
    """

    label: str
    least: int = 0
    most: int = 40
    is_right: bool = False
    flex: int = 0
    rank: int = 0
    flash: bool = False
    preferred: int = 0


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
        self._indexes: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, index: int) -> Row:
        return self.rows[index]

    def place_of(self, key: str) -> int | None:
        if self._indexes is None:
            self._indexes = {row.key: place for place, row in enumerate(self.rows)}
        return self._indexes.get(key)


def changed_cells(columns: Sequence[Column], before: object, after: object) -> set[tuple[str, int]]:
    """Cells of flashing columns that differ between two drawings of a row, by row key and index."""
    if not isinstance(before, Row) or not isinstance(after, Row) or before.key != after.key:
        return set()
    return {
        (after.key, number)
        for number, column in enumerate(columns)
        if column.flash and before.cells[number].text != after.cells[number].text
    }


def figure(text: str, value: float | None, tone: Tone = "") -> Cell:
    """A number as text, sorted by its value; 0 and what is unknown are dim."""
    return Cell(text, tone if value else "dim", -1 if value is None else value)


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


def row_test(filter_text: str) -> Callable[[Row], bool]:
    """The filter's test for a row. An empty filter matches all. Raises UsageError `bad-filter`."""
    wanted = filter_text.strip()
    is_inverse = wanted.startswith("!")
    wanted = wanted[1:] if is_inverse else wanted
    if not wanted:
        return lambda _row: True
    if wanted.startswith("~"):
        try:
            pattern = re.compile(wanted[1:], re.IGNORECASE)
        except re.error as error:
            raise UsageError(
                "bad-filter", f'"{wanted[1:]}" is no regular expression', why=str(error), try_=("/~ord.*s",)
            ) from None
        return lambda row: (pattern.search(_text(row)) is not None) is not is_inverse
    folded = wanted.casefold()
    return lambda row: (folded in _text(row).casefold()) is not is_inverse


def filtered(rows: Sequence[Row], filter_text: str) -> list[Row]:
    """The rows that match. Raises UsageError `bad-filter`."""
    test = row_test(filter_text)
    return [row for row in rows if test(row)]


def _text(row: Row) -> str:
    return " ".join(cell.text for cell in row.cells)


SLICE: Final = 500
"""Rows refreshed per update beside the visible ones: some milliseconds."""


class SlicedRows:
    """Caches a row for each key; `update` refreshes some."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._next = 0
        self._of: object = None

    def update(
        self,
        keys: Sequence[str],
        in_sight: Iterable[str],
        make: Callable[[str], Row],
        bare: Callable[[str], Row],
        of: object,
    ) -> list[Row]:
        """The rows of these keys, in order. Makes the visible ones and the next slice again; the rest may be `bare`.

        All rows are dropped when `of` changes: what they are made of, and their format.
        """
        if of != self._of:
            self._of, self._rows, self._next = of, {}, 0
        rows = self._rows
        if len(rows) > 2 * len(keys):
            self._rows = rows = {key: rows[key] for key in keys if key in rows}
        if self._next >= len(keys):
            self._next = 0
        turn = keys[self._next : self._next + SLICE]
        self._next += SLICE
        made = dict.fromkeys(turn)
        for key in turn:
            rows[key] = make(key)
        for key in in_sight:
            if key in rows and key not in made:
                rows[key] = make(key)
        found = []
        for key in keys:
            row = rows.get(key)
            if row is None:
                row = rows[key] = bare(key)
            found.append(row)
        return found


def packed(cells: Sequence[Cell], width: int) -> list[list[Cell]]:
    """The cells in lines, in order, separated by a space. A cell wider than a line is wrapped at spaces."""
    lines: list[list[Cell]] = []
    room = 0
    for whole in cells:
        for cell in _broken(whole, width):
            length = cell_len(cell.text) + 1
            if not lines or length > room:
                lines.append([])
                room = width
            lines[-1].append(cell)
            room -= length
    return lines


def _broken(cell: Cell, width: int) -> list[Cell]:
    if width <= 0 or cell_len(cell.text) < width:
        return [cell]
    return [Cell(word, cell.tone) for word in cell.text.split()]


GAP = 2


def fit(
    columns: Sequence[Column], rows: Sequence[Row], before: Sequence[int], width: int, *, is_wide: bool
) -> list[int]:
    """The width of each column, 0 if it does not fit.

    Non-flexible columns never get narrower than in `before`, to avoid jumps.
    """
    if not columns:
        return []
    wanted = [max(column.least, cell_len(column.label) + 2) for column in columns]
    for row in rows:
        for number, cell in enumerate(row.cells):
            wanted[number] = max(wanted[number], cell_len(one_line(cell.text)))
    for number, column in enumerate(columns):
        wanted[number] = max(min(wanted[number], max(column.most, column.least)), cell_len(column.label))
        if number < len(before) and not column.flex:
            wanted[number] = max(wanted[number], before[number])
    if is_wide or width <= 0:
        return wanted
    return _squeezed(columns, wanted, width)


def _squeezed(columns: Sequence[Column], wanted: list[int], width: int) -> list[int]:
    widths = list(wanted)

    def needed() -> int:
        return sum(each + GAP for each in widths if each)

    def least(number: int) -> int:
        return max(columns[number].least, min(cell_len(columns[number].label), 6))

    def slack(rank: int) -> int:
        floors = {
            n: max(least(n), column.preferred if rank > 1 else 0) for n, column in enumerate(columns) if column.flex
        }
        return sum(max(0, widths[n] - floor) for n, floor in floors.items() if widths[n])

    for rank in sorted({column.rank for column in columns} - {0}, reverse=True):
        for number in reversed(range(len(columns))):
            if columns[number].rank == rank and needed() - width > slack(rank):
                widths[number] = 0
    flexible = [number for number, column in enumerate(columns) if column.flex and widths[number]]
    over = needed() - width
    for number in reversed(flexible):
        if over <= 0:
            break
        give = min(over, max(0, widths[number] - least(number)))
        widths[number] -= give
        over -= give
    if over < 0 and flexible:
        shares = sum(columns[number].flex for number in flexible)
        for number in flexible:
            widths[number] += -over * columns[number].flex // shares
    return widths


def column_at(widths: Sequence[int], x: int) -> int | None:
    """The column at position `x` of the line."""
    left = 0
    for number, width in enumerate(widths):
        if width and left <= x < left + width + GAP:
            return number
        left += width + GAP if width else 0
    return None


def cut(text: str, width: int, *, is_right: bool = False) -> str:
    """Text in exactly `width` cells; longer text ends with an ellipsis."""
    text = one_line(text)  # control characters from a cluster must not reach the terminal
    if text[: width + 1].isascii():
        # Fast path for ASCII: Rich measures wide and combined characters one by one.
        if len(text) > width:
            return text[: width - 1] + "…" if width > 1 else text[:width]
        return text.rjust(width) if is_right else text.ljust(width)
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 1 else set_cell_size(text, width)
    return " " * (width - length) + text if is_right else text + " " * (width - length)
