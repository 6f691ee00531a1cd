"""Dialogs: a question, a form, a text, a menu, a line of input. Before a change they show the equivalent command line."""

import asyncio
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen, ScreenResultType
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Button, Checkbox, Input, Label, OptionList, Select, Static
from textual.widgets.option_list import Option

from yak.errors import YakError
from yak.plain_text import one_line
from yak.tui.widgets.frame import plain_title

if TYPE_CHECKING:
    from yak.tui.app import YakApp


class Check(Checkbox):
    """`X` inside while it is on, empty while it is off."""

    def __init__(self, label: str, value: bool, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(label, value, id=id, compact=True)
        self.BUTTON_INNER = "X" if value else " "

    def watch_value(self) -> None:
        self.BUTTON_INNER = "X" if self.value else " "
        super().watch_value()


class FieldsDialog(ModalScreen[ScreenResultType]):
    """A dialog with fields. The app holds the keys that are typed while it opens, until its first field has the focus."""

    app: "YakApp"
    is_open = False
    takes_text = True

    def open_at(self, field: Widget) -> None:
        """Focus this field; then take the keys that were typed."""
        field.focus()  # which goes through the app's queue
        self.app.call_later(self.app.take_keys_behind_opening, self)


class ConfirmDialog(FieldsDialog[bool]):
    """Yes or no. `typed`: the text to type as confirmation. `command`: the equivalent command line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "dismiss(False)", "no"),
        Binding("y", "dismiss(True)", "yes"),
    ]
    AUTO_FOCUS = ""

    def __init__(self, title: str, text: str, *, command: str = "", typed: str = "", yes: str = "Yes") -> None:
        super().__init__()
        self._title, self._text, self._command, self._yes = title, text, command, yes
        self._typed = one_line(typed)  # as the title shows it: an input takes no control characters
        self.takes_text = bool(typed)

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = plain_title(self._title)
            if self.app.is_production:
                yield Static(f"This is {self.app.source.title}: PROD", classes="dialog-prod", markup=False)
            yield Static(self._text, classes="dialog-text", markup=False)
            if self._typed:
                yield Label(f"Type {self._typed} to confirm:", markup=False)
                yield Input(id="typed", placeholder=self._typed, compact=True)
            if self._command:
                yield Static(f"$ {self._command}", classes="dialog-command", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(
                    f"{self._yes}" + ("" if self._typed else " (y)"),
                    variant="error",
                    id="yes",
                    disabled=bool(self._typed),
                )
                yield Button("No (esc)", id="no", action="screen.dismiss(False)")

    def on_mount(self) -> None:
        self.open_at(self.query_one("#typed" if self._typed else "#no"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable `y` if a text must be typed: then only enter and the button confirm."""
        if action == "dismiss" and self._typed and True in parameters:
            return False
        return super().check_action(action, parameters)

    @on(Input.Changed, "#typed")
    def compare(self, event: Input.Changed) -> None:
        self.query_one("#yes", Button).disabled = event.value != self._typed

    @on(Input.Submitted, "#typed")
    def submit(self, event: Input.Submitted) -> None:
        if event.value == self._typed:
            self.dismiss(True)

    @on(Button.Pressed, "#yes")
    def confirm(self) -> None:
        self.dismiss(True)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form. `choices` makes it a selection; `is_check` a checkbox ("true", "false")."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    choices: Sequence[str] = ()
    is_check: bool = False
    is_needed: bool = False

    @property
    def widget_id(self) -> str:
        """The id of its widget. Config names have dots, which an id may not contain."""
        return f"field-{self.name.replace('.', '-')}"


FormCommand = Callable[[Mapping[str, str]], str]
"""The command line of a form's values. Raises YakError for invalid ones."""


class FormDialog(FieldsDialog[dict[str, str] | None]):
    """A form, and the command line that it produces as the user types. Returns the values, or None.

    `command(values)` writes that line. If it raises YakError, the error is shown and the form cannot be sent.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "no"), Binding("ctrl+s", "send", "send")]

    def __init__(
        self, title: str, fields: Sequence[Field], *, command: FormCommand, text: str = "", yes: str = "Do it"
    ) -> None:
        super().__init__()
        self._title, self._fields, self._command, self._text, self._yes = title, fields, command, text, yes

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = plain_title(self._title)
            if self._text:
                yield Static(self._text, classes="dialog-text", markup=False)
            with VerticalScroll(id="fields"):
                for field in self._fields:
                    with Horizontal(classes="field"):
                        yield Label("" if field.is_check else field.label, classes="field-label", markup=False)
                        yield self._widget(field)
            yield Static("", id="form-error", markup=False)
            yield Static("", classes="dialog-command", id="form-command", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(f"{self._yes} (^s)", variant="primary", id="yes", action="screen.send")
                yield Button("Cancel (esc)", id="no", action="screen.dismiss")

    def _widget(self, field: Field) -> Input | Select[str] | Checkbox:
        if field.is_check:
            return Check(field.label, field.value == "true", id=field.widget_id)
        if field.choices:
            options = [(each, each) for each in field.choices]
            value = field.value or field.choices[0]
            return Select(options, value=value, allow_blank=False, id=field.widget_id, compact=True)
        return Input(field.value, placeholder=field.hint, id=field.widget_id, compact=True)

    def on_mount(self) -> None:
        self._validate()
        self.open_at(self.query_one(f"#{self._fields[0].widget_id}" if self._fields else "#yes"))

    def values(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for field in self._fields:
            widget = self.query_one(f"#{field.widget_id}")
            if isinstance(widget, Checkbox):
                found[field.name] = "true" if widget.value else "false"
            elif isinstance(widget, Select):
                found[field.name] = str(widget.value)
            elif isinstance(widget, Input):
                found[field.name] = widget.value.strip()
        return found

    def _validate(self) -> bool:
        values = self.values()
        missing = [field.label for field in self._fields if field.is_needed and not values[field.name]]
        error, command = "", ""
        if missing:
            error = f"{missing[0]} is needed"
        else:
            try:
                command = self._command(values)
            except YakError as refused:
                error = refused.message + (f": {refused.why}" if refused.why else "")
        self.query_one("#form-error", Static).update(error)
        self.query_one("#form-command", Static).update(f"$ {command}" if command else "")
        self.query_one("#yes", Button).disabled = bool(error)
        return not error

    @on(Input.Changed)
    @on(Select.Changed)
    @on(Checkbox.Changed)
    def validate(self) -> None:
        if self.is_mounted and self.query("#form-error"):
            self._validate()

    @on(Input.Submitted)
    def next_or_send(self) -> None:
        self.focus_next()

    def action_send(self) -> None:
        if self._validate():
            self.dismiss(self.values())


class TextDialog(ModalScreen[None]):
    """A text to read: help, notices, an explanation. Escape, q and enter close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,i", "dismiss", "close"),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("ctrl+d,pagedown", "scroll(10)", show=False),
        Binding("ctrl+u,pageup", "scroll(-10)", show=False),
    ]

    def __init__(self, title: str, content: object) -> None:
        super().__init__()
        self._title, self._content = title, content

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog", classes="reading") as dialog:
            dialog.border_title = plain_title(self._title)
            dialog.border_subtitle = "esc close"
            yield Static(self._content, id="text", markup=False)  # type: ignore[arg-type]

    def action_scroll(self, by: int) -> None:
        self.query_one("#dialog").scroll_relative(y=by, animate=False)


class ChoiceMenu(ModalScreen[str | None]):
    """Returns the chosen letter, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close")]

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="menu") as dialog:
            dialog.border_title = plain_title(self._title)
            dialog.border_subtitle = "esc close"
            yield OptionList(*(Option(f"{letter}  {name}", id=letter) for letter, name in self._choices), compact=True)

    def on_key(self, event: events.Key) -> None:
        if event.character is not None and event.character in {letter for letter, _ in self._choices}:
            event.stop()
            self.dismiss(event.character)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)


class JumpDialog(ModalScreen[Widget | None]):
    """Returns the panel whose letter was typed."""

    AUTO_FOCUS = ""

    def __init__(self, panels: Sequence[Widget]) -> None:
        super().__init__()
        self._panels = dict(zip(string.ascii_lowercase, panels, strict=False))

    def compose(self) -> ComposeResult:
        for letter, panel in self._panels.items():
            label = Label(f" {letter} ", classes="jump-letter")
            region = panel.region
            label.styles.offset = (region.x, max(0, region.y))
            yield label

    def on_key(self, event: events.Key) -> None:
        """Choose a panel by its letter; any other key closes."""
        event.stop()
        self.dismiss(self._panels.get(event.key))


class FunctionSuggester(Suggester):
    """Suggests a function's completion of the typed text. `in_thread`: the function blocks."""

    def __init__(self, completion: Callable[[str], str | None], *, in_thread: bool = False) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._completion, self._in_thread = completion, in_thread

    async def get_suggestion(self, value: str) -> str | None:
        if self._in_thread:
            return await asyncio.to_thread(self._completion, value)
        return self._completion(value) or None


class Prompt(FieldsDialog[str | None]):
    """Returns the typed text; None after escape.

    `changed` is called at each letter, and at enter, and returns an error text: enter does not close the prompt then.
    """

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "leave"),
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
        with Horizontal(id="prompt"):
            yield Label(self._sign, id="prompt-sign")
            suggester = FunctionSuggester(self._completion) if self._completion else None
            yield Input(
                self._value,
                suggester=suggester,
                placeholder=self._placeholder,
                select_on_focus=False,
                compact=True,
                id="prompt-input",
            )
            yield Static("", id="prompt-error", markup=False)

    def on_mount(self) -> None:
        self.open_at(self.query_one(Input))

    def on_unmount(self) -> None:
        """Let no key wait for a prompt that another screen has replaced."""
        self.app.call_later(self.app.take_keys_behind, self)

    @on(Input.Changed)
    def check_input(self, event: Input.Changed) -> None:
        self._check_input(event.value)

    def _check_input(self, text: str) -> str:
        wrong = "" if self._changed is None else self._changed(text)
        self.query_one("#prompt-error", Static).update(wrong)
        return wrong

    @on(Input.Submitted)
    def done(self, event: Input.Submitted) -> None:
        if self._check_input(event.value):
            self.app.call_later(self.app.take_keys_behind, self)  # which waited for the end of this prompt
        else:
            self.dismiss(event.value)

    def action_complete(self) -> None:
        field = next(iter(self.query(Input)), None)
        if field is not None and self._completion is not None:
            found = self._completion(field.value)
            if found:
                field.value = found
                field.cursor_position = len(found)
