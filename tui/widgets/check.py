"""A checkbox that shows its state in a letter, not by colour alone."""

from textual.widgets import Checkbox


class Check(Checkbox):
    """`X` inside while it is on, empty while it is off."""

    def __init__(self, label: str, value: bool, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(label, value, id=id, compact=True)
        self.BUTTON_INNER = "X" if value else " "

    def watch_value(self) -> None:
        """Draw the new state."""
        self.BUTTON_INNER = "X" if self.value else " "
        super().watch_value()
