"""One line of cells: the header, the crumbs, the notice."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from yak.tui.rows.cells import Cell
from yak.tui.widgets.columns import cut

_TONES = ("good", "warn", "bad", "dim", "accent", "strong")


class Line(Widget):
    """Cells from the left and cells at the right end; redrawn when they change."""

    COMPONENT_CLASSES = {f"line--{tone}" for tone in _TONES}

    def __init__(self, *, id: str | None = None, gap: str = "  ") -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._left: Sequence[Cell] = ()
        self._right: Sequence[Cell] = ()
        self._gap = gap

    def show(self, left: Sequence[Cell], right: Sequence[Cell] = ()) -> None:
        """Show these cells."""
        if (list(left), list(right)) != (list(self._left), list(self._right)):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line, cut at its end if it is too long."""
        width = self.size.width
        if y:
            return Strip.blank(width, self.rich_style)
        right = self._segments(self._right)
        right_width = sum(cell_len(each.text) for each in right)
        left = self._segments(self._left)
        room = max(0, width - (4 if right else 2) - right_width)
        used = sum(cell_len(each.text) for each in left)
        if used > room:
            left = _shortened(left, room)
            used = sum(cell_len(each.text) for each in left)
        parts = [Segment(" "), *left, Segment(" " * max(0, width - 2 - right_width - used)), *right, Segment(" ")]
        return Strip(parts).crop_extend(0, width, self.rich_style).apply_style(self.rich_style)

    def _segments(self, cells: Sequence[Cell]) -> list[Segment]:
        parts: list[Segment] = []
        for number, cell in enumerate(cells):
            style = self.get_component_rich_style(f"line--{cell.tone}", partial=True) if cell.tone else Style()
            if number:
                parts.append(Segment(self._gap))
            parts.append(Segment(cut(cell.text, cell_len(cell.text)), style))
        return parts


def _shortened(parts: list[Segment], room: int) -> list[Segment]:
    """The cells that fit, and a part of the next one if more than 6 cells of width remain."""
    kept: list[Segment] = []
    for part in parts:
        length = cell_len(part.text)
        if length <= room:
            kept.append(part)
            room -= length
        else:
            if room > 6 and part.text.strip():
                kept.append(Segment(cut(part.text, room), part.style))
            break
    return kept
