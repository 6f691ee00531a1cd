"""Chooses a file, by a path with completion or from a list of directories and files."""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from yak.errors import YakError
from yak.tui.formatter import Formatter
from yak.tui.produce.files import Entry, complete_path, directory_of, list_directory, start_directories
from yak.tui.rows.cells import Cell, Column, Row
from yak.tui.screens.base import FileUploaded
from yak.tui.widgets.dialogs import FunctionSuggester
from yak.tui.widgets.grid import Grid
from yak.view.formats import format_age

if TYPE_CHECKING:
    from yak.tui.app import YakApp


COLUMNS = (
    Column("NAME", 20, most=200, flex=1),
    Column("SIZE", 9, is_right=True),
    Column("CHANGED", 14, is_right=True, rank=1),
)


def file_rows(entries: Sequence[Entry], fmt: Formatter, now_ms: int) -> list[Row]:
    """One row per entry. Directories end with a slash, CSV files are highlighted."""
    return [_row(entry, fmt, now_ms) for entry in entries]


def _row(entry: Entry, fmt: Formatter, now_ms: int) -> Row:
    if entry.is_directory:
        up = entry.name == ".."
        changed = Cell("" if up else format_age(now_ms - entry.changed_ms), "dim", -entry.changed_ms)
        name = f"{entry.name}/" + (" up" if up else "")
        return Row(entry.path, Cell(name, "accent", entry.name), Cell("", order=-1.0), changed)
    return Row(
        entry.path,
        Cell(entry.name, "strong" if entry.is_likely else "dim"),
        Cell(fmt.size(entry.size_bytes), order=float(entry.size_bytes)),
        Cell(format_age(now_ms - entry.changed_ms), "dim", -entry.changed_ms),
    )


class FilePicker(ModalScreen[str | None]):
    """Returns the path of a file, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "leave"),
        Binding("backspace", "up", "up", show=False),
    ]
    AUTO_FOCUS = "Grid"
    app: "YakApp"

    def __init__(self, start: str = "") -> None:
        super().__init__()
        self._starts = start_directories(os.environ)
        self._directory = os.path.dirname(start) if start else self._starts[0][1] if self._starts else os.sep
        self._entries: dict[str, Entry] = {}

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="picking") as dialog:
            dialog.border_title = "Choose a CSV file"
            dialog.border_subtitle = "enter open   backspace up   / is typed in the path   esc leave"
            yield Input(
                id="picker-path",
                compact=True,
                suggester=FunctionSuggester(complete_path, in_thread=True),
                select_on_focus=False,
            )
            with Horizontal(id="picker-places"):
                for number, (label, _) in enumerate(self._starts):
                    yield Button(label, id=f"place-{number}", compact=True)
            yield Static("", id="picker-error", markup=False)
            yield Grid(id="picker-files")

    def on_mount(self) -> None:
        self.show(self._directory)

    @work(exclusive=True, group="list")
    async def show(self, directory: str, at: str = "") -> None:
        """List a directory, with the cursor on the file `at`."""
        error = self.query_one("#picker-error", Static)
        try:
            entries = await asyncio.to_thread(list_directory, directory)
        except YakError as refused:
            error.update(f"{self.app.fmt.sign('bad')} {refused.message}: {refused.why}")
            return
        error.update("")
        self._directory = directory_of(directory)
        self._entries = {entry.path: entry for entry in entries}
        grid = self.query_one(Grid)
        rows = file_rows(entries, self.app.fmt, self.app.now_ms())
        grid.show(COLUMNS, rows, empty="Empty.", is_wide=False)
        if at:
            grid.move_to(at)
        path = self.query_one("#picker-path", Input)
        path.value = self._directory.rstrip(os.sep) + os.sep
        path.cursor_position = len(path.value)

    @on(FileUploaded)
    def show_uploaded(self, event: FileUploaded) -> None:
        """Show a file that the browser has just uploaded: probably the one to choose."""
        self.show(str(event.path.parent), str(event.path))

    @on(Grid.Opened)
    def open_entry(self, event: Grid.Opened) -> None:
        entry = self._entries[event.row.key]
        if entry.is_directory:
            self.show(entry.path)
        else:
            self.dismiss(entry.path)

    @on(Input.Submitted)
    def open_typed(self, event: Input.Submitted) -> None:
        """Open the typed path: a directory is listed, a file is chosen."""
        path = os.path.expanduser(event.value.strip())
        if os.path.isdir(path):
            self.show(path)
        elif os.path.isfile(path):
            self.dismiss(os.path.abspath(path))
        else:
            found = complete_path(path)
            if found is not None:
                self.query_one("#picker-path", Input).value = found
            else:
                self.query_one("#picker-error", Static).update(f"{self.app.fmt.sign('bad')} there is no {path}")

    @on(Button.Pressed)
    def go_to_place(self, event: Button.Pressed) -> None:
        number = int((event.button.id or "place-0").partition("-")[2])
        self.show(self._starts[number][1])

    def action_up(self) -> None:
        self.show(os.path.dirname(self._directory))
