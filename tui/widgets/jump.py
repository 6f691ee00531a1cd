"""Letters on all panels: typing one moves the focus there."""

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
    """Returns the panel whose letter was typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave")]
    AUTO_FOCUS = ""

    def __init__(self, panels: Sequence[Widget]) -> None:
        super().__init__()
        self._panels = dict(zip(string.ascii_lowercase, panels, strict=False))

    def compose(self) -> ComposeResult:
        """Build a letter at the start of each panel."""
        for letter, panel in self._panels.items():
            label = Label(f" {letter} ", classes="jump-letter")
            region = panel.region
            label.styles.offset = (region.x, max(0, region.y))
            yield label

    def on_key(self, event: events.Key) -> None:
        """Choose a panel by its letter; any other key closes."""
        if event.key == "escape":
            return
        event.stop()
        self.dismiss(self._panels.get(event.key))

    def action_leave(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
