"""The common part of the screens with records: drawing, views, marks, copying, exporting, sending again."""

import asyncio
import gc
import io
import os
from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual import work

from yak.client.filters import parse_filter
from yak.client.received import Received
from yak.errors import UsageError, YakError
from yak.tui.messages.copying import CHOICES, copied
from yak.tui.messages.exporting import FOLDER, FORMATS, PIECE, Format, Progress, as_text, export, file_name, format_of
from yak.tui.messages.finding import find
from yak.tui.messages.kept import Kept
from yak.tui.messages.merged import Merged
from yak.tui.messages.store import Store
from yak.tui.messages.subscription import Subscription, filter_parts
from yak.tui.messages.views import VIEWS, View
from yak.tui.screens.base import YakScreen
from yak.tui.widgets.choice_menu import ChoiceMenu
from yak.tui.widgets.dialogs import Field, FormDialog
from yak.tui.widgets.message_grid import MessageGrid

SHARED_KEYS = (
    "records.view",
    "records.copy",
    "records.export",
    "records.resend",
    "records.mark",
    "records.unmark",
    "records.next",
    "records.before",
)
CLIPBOARD_BYTES = 64 << 10
"""Terminals refuse longer OSC 52 sequences; longer texts go to a file."""
FILTER_PAUSE_S = 0.12
"""A filter applies once typing pauses: each letter would scan all rows again."""
_VIEW_WORDS: Mapping[View, str] = {"auto": "JSON, text or hex, by what it is", "text": "plain text", "hex": "hex"}


class ReadingScreen(YakScreen):
    """The base of messages and consumer. Subclasses name the list (`grid_in_use`) and its records (`source_in_use`)."""

    AUTO_FOCUS: ClassVar[str] = "MessageGrid"
    view: View = "auto"

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[int, Kept] = {}
        self.last_filter = ""
        self.export_progress: Progress | None = None

    def on_mount(self) -> None:
        """Draw with a timer of its own: records arrive without a change of the picture."""
        super().on_mount()
        # These objects live as long as the app. Reading triggers many collections; walking through all objects each
        # time
        # would delay keys by a tenth of a second.
        gc.freeze()
        self.set_interval(1 / self.app.settings.fps, self._tick)

    def _tick(self) -> None:
        if self.app.screen_below() is self and not self.app.is_frozen:
            self.paint(self.app.now_ms())

    # for subclasses

    def grid_in_use(self) -> MessageGrid | None:
        """The list that keys act on."""
        raise NotImplementedError

    def source_in_use(self) -> Store | Merged | None:
        """The records of that list."""
        raise NotImplementedError

    def wanted_in_use(self) -> Subscription | None:
        """The subscription of that list."""
        raise NotImplementedError

    # records

    def record_in_use(self) -> Kept | None:
        """The record under the cursor."""
        grid = self.grid_in_use()
        return grid.records.record_at(grid.cursor_index) if grid is not None and grid.row_count else None

    def _pieces(self) -> Iterable[list[Received]]:
        source = self.source_in_use()
        if source is None:
            return
        stores = source.stores if isinstance(source, Merged) else (source,)
        for store in stores:
            for piece in store.pieces(PIECE):
                yield list[Received](piece)

    def action_view(self) -> None:
        """Cycle the view: JSON, text, hex."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self.app.notice(f"keys and values as {_VIEW_WORDS[self.view]}")
        self.paint(self.app.now_ms())

    def action_mark(self) -> None:
        """Set or clear a mark, and go to the next record."""
        grid, record = self.grid_in_use(), self.record_in_use()
        if grid is None or record is None:
            return
        if self.marks.pop(record.serial, None) is None:
            self.marks[record.serial] = record
        self._show_marks()
        grid.action_cursor(1)

    def action_unmark(self) -> None:
        """Clear all marks."""
        self.marks.clear()
        self._show_marks()

    def _show_marks(self) -> None:
        for grid in self.query(MessageGrid):
            grid.marked = {str(serial) for serial in self.marks}
            grid.refresh()
        self.paint(self.app.now_ms())

    def action_next(self) -> None:
        """Go to the next hit."""
        self._go_to_hit(1)

    def action_before(self) -> None:
        """Go to the previous hit."""
        self._go_to_hit(-1)

    @work(exclusive=True, group="find")
    async def _go_to_hit(self, step: int) -> None:
        grid, source = self.grid_in_use(), self.source_in_use()
        if grid is None or source is None or not grid.row_count:
            return
        tests = [parse_filter(part) for part in filter_parts(self.last_filter)]
        if not tests and not self.marks:
            self.app.notice("n goes to what the last / filter holds for, or to marks: there are neither")
            return
        marks = set(self.marks)
        start = source.span()[0] + grid.cursor_index
        found = await asyncio.to_thread(
            find,
            source,
            start,
            step,
            lambda record: all(test(record) for test in tests) if tests else record.serial in marks,
        )
        if found is None:
            self.app.notice(f"none of these messages matches {self.last_filter}" if tests else "no mark is here")
            return
        grid.move_to(str(found.serial))

    # copies and exports

    @work(exclusive=True, group="copy")
    async def action_copy(self) -> None:
        """Open a menu of things to copy."""
        record = self.record_in_use()
        if record is None:
            self.app.notice("there is no message to copy")
            return
        letter = await self.app.push_screen_wait(ChoiceMenu(f"Copy of {record.id}", CHOICES))
        if letter is None:
            return
        name, text = dict(CHOICES)[letter], copied(record, letter)
        if len(text.encode("utf-8", "surrogatepass")) <= CLIPBOARD_BYTES:
            self.app.copy(text, f"the {name} of {record.id}")
            return
        path = os.path.join(
            FOLDER, file_name(f"{record.topic}-{record.partition}-{record.offset}", "ndjson", self.app.now_ms())
        )
        try:
            path = await asyncio.to_thread(_write_text, path.removesuffix(".ndjson") + ".txt", text)
        except OSError as error:
            self.app.show_error(YakError("export-failed", f"{path} was not written", why=str(error)))
            return
        self.app.notice(f"too large for the clipboard: the {name} is in {path}")

    @work(exclusive=True, group="export")
    async def action_export(self) -> None:
        """Ask for content and path, then write the export."""
        wanted, grid = self.wanted_in_use(), self.grid_in_use()
        if wanted is None or grid is None or not grid.row_count:
            self.app.notice("there is no message to export")
            return
        values = await self.app.push_screen_wait(self._export_form(wanted, grid.row_count))
        if values is None:
            return
        format_: Format = "csv" if values["format"] == "csv" else "ndjson"
        marked = [self.marks[serial] for serial in sorted(self.marks)]
        pieces: Iterable[list[Received]] = (
            [list[Received](marked)] if values["what"].startswith("marked") else self._pieces()
        )
        self.export_progress = progress = Progress()
        try:
            if self.app.is_web:
                text = await asyncio.to_thread(as_text, pieces, format_, progress)
                name = file_name(wanted.title, format_, self.app.now_ms())
                self.app.deliver_text(io.StringIO(text), save_filename=name)
                where = f"{name}, which your browser saves"
            else:
                await asyncio.to_thread(export, pieces, values["path"], format_, progress, lambda: not self.is_attached)
                where = progress.path
        except YakError as error:
            self.app.show_error(error)
            return
        finally:
            self.export_progress = None
        self.cli(f"{wanted.command(self.filter_words())} --output {_output(format_)} > {where}")
        self.app.notice(
            f"{self.look.number(progress.written)} messages, {self.look.size(progress.size_bytes)}: {where}"
        )

    def _export_form(self, wanted: Subscription, count: int) -> FormDialog:
        name = file_name(wanted.title, "ndjson", self.app.now_ms())
        what = [f"shown: {self.look.number(count)}"]
        if self.marks:
            what.insert(0, f"marked: {self.look.number(len(self.marks))}")
        fields = [Field("what", "Messages", choices=what), Field("format", "Format", choices=FORMATS)]
        if not self.app.is_web:
            fields.append(Field("path", "File", os.path.join(FOLDER, name), is_needed=True))

        def command(values: Mapping[str, str]) -> str:
            path = values.get("path", name)
            if "path" in values and format_of(path) != values["format"]:
                raise UsageError(
                    "bad-path", f"{path} does not end with .{values['format']}", why="the name says what is in it"
                )
            return f"{wanted.command(self.filter_words())} --output {_output(values['format'])} > {path}"

        words = "NDJSON is what yak produce -f takes unchanged."
        return FormDialog("Export messages", fields, command=command, words=words, yes="Export")

    def action_resend(self) -> None:
        """Open the producer with this record."""
        from yak.tui.produce.draft import Draft

        record = self.record_in_use()
        wanted = self.wanted_in_use()
        if record is not None:
            draft = Draft(record.topic, None, record.key, record.value, tuple(record.headers))
        elif wanted is not None:
            draft = Draft(wanted.choices[0].topic)
        else:
            self.app.go("producer")
            return
        self.app.go("producer", draft)


def _output(format_: str) -> str:
    return "csv" if format_ == "csv" else "json"


def _write_text(path: str, text: str) -> str:
    """Write a new file. Raises OSError."""
    target = os.path.expanduser(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "x", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    return target
