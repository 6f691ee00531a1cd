"""The rows of a table: filtered, sorted, with a cursor that stays on its row. Pure."""

from collections.abc import Sequence

from yak.errors import UsageError
from yak.tui.rows.cells import Row, RowList, Rows, sorted_rows
from yak.tui.rows.filtering import filtered


class GridRows:
    """Rows given as a list can be filtered and sorted; rows made on demand keep their order."""

    def __init__(self) -> None:
        self.shown: Rows = RowList(())
        self.filter_text = ""
        self.sort: tuple[int, bool] | None = None
        """The column, and whether reversed."""
        self.cursor = 0
        self.cursor_key: str | None = None
        self.is_following = False
        self._given: Sequence[Row] | None = None

    def __len__(self) -> int:
        return len(self.shown)

    def give(self, rows: Sequence[Row] | Rows) -> None:
        """Take new rows."""
        if isinstance(rows, Sequence):
            self._given = rows
            self.arrange()
        else:
            self._given, self.shown = None, rows

    def arrange(self) -> None:
        """Filter and sort again. Raises UsageError `bad-filter`."""
        if self._given is None:
            return
        rows = filtered(self._given, self.filter_text) if self.filter_text else self._given
        if self.sort is not None and all(self.sort[0] < len(row.cells) for row in rows[:1]):
            rows = sorted_rows(rows, self.sort[0], is_reverse=self.sort[1])
        self.shown = RowList(rows)

    def set_filter(self, text: str) -> None:
        """Set the filter. Raises UsageError `bad-filter`, and keeps the old one."""
        before, self.filter_text = self.filter_text, text
        try:
            self.arrange()
        except UsageError:
            self.filter_text = before
            raise

    def sort_next(self, columns: Sequence[int]) -> bool:
        """Sort by the first column, then by it in reverse, then the next, at the end not at all.

        False if rows cannot be sorted.
        """
        if self._given is None or not columns:
            return False
        if self.sort is None:
            self.sort = (columns[0], False)
        elif not self.sort[1]:
            self.sort = (self.sort[0], True)
        else:
            later = [column for column in columns if column > self.sort[0]]
            self.sort = (later[0], False) if later else None
        self.arrange()
        return True

    def sort_at(self, column: int) -> bool:
        """Sort by this column; the second time in reverse. False if rows cannot be sorted."""
        if self._given is None:
            return False
        self.sort = (column, self.sort == (column, False))
        self.arrange()
        return True

    def keep_cursor(self) -> tuple[bool, int]:
        """Keep the cursor on its row. Returns whether it is on another row now, and by how many lines its row moved."""
        count, moved = len(self.shown), 0
        if not count:
            self.cursor = 0
            return False, 0
        if self.is_following:
            self.cursor = count - 1
        else:
            place = None if self.cursor_key is None else self.shown.place_of(self.cursor_key)
            if place is not None:
                moved, self.cursor = place - self.cursor, place
            self.cursor = min(self.cursor, count - 1)
        key = self.shown.at(self.cursor).key
        is_other = key != self.cursor_key
        self.cursor_key = key
        return is_other, moved

    def put_cursor(self, index: int) -> bool:
        """Put the cursor on this row or the nearest one, and stop following the end. False if there are no rows."""
        self.is_following = False
        if not len(self.shown):
            return False
        self.cursor = min(max(index, 0), len(self.shown) - 1)
        self.cursor_key = self.shown.at(self.cursor).key
        return True

    @property
    def cursor_row(self) -> Row | None:
        """The row under the cursor."""
        return self.shown.at(self.cursor) if 0 <= self.cursor < len(self.shown) else None
