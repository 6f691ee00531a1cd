"""Letters on all panels: type one, and the focus is there."""

import string
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Label


class JumpDialog(ModalScreen[Widget | None]):
    """Gives the panel whose letter was typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave")]
    AUTO_FOCUS = ""

    def __init__(self, panels: Sequence[Widget]) -> None:
        super().__init__()
        self._panels = dict(zip(string.ascii_lowercase, panels, strict=False))

    def compose(self) -> ComposeResult:
        """A letter where each panel begins."""
        for letter, panel in self._panels.items():
            label = Label(f" {letter} ", classes="jump-letter")
            region = panel.region
            label.styles.offset = (region.x, max(0, region.y))
            yield label

    def on_key(self, event: events.Key) -> None:
        """A letter, or anything else, which leaves."""
        if event.key == "escape":
            return
        event.stop()
        self.dismiss(self._panels.get(event.key))

    def action_leave(self) -> None:
        """Escape."""
        self.dismiss(None)
