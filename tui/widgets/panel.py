"""A frame with a title around something."""

from textual.containers import Vertical
from textual.widget import Widget


class Panel(Vertical):
    """`Panel("Brokers", Grid(id="brokers"))`; `subtitle` stands at the lower edge."""

    def __init__(self, title: str, *children: Widget, id: str | None = None, subtitle: str = "") -> None:  # noqa: A002 - Textual's name
        super().__init__(*children, id=id, classes="panel")
        self.border_title = title
        self.border_subtitle = subtitle

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Another title; drawn again only if it is another."""
        if self.border_title != title:
            self.border_title = title
        if self.border_subtitle != subtitle:
            self.border_subtitle = subtitle
