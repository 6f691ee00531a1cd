"""The table of records. It follows the end while the cursor is on the last row."""

from textual import events

from yak.tui.rows.records import RecordRows
from yak.tui.widgets.grid import Grid


class MessageGrid(Grid):
    """A Grid of records. `follows`: new records are appended, and a cursor on the last row stays on the last row."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self.records = RecordRows()
        self.follows = False

    def begin(self, *, follows: bool) -> None:
        """Begin another reading, at its end if it follows, else at its beginning."""
        self.follows = follows
        self.is_following = follows
        self.marked.clear()
        self.move_to(0)
        self.is_following = follows

    def _put_cursor(self, index: int) -> None:
        super()._put_cursor(index)
        if self.follows and self.row_count and index >= self.row_count - 1:
            self.is_following = True

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Stop following: the user scrolls back to read."""
        self.is_following = False
