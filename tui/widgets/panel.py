"""A frame with a title around something."""

from textual.containers import Vertical
from textual.widget import Widget

from yak.tui.widgets.plain import title as harmless


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
            self.border_title = harmless(title)
        if before[1] != subtitle:
            self.border_subtitle = harmless(subtitle)
