"""A short menu of names with a letter each; the letter, enter or a click chooses."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from yak.tui.widgets.plain import title


class ChoiceMenu(ModalScreen[str | None]):
    """Returns the chosen letter, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "close"),
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
    ]

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        """Build the list of entries."""
        with Vertical(id="dialog", classes="menu") as dialog:
            dialog.border_title = title(self._title)
            dialog.border_subtitle = "esc close"
            yield OptionList(*(Option(f"{letter}  {name}", id=letter) for letter, name in self._choices), compact=True)

    def on_key(self, event: events.Key) -> None:
        """Choose by an entry's letter."""
        if event.character is not None and event.character in {letter for letter, _ in self._choices}:
            event.stop()
            self.dismiss(event.character)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Choose by enter or a click."""
        self.dismiss(event.option.id)

    def action_move(self, by: int) -> None:
        """Move the cursor down or up."""
        menu = self.query_one(OptionList)
        menu.highlighted = ((menu.highlighted or 0) + by) % len(self._choices)

    def action_leave(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
