"""The input line at the bottom, after `:` or `/`."""

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, Label, Static


class _Completing(Suggester):
    def __init__(self, completion: Callable[[str], str]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._completion = completion

    async def get_suggestion(self, value: str) -> str | None:
        return self._completion(value) or None


class Prompt(ModalScreen[str | None]):
    """Returns the typed text; None after escape. `changed` is called at each letter and returns an error text."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave"),
        Binding("tab", "complete", "complete", priority=True),
    ]

    def __init__(
        self,
        sign: str,
        *,
        value: str = "",
        completion: Callable[[str], str] | None = None,
        changed: Callable[[str], str] | None = None,
        placeholder: str = "",
    ) -> None:
        super().__init__()
        self._sign, self._value, self._changed, self._placeholder = sign, value, changed, placeholder
        self._completion = completion

    def compose(self) -> ComposeResult:
        """Build the input line."""
        with Horizontal(id="prompt"):
            yield Label(self._sign, id="prompt-sign")
            suggester = _Completing(self._completion) if self._completion else None
            yield Input(
                self._value, suggester=suggester, placeholder=self._placeholder, compact=True, id="prompt-input"
            )
            yield Static("", id="prompt-error", markup=False)

    def on_mount(self) -> None:
        """Focus the field, after the keys that came before."""
        self.call_later(self._focus)

    def _focus(self) -> None:
        if self.message_queue_size:  # keys that were typed while this was mounted: `on_key` passes them on first
            self.call_later(self._focus)
        else:
            self.set_focus(self.query_one(Input), scroll_visible=False)

    def on_key(self, event: events.Key) -> None:
        """Pass a key that was typed before the field had the focus on to the field, in order."""
        if self.focused is None:
            event.stop()
            event.prevent_default()
            self.query_one(Input)._forward_event(events.Key(event.key, event.character))  # noqa: SLF001

    @on(Input.Changed)
    def tell(self, event: Input.Changed) -> None:
        """Pass each change on, and show its error."""
        if self._changed is not None:
            wrong = self._changed(event.value)
            self.query_one("#prompt-error", Static).update(wrong)

    @on(Input.Submitted)
    def done(self, event: Input.Submitted) -> None:
        """Return the text."""
        self.dismiss(event.value)

    def action_complete(self) -> None:
        """Accept the suggestion."""
        field = next(iter(self.query(Input)), None)
        if field is not None and self._completion is not None:
            found = self._completion(field.value)
            if found:
                field.value = found
                field.cursor_position = len(found)

    def action_leave(self) -> None:
        """Close without a text."""
        self.dismiss(None)
