"""The `/` filter of tables: `text`, `!text` for lines without it, `~expression` for a regular expression. Pure."""

import re
from collections.abc import Callable, Sequence

from yak.errors import UsageError
from yak.tui.rows.cells import Row


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
