"""Widths of columns, and cells cut to them. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from yak.plain_text import one_line
from yak.tui.rows.cells import Column, Row

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
            if cell_len(cell.text) > wanted[number]:
                wanted[number] = cell_len(cell.text)
    for number, column in enumerate(columns):
        wanted[number] = max(min(wanted[number], max(column.most, column.least)), cell_len(column.label))
        if number < len(before) and not column.flex:
            wanted[number] = max(wanted[number], before[number])
    if is_wide or width <= 0:
        return wanted
    return _squeezed(columns, wanted, width)


def _squeezed(columns: Sequence[Column], wanted: list[int], width: int) -> list[int]:
    shown = list(wanted)

    def needed() -> int:
        return sum(each + GAP for each in shown if each)

    def least(number: int) -> int:
        return max(columns[number].least, min(cell_len(columns[number].label), 6))

    def slack() -> int:
        return sum(max(0, shown[n] - least(n)) for n, column in enumerate(columns) if column.flex and shown[n])

    for rank in sorted({column.rank for column in columns} - {0}, reverse=True):
        for number in reversed(range(len(columns))):
            if columns[number].rank == rank and needed() - width > slack():
                shown[number] = 0
    flexible = [number for number, column in enumerate(columns) if column.flex and shown[number]]
    over = needed() - width
    for number in reversed(flexible):
        if over <= 0:
            break
        give = min(over, max(0, shown[number] - least(number)))
        shown[number] -= give
        over -= give
    if over < 0 and flexible:
        shares = sum(columns[number].flex for number in flexible)
        for number in flexible:
            shown[number] += -over * columns[number].flex // shares
    return shown


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
