"""Lines of cells in a panel: no cursor, redrawn when they change."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from yak.tui.rows.cells import Cell
from yak.tui.widgets.columns import cut

_TONES = ("good", "warn", "bad", "dim", "accent", "strong")


class Lines(Widget, can_focus=False):
    """Lines of cells with a space between them."""

    COMPONENT_CLASSES = {f"lines--{tone}" for tone in _TONES}

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._lines: list[list[Cell]] = []

    def show(self, lines: Sequence[Sequence[Cell]]) -> None:
        """Show these lines; unchanged ones are not redrawn."""
        before, self._lines = self._lines, [list(line) for line in lines]
        if before != self._lines:
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        parts = [Segment(" ")]
        for number, cell in enumerate(self._lines[y]):
            if number:
                parts.append(Segment(" "))
            style = self.get_component_rich_style(f"lines--{cell.tone}", partial=True) if cell.tone else Style()
            parts.append(Segment(cut(cell.text, len(cell.text)), style))
        return Strip(parts).crop_extend(0, width, self.rich_style).apply_style(self.rich_style)
