"""Templates by name: use one, save the form as one, remove one; and a list of the fields."""

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from yak.client.templates.fields import FIELDS, KEEP_FORM
from yak.errors import YakError
from yak.tui.produce.form import Form
from yak.tui.produce.saved import Saved, TemplateFolder
from yak.tui.rows.cells import Cell, Column, Row
from yak.tui.widgets.dialogs import ConfirmDialog, Field, FormDialog
from yak.tui.widgets.grid import Grid

if TYPE_CHECKING:
    from yak.tui.app import YakApp

_COLUMNS = (Column("NAME", 12, most=30), Column("WHAT IT MAKES", 20, most=200, flex=1), Column("FROM", 5))
_FIELD_COLUMNS = (Column("FIELD", 10, most=40), Column("BECOMES, IN KEY, VALUE AND HEADERS", 20, most=80, flex=1))


class TemplateDialog(ModalScreen[Saved | None]):
    """Returns the template to use, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "leave"),
        Binding("a", "keep", "keep"),
        Binding("X", "remove", "remove"),
    ]
    AUTO_FOCUS = "Grid"
    app: "YakApp"

    def __init__(self, folder: TemplateFolder, form: Form) -> None:
        super().__init__()
        self._folder, self._form = folder, form
        self._saved: dict[str, Saved] = {}

    def compose(self) -> ComposeResult:
        """Build the list and the fields."""
        with Vertical(id="dialog", classes="picking") as dialog:
            dialog.border_title = "Templates"
            dialog.border_subtitle = "enter use   a keep the form as one   X remove   esc leave"
            yield Grid(id="template-list")
            yield Grid(id="template-fields", has_cursor=False)

    def on_mount(self) -> None:
        """Show the list."""
        self.query_one("#template-fields", Grid).show(_FIELD_COLUMNS, _field_rows())
        self.show()

    @work(exclusive=True, group="list")
    async def show(self) -> None:
        """Read all templates. An unreadable one is reported and left out."""
        found: dict[str, Saved] = {}
        try:
            for name in await asyncio.to_thread(self._folder.names):
                try:
                    found[name] = await asyncio.to_thread(self._folder.load, name)
                except YakError as error:
                    self.app.show_error(error)
        except YakError as error:
            self.app.show_error(error)
        self._saved = found
        self.query_one("#template-list", Grid).show(_COLUMNS, [_row(each) for each in found.values()])

    @on(Grid.Opened, "#template-list")
    def use(self, event: Grid.Opened) -> None:
        """Use the template."""
        self.dismiss(self._saved[event.row.key])

    @work(exclusive=True, group="change")
    async def action_keep(self) -> None:
        """Save the form as a template."""
        values = await self.app.push_screen_wait(
            FormDialog(
                "Keep the form as a template",
                [
                    Field("name", "Name", self._form.topic, "orders of today", is_needed=True),
                    Field("about", "What it makes", "", "a few words"),
                ],
                command=lambda given: f"# {self._folder.path_of(given['name'])}",
                yes="Keep",
            )
        )
        if values is None:
            return
        try:
            path = await asyncio.to_thread(self._folder.save, values["name"], self._form, values["about"])
        except YakError as error:
            self.app.show_error(error)
            return
        self.app.notice(f"kept in {path}")
        self.show()

    @work(exclusive=True, group="change")
    async def action_remove(self) -> None:
        """Remove one of the user's own templates."""
        row = self.query_one("#template-list", Grid).cursor_row
        saved = self._saved.get(row.key) if row is not None else None
        if saved is None:
            return
        if saved.is_built_in:
            self.app.notice(f"{saved.name} comes with YAK and stays; keep one of that name to have your own", "warn")
            return
        path = self._folder.path_of(saved.name)
        if await self.app.push_screen_wait(ConfirmDialog("Remove a template", saved.name, command=f"rm '{path}'")):
            try:
                await asyncio.to_thread(self._folder.remove, saved.name)
            except YakError as error:
                self.app.show_error(error)
            self.show()

    def action_leave(self) -> None:
        """Close without a template."""
        self.dismiss(None)


def _row(saved: Saved) -> Row:
    whose = Cell("yak", "dim") if saved.is_built_in else Cell("yours", "good")
    about = saved.about or " ".join(saved.form.value.split())[:100]
    return Row(saved.name, (Cell(saved.name, "strong"), Cell(about), whose))


def _field_rows() -> list[Row]:
    rows = [(kind.form, kind.becomes) for kind in FIELDS.values()] + [KEEP_FORM]
    return [Row(form, (Cell(form, "accent"), Cell(words))) for form, words in rows]
