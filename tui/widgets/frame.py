"""The frame of each screen: lines of cells, panels with titles, the key bar and the rail."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, get_args

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from yak.plain_text import one_line
from yak.tui.keys import EVERYWHERE, KEYS
from yak.tui.rows.cells import Cell, Tone, cut, packed

if TYPE_CHECKING:
    from yak.tui.app import YakApp


TONES: Final = frozenset(f"tone--{tone}" for tone in get_args(Tone) if tone)
"""Component classes for the tones of cells; `yak.tcss` gives them colours."""


def tone_style(widget: Widget, tone: Tone) -> Style:
    """The style of a tone in a widget that has `TONES` among its component classes."""
    return widget.get_component_rich_style(f"tone--{tone}", partial=True) if tone else Style()


def plain(text: str, width: int, lines_max: int) -> list[str]:
    """Text wrapped at spaces and line ends."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, width) or [""]
    return lines[: max(0, lines_max)]


def plain_title(text: str) -> Content:
    """A frame's title as Content: in a string Textual would parse markup, and a group's name may be `[red]`."""
    return Content(one_line(text))


class Line(Widget):
    """Cells from the left and cells at the right end; redrawn when they change."""

    COMPONENT_CLASSES = {*TONES}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._left: Sequence[Cell] = ()
        self._right: Sequence[Cell] = ()

    def show(self, left: Sequence[Cell], right: Sequence[Cell] = ()) -> None:
        if (list(left), list(right)) != (list(self._left), list(self._right)):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y:
            return Strip.blank(width, self.rich_style)
        right = _segments(self, self._right, 2)
        right_width = sum(cell_len(each.text) for each in right)
        left = _segments(self, self._left, 2)
        room = max(0, width - (4 if right else 2) - right_width)
        used = sum(cell_len(each.text) for each in left)
        if used > room:
            left = _shortened(left, room)
            used = sum(cell_len(each.text) for each in left)
        parts = [Segment(" "), *left, Segment(" " * max(0, width - 2 - right_width - used)), *right, Segment(" ")]
        return Strip(parts).crop_extend(0, width, self.rich_style).apply_style(self.rich_style)


def _segments(widget: Widget, cells: Sequence[Cell], gap: int) -> list[Segment]:
    parts: list[Segment] = []
    for number, cell in enumerate(cells):
        if number:
            parts.append(Segment(" " * gap))
        parts.append(Segment(one_line(cell.text), tone_style(widget, cell.tone)))
    return parts


def _shortened(parts: list[Segment], room: int) -> list[Segment]:
    """The cells that fit, and a part of the next one if more than 6 cells of width remain."""
    fitting: list[Segment] = []
    for part in parts:
        length = cell_len(part.text)
        if length <= room:
            fitting.append(part)
            room -= length
        else:
            if room > 6 and part.text.strip():
                fitting.append(Segment(cut(part.text, room), part.style))
            break
    return fitting


class Lines(Widget, can_focus=False):
    """Lines of cells with a space between them. With `wraps`, a line that does not fit goes on below."""

    COMPONENT_CLASSES = {*TONES}

    def __init__(self, *, id: str | None = None, wraps: bool = False) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._lines: list[list[Cell]] = []
        self._wraps = wraps

    def fitted(self, lines: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
        width = self.size.width - 1
        if not self._wraps or width <= 0:
            return [list(line) for line in lines]
        return [part for line in lines for part in (packed(line, width) if _length(line) > width else [list(line)])]

    def show(self, lines: Sequence[Sequence[Cell]]) -> None:
        """Show these lines; unchanged ones are not redrawn."""
        before, self._lines = self._lines, self.fitted(lines)
        if before != self._lines:
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        parts = [Segment(" "), *_segments(self, self._lines[y], 1)]
        return Strip(parts).crop_extend(0, width, self.rich_style).apply_style(self.rich_style)


def _length(line: Sequence[Cell]) -> int:
    return sum(cell_len(cell.text) + 1 for cell in line)


class Panel(Vertical):
    """`Panel("Brokers", Grid(id="brokers"))`; `subtitle` is on the lower edge."""

    def __init__(self, title: str, *children: Widget, id: str | None = None, subtitle: str = "") -> None:  # noqa: A002 - Textual's name
        super().__init__(*children, id=id, classes="panel")
        self._titles = ("", "")
        self.entitle(title, subtitle)

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Set title and subtitle; redrawn only if they change."""
        before, self._titles = self._titles, (title, subtitle)
        if before[0] != title:
            self.border_title = plain_title(title)
        if before[1] != subtitle:
            self.border_subtitle = plain_title(subtitle)


BAR_KEYS_MAX = 8
_RAIL_WIDTH = 20


class KeyBar(Line):
    """Up to eight keys with a word each, for the focused widget and the screen."""

    def refresh_keys(self) -> None:
        screen = self.screen
        own: list[Cell] = []
        general: list[Cell] = []
        seen: set[str] = set()
        room = max(20, self.size.width - 2)
        for active in screen.active_bindings.values():
            binding = active.binding
            if not binding.show or not active.enabled or binding.id is None or binding.id in seen:
                continue
            seen.add(binding.id)
            cells = general if binding.id in EVERYWHERE or binding.id not in KEYS else own
            cells.append(Cell(f"{self.app.get_key_display(binding)} {binding.description}"))
        last = [each for each in general if each.text.endswith(" help")]  # the key that explains those left out
        room -= sum(len(each.text) + 2 for each in last)
        chosen: list[Cell] = []
        for cell in (*own, *(each for each in general if each not in last)):
            needed = len(cell.text) + 2
            if len(chosen) + len(last) == BAR_KEYS_MAX or needed > room:
                continue
            chosen.append(cell)
            room -= needed
        self.show([*chosen, *last])

    def on_resize(self) -> None:
        self.refresh_keys()


class Rail(Static):
    """The list of screens and contexts, on wide windows."""

    app: "YakApp"

    def paint(self) -> None:
        lines = []
        for digit, name, label in self.app.screens_by_digit():
            is_here = name == self.app.current_mode
            text = f" {digit} {label}"
            here = f" {self.app.fmt.sign('here')}" if is_here else ""
            style = "bold $accent" if is_here else "$dim" if name in self.app.source.lacks else ""
            lines.append(Content.styled(f"{text:<17}{here}", style))
        lines += [Content(""), Content.styled(" Context", "bold")]
        for name, is_used in self.app.context_names():
            sign = self.app.fmt.sign("up" if is_used else "down")
            room = min(16, _RAIL_WIDTH - 2 - len(sign))
            first, *rest = textwrap.wrap(one_line(name), room) or [""]
            style = "" if is_used else "$dim"
            lines.append(Content.styled(f" {first:<{room}} {sign}", style))
            lines += [Content.styled(f" {part}", style) for part in rest]
        self.update(Content("\n").join(lines))

    def on_click(self, event: events.Click) -> None:
        screens = self.app.screens_by_digit()
        row = event.get_content_offset(self)
        if row is not None and row.y < len(screens):
            self.app.action_go(screens[row.y][1])
