"""The table of all screens: draws only visible lines, and redraws only changed ones.

Textual's DataTable keeps a cell object for each field and lays out all rows. With a hundred thousand rows, or thirty
that change ten times a second, that takes most of a core (measured: 32 ms for 30 rows). Here rows are values, made when
they are visible and compared with the drawn ones.
"""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer

from yak.errors import UsageError
from yak.tui.keys import keys
from yak.tui.rows.cells import (
    Column,
    Row,
    RowList,
    Rows,
    Tone,
    changed_cells,
    column_at,
    cut,
    filtered,
    fit,
    sorted_rows,
)
from yak.tui.widgets.frame import TONES, plain, tone_style

FLASH_S = 0.4
_ALL = 1 << 30


class WithCursor(ScrollView, can_focus=True):
    """Lines with a cursor, which `action_cursor` moves by some lines, at most to the first or the last one."""

    def action_cursor(self, by: int) -> None:
        raise NotImplementedError

    def action_page(self, direction: int) -> None:
        self.action_cursor(direction * max(1, (self.size.height - 1) // 2))

    def action_top(self) -> None:
        self.action_cursor(-_ALL)

    def action_bottom(self) -> None:
        self.action_cursor(_ALL)

    def reveal(self, index: int, head: int = 0) -> None:
        """Scroll until a line is in sight, below `head` lines that do not scroll."""
        top, height = self.scroll_offset.y, max(1, self.size.height - head)
        if index < top:
            self.scroll_to(y=index, animate=False, immediate=True)
        elif index >= top + height:
            self.scroll_to(y=index - height + 1, animate=False, immediate=True)


class Grid(WithCursor):
    """A table with a cursor. `show()` gives it rows; the cursor stays on its row by key.

    Rows given as a list can be filtered and sorted; rows made on demand keep their order.
    """

    COMPONENT_CLASSES = {"grid--head", "grid--cursor", "grid--mark", "grid--empty", *TONES}
    BINDINGS = keys("grid")
    is_stale: reactive[bool] = reactive(False)
    """The rows are stale: drawn dim."""

    class _OfRow(Message):
        def __init__(self, grid: "Grid", row: Row | None) -> None:
            super().__init__()
            self.grid, self.row = grid, row

        @property
        def control(self) -> "Grid":
            return self.grid

    class Opened(_OfRow):
        """A row was opened by enter or a double click."""

        row: Row

    class Moved(_OfRow):
        """The cursor moved to another row."""

    def __init__(self, *, id: str | None = None, has_cursor: bool = True) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.columns: Sequence[Column] = ()
        self.displayed: Rows = RowList(())
        """The rows after filter and sort."""
        self.filter_text = ""
        self.is_following = False
        """Whether the cursor stays on the last row."""
        self.cursor_index = 0
        self.marked: set[str] = set()
        self._has_cursor = has_cursor
        self._given: Sequence[Row] | None = None
        self._sort: tuple[int, bool] | None = None
        """The column, and whether reversed."""
        self._cursor_key: str | None = None
        """The key of the row that the cursor stays on."""
        self._empty = ""
        self._widths: list[int] = []
        self._is_wide = False
        self._drawn: dict[int, tuple[object, ...]] = {}
        self._flashing: set[tuple[str, int]] = set()
        self._flash_timer: Timer | None = None

    # contents

    def show(
        self, columns: Sequence[Column], rows: Sequence[Row] | Rows, *, empty: str = "", is_wide: bool = False
    ) -> None:
        """Show these rows, or the text `empty` if there are none. The cost depends on the visible changes only."""
        is_new_head = tuple(columns) != tuple(self.columns) or is_wide != self._is_wide
        if is_new_head:
            if len(columns) != len(self.columns):
                self._sort = None
            self.columns, self._is_wide, self._widths = tuple(columns), is_wide, []
        is_new_empty = empty != self._empty
        self._empty = empty
        if isinstance(rows, Sequence):
            self._given = rows
            self._arrange()
        else:
            self._given, self.displayed = None, rows
        self._keep_cursor()
        # Without rows, only the text `empty` is drawn.
        self._lay_out(is_new_head=is_new_head or (is_new_empty and not len(self.displayed)))

    def set_filter(self, text: str) -> None:
        """Show only rows that match. Raises UsageError `bad-filter`, and keeps the old filter."""
        before, self.filter_text = self.filter_text, text
        try:
            self._arrange()
        except UsageError:
            self.filter_text = before
            raise
        self._keep_cursor()
        self._lay_out(is_new_head=False)

    @property
    def row_count(self) -> int:
        return len(self.displayed)

    def keys_in_sight(self) -> list[str]:
        return [row.key for row in self._in_sight()]

    @property
    def cursor_row(self) -> Row | None:
        is_there = self._has_cursor and self.cursor_index < len(self.displayed)
        return self.displayed.at(self.cursor_index) if is_there else None

    @property
    def cursor_key(self) -> str | None:
        row = self.cursor_row
        return None if row is None else row.key

    def move_to(self, place: int | str) -> None:
        """Put the cursor on a row, by index or key. A missing key does nothing."""
        index = self.displayed.place_of(place) if isinstance(place, str) else place
        if index is not None:
            self._put_cursor(index)

    @property
    def _top(self) -> int:
        """Lines of the heading: none if no column has a label."""
        return 1 if any(column.label for column in self.columns) else 0

    # internals

    def _arrange(self) -> None:
        """Filter and sort again. Raises UsageError `bad-filter`."""
        if self._given is None:
            return
        rows = filtered(self._given, self.filter_text) if self.filter_text else self._given
        if self._sort is not None and all(self._sort[0] < len(row.cells) for row in rows[:1]):
            rows = sorted_rows(rows, self._sort[0], is_reverse=self._sort[1])
        self.displayed = RowList(rows)

    def _keep_cursor(self) -> None:
        """Keep the cursor on its row, or on the last one."""
        count, moved = len(self.displayed), 0
        if not count:
            self.cursor_index = 0
            return
        if self.is_following:
            self.cursor_index = count - 1
        else:
            place = None if self._cursor_key is None else self.displayed.place_of(self._cursor_key)
            if place is not None:
                moved, self.cursor_index = place - self.cursor_index, place
            self.cursor_index = min(self.cursor_index, count - 1)
        before, self._cursor_key = self._cursor_key, self.displayed.at(self.cursor_index).key
        if moved and self.scroll_offset.y:  # the visible rows keep their place when rows are added before them
            self.call_after_refresh(self.scroll_relative, y=moved, animate=False)
        if before != self._cursor_key:
            self.post_message(self.Moved(self, self.cursor_row))

    def _lay_out(self, *, is_new_head: bool) -> None:
        widths = self._fit()
        size = Size(
            max(sum(widths) + 2 * len(widths), self.size.width if not self._is_wide else 1),
            len(self.displayed) + self._top,
        )
        if self.virtual_size != size:
            self.virtual_size = size
        if self.is_following:
            self._scroll_to_end()
            self.call_after_refresh(self._scroll_to_end)  # before the first layout the end is unknown
        if widths != self._widths or is_new_head:
            self._widths = widths
            self._drawn.clear()
            self.refresh()
            return
        self._refresh_changed()

    def _scroll_to_end(self) -> None:
        if self.is_following and self.scroll_offset.y != (end := self.max_scroll_y):
            self.scroll_to(y=end, animate=False, force=True, immediate=True)  # forced: no scroll bar before a layout

    def _fit(self) -> list[int]:
        return fit(
            self.columns, self._in_sight(), self._widths, self.size.width - self._bar_width(), is_wide=self._is_wide
        )

    def _bar_width(self) -> int:
        return 1 if len(self.displayed) + self._top > self.size.height else 0

    def _in_sight(self) -> list[Row]:
        first = self.scroll_offset.y
        return [self.displayed.at(index) for index in range(first, min(first + self.size.height, len(self.displayed)))]

    def _refresh_changed(self) -> None:
        top = self.scroll_offset.y
        for y in range(self._top, self.size.height):
            drawn = self._drawn.get(y)
            index = top + y - self._top
            now = self._state_of(index)
            if drawn == now:
                continue
            if drawn is not None:
                self._note_flash(drawn, now)
            self.refresh(Region(0, y, self.size.width, 1))

    def _state_of(self, index: int) -> tuple[object, ...]:
        """Everything that determines how a line is drawn."""
        if not 0 <= index < len(self.displayed):
            return (None, index == 0)
        row = self.displayed.at(index)
        return (
            row,
            index == self.cursor_index and self._has_cursor,
            row.key in self.marked,
            self.has_focus,
            self.is_stale,
        )

    def _note_flash(self, drawn: tuple[object, ...], now: tuple[object, ...]) -> None:
        if self.app.animation_level == "none":
            return
        self._flashing |= changed_cells(self.columns, drawn[0], now[0])
        if self._flashing and self._flash_timer is None:
            self._flash_timer = self.set_timer(FLASH_S, self._end_flash)

    def _end_flash(self) -> None:
        self._flash_timer = None
        self._flashing.clear()
        self._drawn.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        scroll_x, scroll_y = self.scroll_offset
        if y < self._top:
            return self._crop(self._head(), scroll_x, width)
        index = scroll_y + y - self._top
        state = self._drawn[y] = self._state_of(index)
        row = state[0]
        if not isinstance(row, Row):
            return self._blank(y, width)
        return self._crop(self._line(row, is_cursor=bool(state[1]), is_marked=bool(state[2])), scroll_x, width)

    def _crop(self, strip: Strip, left: int, width: int) -> Strip:
        base = self.rich_style
        return strip.crop_extend(left, left + width, base).apply_style(base)

    def _blank(self, y: int, width: int) -> Strip:
        if not len(self.displayed) and self._empty:
            lines = plain(self._empty, max(10, width - 4), self.size.height - 2)
            if 2 <= y < len(lines) + 2:
                style = self.get_component_rich_style("grid--empty", partial=True)
                return self._crop(Strip([Segment("  "), Segment(lines[y - 2], style)]), 0, width)
        return Strip.blank(width, self.rich_style)

    def _head(self) -> Strip:
        style = self.get_component_rich_style("grid--head", partial=True)
        parts = []
        for number, column in enumerate(self.columns):
            width = self._width(number)
            if not width:
                continue
            label = column.label
            if self._sort is not None and self._sort[0] == number:
                label += " v" if self._sort[1] else " ^"
            parts.append(Segment(" " + cut(label, width, is_right=column.is_right) + " ", style))
        return Strip(parts)

    def _width(self, number: int) -> int:
        return self._widths[number] if number < len(self._widths) else 0

    def _line(self, row: Row, *, is_cursor: bool, is_marked: bool) -> Strip:
        over = Style()
        if is_marked:
            over += self.get_component_rich_style("grid--mark", partial=True)
        if is_cursor:
            over += (
                Style(reverse=True) if self.has_focus else self.get_component_rich_style("grid--cursor", partial=True)
            )
        is_plain = is_cursor and self.has_focus  # one bar, regardless of the cells' tones
        parts = []
        for number, (column, cell) in enumerate(zip(self.columns, row.cells, strict=True)):
            width = self._width(number)
            if not width:
                continue
            tone: Tone = "" if is_plain else "dim" if self.is_stale else cell.tone
            style = tone_style(self, tone) + over
            if (row.key, number) in self._flashing:
                style += Style(reverse=not is_cursor)
            parts.append(Segment(" " + cut(cell.text, width, is_right=column.is_right) + " ", style))
        line = Strip(parts)
        if is_cursor or is_marked:
            line = line.extend_cell_length(max(self.size.width, line.cell_length), over)
        return line

    # user actions

    def _put_cursor(self, index: int) -> None:
        self.is_following = False
        if not len(self.displayed):
            return
        self.cursor_index = min(max(index, 0), len(self.displayed) - 1)
        self._cursor_key = self.displayed.at(self.cursor_index).key
        self.reveal(self.cursor_index, self._top)
        self._refresh_changed()
        self.post_message(self.Moved(self, self.cursor_row))

    def action_cursor(self, by: int) -> None:
        if self._has_cursor:
            self._put_cursor(self.cursor_index + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_across(self, by: int) -> None:
        self.scroll_relative(x=by, animate=False)

    def action_open(self) -> None:
        row = self.cursor_row
        if row is not None:
            self.post_message(self.Opened(self, row))

    def action_sort(self) -> None:
        """Sort by the first column, then by it in reverse, then by the next, at the end not at all."""
        columns = [number for number in range(len(self.columns)) if self._width(number)]
        if self._sort is not None and not self._sort[1]:
            self._sort_by((self._sort[0], True))
        elif columns:
            later = [number for number in columns if self._sort is None or number > self._sort[0]]
            self._sort_by((later[0], False) if later else None)

    def _sort_by(self, sort: tuple[int, bool] | None) -> None:
        if self._given is not None:
            self._sort = sort
            self._arrange()
            self._keep_cursor()
            self._lay_out(is_new_head=True)

    def on_click(self, event: events.Click) -> None:
        """Click on a row: move the cursor; a second click opens it. On a heading: sort by it."""
        y = event.y
        if y < self._top:
            number = column_at(self._widths, event.x + self.scroll_offset.x)
            if number is not None:
                self._sort_by((number, self._sort == (number, False)))
            return
        index = self.scroll_offset.y + y - self._top
        if index < len(self.displayed):
            self._put_cursor(index)
            if event.chain == 2:
                self.action_open()

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Other rows are visible: fit the columns to them."""
        super().watch_scroll_y(old, new)
        if round(old) != round(new):
            self._drawn.clear()
            widths = self._fit()
            self._widths = widths

    @on(events.Resize)
    def fit_again(self) -> None:
        self._widths = []
        self._lay_out(is_new_head=True)

    @on(events.Focus)
    @on(events.Blur)
    def watch_is_stale(self) -> None:
        """Redraw every line: the focus or the staleness changed."""
        self._drawn.clear()
        self.refresh()
