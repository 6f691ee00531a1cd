"""A bar over a whole range with the present position; a click or a drag moves it."""

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from yak.tui.formatter import Formatter
from yak.tui.rows.cells import cut

_LABEL_GAP = 2


class Timeline(Widget):
    """`first` to `last`, with labels at both ends; `place` is the position, `mark` a marked one."""

    COMPONENT_CLASSES = {"timeline--bar", "timeline--past", "timeline--place", "timeline--mark", "timeline--label"}

    class Moved(Message):
        """Another position was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._content: tuple[int, int, int, int | None, str, str, Formatter] | None = None
        self._is_dragged = False

    def show(
        self, first: int, last: int, place: int, mark: int | None, labels: tuple[str, str], fmt: Formatter
    ) -> None:
        """Show this; redrawn if it changed."""
        now = (first, last, place, mark, labels[0], labels[1], fmt)
        if now != self._content:
            self._content = now
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y or self._content is None:
            return Strip.blank(width, self.rich_style)
        first, last, place, mark, left, right, fmt = self._content
        room = self._bar()[1]
        label = self.get_component_rich_style("timeline--label", partial=True)
        parts = [Segment(" "), Segment(cut(left, cell_len(left)), label), Segment(" " * _LABEL_GAP)]
        here = place_of(place, first, last, room)
        marked = None if mark is None else place_of(mark, first, last, room)
        parts += [self._cell(cell, here, marked, fmt) for cell in range(room)]
        parts += [Segment(" " * _LABEL_GAP), Segment(cut(right, cell_len(right)), label)]
        return Strip(parts).crop_extend(0, width, self.rich_style).apply_style(self.rich_style)

    def _cell(self, cell: int, here: int, marked: int | None, fmt: Formatter) -> Segment:
        if cell == here:
            return Segment(fmt.sign("full"), self._style("place"))
        if cell == marked:
            return Segment(fmt.sign("mark"), self._style("mark"))
        if cell < here:
            return Segment("=" if fmt.is_ascii else "━", self._style("past"))
        return Segment("-" if fmt.is_ascii else "─", self._style("bar"))

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"timeline--{name}", partial=True)

    def _bar(self) -> tuple[int, int]:
        if self._content is None:
            return 0, 1
        left, right = cell_len(self._content[4]), cell_len(self._content[5])
        start = 1 + left + _LABEL_GAP
        return start, max(1, self.size.width - start - right - _LABEL_GAP - 1)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._is_dragged = True
        self.capture_mouse()
        self._go_to(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._is_dragged:
            self._go_to(event.x)

    def on_mouse_up(self) -> None:
        self._is_dragged = False
        self.release_mouse()

    def _go_to(self, x: int) -> None:
        if self._content is not None:
            start, room = self._bar()
            self.post_message(self.Moved(value_at(x - start, self._content[0], self._content[1], room)))


def place_of(value: int, first: int, last: int, room: int) -> int:
    """The cell for a value, in a bar of `room` cells."""
    if last <= first:
        return room - 1
    share = (min(max(value, first), last) - first) / (last - first)
    return round(share * (room - 1))


def value_at(cell: int, first: int, last: int, room: int) -> int:
    """The value for a cell of the bar."""
    if room < 2:
        return last
    share = min(max(cell, 0), room - 1) / (room - 1)
    return first + round(share * (last - first))
