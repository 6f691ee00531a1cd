"""Details of the record under the cursor: scrolls, folds JSON, loads a large value on request."""

import asyncio

from rich.segment import Segment
from rich.style import Style
from textual import events, on, work
from textual.geometry import Size
from textual.strip import Strip

from yak.plain_text import one_line
from yak.tui.formatter import Formatter
from yak.tui.keys import keys
from yak.tui.messages.detail import BIG_BYTES, DetailLine, View, detail_lines, wrapped
from yak.tui.messages.store import BufferedRecord
from yak.tui.widgets.frame import TONES, tone_style
from yak.tui.widgets.grid import WithCursor

LOW = 16
"""Lines of a pane below which the value comes before the less important facts."""


class RecordPane(WithCursor):
    """Shows a record. Enter folds the element under the cursor, or loads the rest of a large value."""

    COMPONENT_CLASSES = {*TONES}
    BINDINGS = keys(
        "grid.down", "grid.up", "grid.top", "grid.bottom", "grid.page-down", "grid.page-up", "grid.open",
    )  # fmt: skip

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._record: BufferedRecord | None = None
        self._fmt = Formatter()
        self._now_ms = 0
        self._view: View = "auto"
        self._folded: set[str] = set()
        self._is_whole = False
        self._lines: list[DetailLine] = []
        self._cursor = 0
        self._drawn: tuple[object, ...] = ()

    def show(self, record: BufferedRecord | None, fmt: Formatter, now_ms: int, view: View) -> None:
        """Show a record; free if it is shown already."""
        if record is None or self._record is None or record.serial != self._record.serial:
            self._folded.clear()
            self._is_whole = False
            self._cursor = 0
            if record is not None:
                self.scroll_to(0, 0, animate=False, immediate=True)
        self._record, self._fmt, self._now_ms, self._view = record, fmt, now_ms, view
        self._lay_out()

    def _lay_out(self) -> None:
        record = self._record
        width = max(20, self.size.width - 1)
        second = self._now_ms // 1000 if self._fmt.zone == "relative" else 0
        drawn = (
            None if record is None else record.serial, self._fmt, second, self._view, width, self.size.height < LOW, self._is_whole,
            tuple(sorted(self._folded)),
        )  # fmt: skip
        if drawn == self._drawn:
            return
        self._drawn = drawn
        if record is not None and self._is_whole and record.payload_bytes > BIG_BYTES:
            self._lay_out_large(width)
            return
        self._set_lines([] if record is None else self._made(record, width))

    def _made(self, record: BufferedRecord, width: int) -> list[DetailLine]:
        lines = detail_lines(
            record,
            self._fmt,
            self._now_ms,
            view=self._view,
            folded=frozenset(self._folded),
            is_whole=self._is_whole,
            is_low=self.size.height < LOW,
            width=width,
        )
        return list(wrapped(lines, width))

    @work(exclusive=True, group="pane")
    async def _lay_out_large(self, width: int) -> None:
        record = self._record
        if record is None:
            return
        self._set_lines([DetailLine((("formatting ...", "dim"),))])
        lines = await asyncio.to_thread(self._made, record, width)
        if self._record is not None and record.serial == self._record.serial:
            self._set_lines(lines)

    def _set_lines(self, lines: list[DetailLine]) -> None:
        self._lines = lines
        self._cursor = min(self._cursor, max(0, len(lines) - 1))
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, index = self.size.width, self.scroll_offset.y + y
        if index >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[index]
        over = Style()
        if index == self._cursor and self.has_focus:
            over = Style(reverse=True)
        parts = [Segment(one_line(text), tone_style(self, tone) + over) for text, tone in line.spans]
        if over:
            parts.append(Segment(" " * width, over))
        return Strip(parts).crop_extend(0, width, self.rich_style).apply_style(self.rich_style)

    @on(events.Resize)
    def fit_again(self) -> None:
        self._lay_out()

    @on(events.Focus)
    @on(events.Blur)
    def focus_changed(self) -> None:
        self.refresh()

    def _put_cursor(self, index: int) -> None:
        self._cursor = min(max(index, 0), max(0, len(self._lines) - 1))
        self.reveal(self._cursor)
        self.refresh()

    def action_cursor(self, by: int) -> None:
        self._put_cursor(self._cursor + by)

    def action_open(self) -> None:
        if not self._lines:
            return
        line = self._lines[self._cursor]
        if line.load:
            self._is_whole = True
        elif line.path is not None:
            self._folded ^= {line.path}
        else:
            return
        self._lay_out()

    def on_click(self, event: events.Click) -> None:
        self._put_cursor(self.scroll_offset.y + event.y)
        self.action_open()
