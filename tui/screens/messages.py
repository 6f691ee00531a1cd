"""Records: browse and tail topics, filter, inspect one, copy and export."""

import asyncio
import gc
import io
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Container

from yak.client.consumer import ConsumerRecord
from yak.client.filters import parse_filter
from yak.client.offset_spec import END
from yak.errors import UsageError, YakError
from yak.tui.formatter import Formatter
from yak.tui.keys import keys
from yak.tui.messages.detail import VIEWS, View
from yak.tui.messages.export import (
    COPIES,
    FOLDER,
    FORMATS,
    PIECE,
    Format,
    Progress,
    export,
    file_name,
    format_of,
    write,
)
from yak.tui.messages.reader import Limits, Reader
from yak.tui.messages.store import BufferedRecord, MergedStore, Store, find
from yak.tui.messages.subscription import (
    FILTER_HINT,
    FROM_HINT,
    GROUP_HINT,
    TO_HINT,
    Choice,
    Seek,
    Subscription,
    fields_of,
    filter_parts,
    parse_topics,
    subscription_of,
)
from yak.tui.rows.cells import Cell
from yak.tui.rows.records import (
    TOPIC_CHOICE_COLUMNS,
    RecordRows,
    empty_text,
    record_columns,
    status_cells,
    topic_choice_rows,
)
from yak.tui.screens.base import YakScreen
from yak.tui.widgets.dialogs import ChoiceMenu, Field, FormDialog
from yak.tui.widgets.frame import Line, Panel
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.record_pane import RecordPane


class MessageGrid(Grid):
    """A Grid of records. `follows`: new records are appended, and a cursor on the last row stays on the last row."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.records = RecordRows()
        self.follows = False
        self._snapshot: tuple[object, ...] = ()

    def begin(self, *, follows: bool) -> None:
        """Begin another reading, at its end if it follows, else at its beginning."""
        self.follows = follows
        self.marked.clear()
        self.move_to(0)
        self.is_following = follows
        self._snapshot = ()

    def show_records(
        self,
        records: Store | MergedStore,
        fmt: Formatter,
        now_ms: int,
        view: View,
        *,
        with_topic: bool,
        empty: str,
        is_narrow: bool = False,
    ) -> None:
        """Show the records as they are now; free if nothing of them has changed."""
        second = now_ms // 1000 if fmt.zone == "relative" else 0
        snapshot = (records.version, fmt, second, view, with_topic, empty, is_narrow)
        if snapshot == self._snapshot:
            return
        self._snapshot = snapshot
        self.records.freeze(records, fmt, now_ms, view=view, with_topic=with_topic)
        columns = record_columns(fmt, with_topic=with_topic, is_narrow=is_narrow)
        self.show(columns, self.records, empty=empty, is_wide=fmt.is_wide)

    def _put_cursor(self, index: int) -> None:
        super()._put_cursor(index)
        if self.follows and self.row_count and index >= self.row_count - 1:
            self.is_following = True

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Stop following: the user scrolls back to read."""
        self.is_following = False


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
_VIEW_LABELS: Mapping[View, str] = {"auto": "JSON, text or hex, by what it is", "text": "plain text", "hex": "hex"}


class ReadingScreen(YakScreen):
    """The base of messages and consumer. Subclasses name the list (`grid_in_use`) and its readers (`readers_in_use`)."""

    AUTO_FOCUS: ClassVar[str] = "MessageGrid"
    view: View = "auto"

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits()
        self._numbering = itertools.count()
        self.marks: dict[int, BufferedRecord] = {}
        self.last_filter = ""
        self.export_progress: Progress | None = None

    def on_mount(self) -> None:
        """Draw with a timer of its own: records arrive without a change of the picture."""
        # These objects live as long as the app. Reading triggers many collections; walking through all objects each
        # time would delay keys by a tenth of a second.
        gc.freeze()
        self.set_interval(1 / self.app.settings.fps, self._tick)

    def _tick(self) -> None:
        if self.app.screen_below() is self and not self.app.is_frozen:
            self.paint_body()

    def on_screen_suspend(self) -> None:
        """Pause reading if another screen is shown. A dialog over this one does not count."""
        self.call_later(self._rest)

    def on_screen_resume(self) -> None:
        self._rest()

    def _rest(self) -> None:
        is_hidden = self.app.screen_below() is not self
        for reader in self.readers():
            reader.rest(is_hidden)

    def hold(self) -> bool:
        readers = self.readers_in_use()
        is_paused = not all(reader.is_paused for reader in readers)
        for reader in readers:
            reader.pause(is_paused)
        return bool(readers)

    def set_filter(self, text: str) -> None:
        """Apply the filter typed after `/`, once typing pauses. Raises UsageError."""
        for part in filter_parts(text):
            parse_filter(part)
        if text:
            self.last_filter = text
        for reader in self.readers_in_use():
            reader.filter_text = text  # shown at once
            self.set_timer(FILTER_PAUSE_S, partial(self._apply_filter, reader, text))

    def _apply_filter(self, reader: Reader, text: str) -> None:
        if reader.filter_text == text:  # else another one was typed meanwhile
            reader.set_filter(text)
            self.paint_body()

    def current_filter(self) -> str:
        return next((reader.filter_text for reader in self.readers_in_use()), "")

    def go_back(self) -> bool:
        """Undo the zoom, the filter, the marks, in this order."""
        if self.maximized is not None:
            self.minimize()
        elif self.current_filter():
            self.set_filter("")
        elif self.marks:
            self.action_unmark()
        else:
            return False
        return True

    def opened(self, what: object) -> None:
        """Read topics, as typed after `:messages` or `:consumer`, or a subscription."""
        try:
            self.read(what if isinstance(what, Subscription) else Subscription(parse_topics(str(what)), self.SEEK))
        except YakError as error:
            self.app.show_error(error)

    def ask_subscription(
        self,
        title: str,
        given: Mapping[str, str],
        filter_text: str,
        begin: Callable[[Subscription, str], None],
        *,
        text: str,
        with_group: bool,
    ) -> None:
        """Ask what to read, and from which position; then call `begin` with that and the filter."""
        parse_time = partial(self.fmt.parse_time_ms, now_ms=self.app.now_ms())
        is_readonly = self.app.is_readonly
        group = Field("group", "Group", given.get("group", ""), GROUP_HINT)
        fields = [
            Field("topics", "Topics", given["topics"], "orders, payments:0,2", is_needed=True),
            *([group] if with_group else []),
            Field("from", "From", given["from"], FROM_HINT),
            Field("to", "To", given["to"], TO_HINT),
            *([Field("filter", "Filter", filter_text, FILTER_HINT)] if with_group else []),
            Field("committed", "only what transactions committed", given.get("committed", "false"), is_check=True),
        ]

        def wanted(values: Mapping[str, str]) -> Subscription:
            return subscription_of(values, parse_time, is_readonly=is_readonly)

        def command(values: Mapping[str, str]) -> str:
            return wanted(values).command(values.get("filter", filter_text))

        def done(values: Mapping[str, str] | None) -> None:
            if values is not None:
                begin(wanted(values), values.get("filter", filter_text).strip())

        self.app.push_screen(FormDialog(title, fields, command=command, text=text, yes="Read"), done)

    def begin_reading(self, wanted: Subscription, filter_text: str, grid: MessageGrid) -> Reader:
        """A reader of this, which is started, for a list."""
        source = self.app.source
        reader = Reader(lambda: source.bootstrap, wanted, limits=self.limits, numbering=self._numbering)
        if filter_text:
            reader.set_filter(filter_text)
        grid.begin(follows=wanted.is_tail)
        reader.start()
        self.app.note_command(wanted.command(filter_text))
        return reader

    # for subclasses

    SEEK: ClassVar[Seek]
    """Where the reading of topics begins that are named without a position."""

    def read(self, wanted: Subscription, filter_text: str = "") -> None:
        """Begin a reading. Raises UsageError."""
        raise NotImplementedError

    def readers(self) -> list[Reader]:
        raise NotImplementedError

    def readers_in_use(self) -> list[Reader]:
        """Those whose records the list has that keys act on."""
        return self.readers()

    def grid_in_use(self) -> MessageGrid | None:
        """The list that keys act on."""
        raise NotImplementedError

    # records

    def record_in_use(self) -> BufferedRecord | None:
        grid = self.grid_in_use()
        return grid.records.record_at(grid.cursor_index) if grid is not None and grid.row_count else None

    def wanted_in_use(self) -> Subscription | None:
        """What is read; for a merged list, the topics of all."""
        wanted = [reader.wanted for reader in self.readers_in_use()]
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        choices = {choice: None for each in wanted for choice in each.choices}
        return Subscription(tuple(choices), wanted[0].seek)

    def _pieces(self) -> Iterable[list[ConsumerRecord]]:
        for reader in self.readers_in_use():
            for piece in reader.store.pieces(PIECE):
                yield list[ConsumerRecord](piece)

    def action_view(self) -> None:
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self.app.notice(f"keys and values as {_VIEW_LABELS[self.view]}")
        self.paint_body()

    def action_mark(self) -> None:
        grid, record = self.grid_in_use(), self.record_in_use()
        if grid is None or record is None:
            return
        if self.marks.pop(record.serial, None) is None:
            self.marks[record.serial] = record
        self._show_marks()
        grid.action_cursor(1)

    def action_unmark(self) -> None:
        self.marks.clear()
        self._show_marks()

    def _show_marks(self) -> None:
        for grid in self.query(MessageGrid):
            grid.marked = {str(serial) for serial in self.marks}
            grid.refresh()
        self.paint_body()

    @work(exclusive=True, group="find")
    async def action_hit(self, step: int) -> None:
        grid, readers = self.grid_in_use(), self.readers_in_use()
        if grid is None or not readers or not grid.row_count:
            return
        tests = [parse_filter(part) for part in filter_parts(self.last_filter)]
        if not tests and not self.marks:
            self.app.notice("n goes to what the last / filter holds for, or to marks: there are neither")
            return
        marks = set(self.marks)
        source = MergedStore([reader.store for reader in readers]) if len(readers) > 1 else readers[0].store
        start = source.span()[0] + grid.cursor_index
        found = await asyncio.to_thread(
            find,
            source,
            start,
            step,
            lambda record: all(test(record) for test in tests) if tests else record.serial in marks,
        )
        if found is None:
            self.app.notice(f"none of these records matches {self.last_filter}" if tests else "no mark is here")
            return
        grid.move_to(str(found.serial))

    # copies and exports

    @work(exclusive=True, group="copy")
    async def action_copy(self) -> None:  # type: ignore[override]  # a worker, as Textual allows
        record = self.record_in_use()
        if record is None:
            self.app.notice("there is no record to copy")
            return
        choices = [(letter, name) for letter, (name, _) in COPIES.items()]
        letter = await self.app.push_screen_wait(ChoiceMenu(f"Copy of {record.id}", choices))
        if letter is None:
            return
        name, as_text = COPIES[letter]
        text = as_text(record)
        if len(text.encode("utf-8", "surrogatepass")) <= CLIPBOARD_BYTES:
            self.app.copy(text, f"the {name} of {record.id}")
            return
        file = file_name(f"{record.topic}-{record.partition}-{record.offset}", "txt", self.app.now_ms())
        path = os.path.join(FOLDER, file)
        try:
            if self.app.is_web:
                self.app.deliver_text(io.StringIO(text), save_filename=file)
                path = f"{file}, which your browser saves"
            else:
                path = await asyncio.to_thread(_write_text, path, text)
        except OSError as error:
            self.app.show_error(YakError("export-failed", f"{path} was not written", why=error.strerror or ""))
            return
        self.app.notice(f"too large for the clipboard: the {name} is in {path}")

    @work(exclusive=True, group="export")
    async def action_export(self) -> None:
        wanted, grid = self.wanted_in_use(), self.grid_in_use()
        if wanted is None or grid is None or not grid.row_count:
            self.app.notice("there is no record to export")
            return
        values = await self.app.push_screen_wait(self._export_form(wanted, grid.row_count))
        if values is None:
            return
        format_: Format = "csv" if values["format"] == "csv" else "ndjson"
        marked = [self.marks[serial] for serial in sorted(self.marks)]
        pieces: Iterable[list[ConsumerRecord]] = (
            [list[ConsumerRecord](marked)] if values["what"].startswith("marked") else self._pieces()
        )
        self.export_progress = progress = Progress()
        try:
            if self.app.is_web:
                text = io.StringIO()
                await asyncio.to_thread(write, text, pieces, format_, progress)
                text.seek(0)
                name = file_name(wanted.title, format_, self.app.now_ms())
                self.app.deliver_text(text, save_filename=name)
                where = f"{name}, which your browser saves"
            else:
                await asyncio.to_thread(export, pieces, values["path"], format_, progress, lambda: not self.is_attached)
                where = progress.path
        except YakError as error:
            self.app.show_error(error)
            return
        finally:
            self.export_progress = None
        self.app.note_command(f"{wanted.command(self.current_filter())} --output {_output(format_)} > {where}")
        records = self.fmt.counted(progress.written, "record")
        self.app.notice(f"{records}, {self.fmt.size(progress.size_bytes)}: {where}")

    def _export_form(self, wanted: Subscription, count: int) -> FormDialog:
        name = file_name(wanted.title, "ndjson", self.app.now_ms())
        what = [f"shown: {self.fmt.number(count)}"]
        if self.marks:
            what.insert(0, f"marked: {self.fmt.number(len(self.marks))}")
        fields = [Field("what", "Records", choices=what), Field("format", "Format", choices=FORMATS)]
        if not self.app.is_web:
            fields.append(Field("path", "File", os.path.join(FOLDER, name), is_needed=True))

        def command(values: Mapping[str, str]) -> str:
            path = values.get("path", name)
            if "path" in values and format_of(path) != values["format"]:
                raise UsageError(
                    "bad-path", f"{path} does not end with .{values['format']}", why="the name says what is in it"
                )
            return f"{wanted.command(self.current_filter())} --output {_output(values['format'])} > {path}"

        text = "NDJSON is what yak produce -f takes unchanged."
        return FormDialog("Export records", fields, command=command, text=text, yes="Export")

    def action_resend(self) -> None:
        from yak.tui.produce.form import Form

        record, wanted = self.record_in_use(), self.wanted_in_use()
        if record is not None:
            self.app.go("producer", Form.of(record.topic, record.key, record.value, record.headers))
        else:
            self.app.go("producer", None if wanted is None else Form.of(wanted.choices[0].topic))


def _output(format_: str) -> str:
    return "csv" if format_ == "csv" else "json"


def _write_text(path: str, text: str) -> str:
    """Write a new file. Raises OSError."""
    target = os.path.expanduser(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "x", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    return target


LAST_AT_FIRST = 100
"""Records per partition that a newly opened topic shows."""


class MessagesScreen(ReadingScreen):
    """One reading of one topic or several."""

    CRUMB = "messages"
    CLI_TWIN = "yak consume TOPIC --tail 100"
    SEEK = Seek(END, None, LAST_AT_FIRST)
    BINDINGS = keys("messages.seek", "records.detail", *SHARED_KEYS, "messages.more", "messages.consume")
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = (
        ("offset", "partition@offset: the position of a record in its partition. It never changes."),
        ("following", "New records are shown as they come. Move off the last line to stop; G follows again."),
        ("showing 1 of 20", "More records come than the screen can show: one of 20 is shown. All are read, so the lag stays near zero. A / filter tries every record."),
        ("full", "100 000 records or 64 MiB are held at most. m drops the older half and reads on."),
        ("behind", "Records in the log that were not read yet."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.reader: Reader | None = None

    def body(self) -> ComposeResult:
        with Container(id="records-middle"):
            yield Panel("Messages", MessageGrid(id="records"), id="records-panel")
            yield Panel("Record", RecordPane(id="record"), id="record-panel")
        yield Line(id="records-status")

    def crumbs(self) -> list[str]:
        return ["messages", *([self.reader.wanted.title] if self.reader is not None else [])]

    # the reading

    def grid_in_use(self) -> MessageGrid:
        return self.query_one("#records", MessageGrid)

    def readers(self) -> list[Reader]:
        return [self.reader] if self.reader is not None else []

    @property
    def _pane(self) -> RecordPane:
        return self.query_one("#record", RecordPane)

    @property
    def _is_pane_open(self) -> bool:
        return self.query_one("#record-panel").has_class("-open")

    # reading

    def read(self, wanted: Subscription, filter_text: str = "") -> None:
        self._close()
        self.marks.clear()
        self.reader = self.begin_reading(wanted, filter_text, self.grid_in_use())
        self.paint_all(self.app.now_ms())

    def _close(self) -> None:
        if self.reader is not None:
            self.reader.close()

    def on_unmount(self) -> None:
        self._close()

    def go_back(self) -> bool:
        """Undo the zoom, then close the pane."""
        if self.maximized is None and self._is_pane_open:
            self.action_detail()
            return True
        return super().go_back()

    # drawing

    def paint(self, now_ms: int) -> None:
        grid, reader, fmt = self.grid_in_use(), self.reader, self.fmt
        if reader is None:
            self._paint_topics()
            return
        status, counts, wanted = reader.status, reader.store.counts(), reader.wanted
        grid.show_records(
            reader.store, fmt, now_ms, self.view, with_topic=len(wanted.choices) > 1,
            empty=empty_text(status, counts, wanted, reader.filter_text, fmt), is_narrow=self._is_pane_open,
        )  # fmt: skip
        title = f"{wanted.title}: {wanted.seek.description}"
        self.entitle("#records-panel", title, "/ filter  v mark  n next hit")
        left = status_cells(status, counts, wanted, reader.filter_text, fmt)
        self.query_one("#records-status", Line).show(left, self._right_cells())
        if self._is_pane_open:
            self._paint_pane(now_ms)

    def _right_cells(self) -> list[Cell]:
        cells = []
        if self.export_progress is not None:
            cells.append(Cell(f"exporting: {self.fmt.number(self.export_progress.written)}", "accent"))
        if self.marks:
            cells.append(Cell(f"{self.fmt.sign('mark')} {len(self.marks)} marked", "accent"))
        return cells

    def _paint_topics(self) -> None:
        rows = topic_choice_rows(self.picture, self.fmt)
        empty = "No topics yet. Topics hold records. :topics makes one; so does :sample, with records in it."
        self.show_table("#records", TOPIC_CHOICE_COLUMNS, rows, self.known(empty))
        self.entitle("#records-panel", "Records of which topic?", "enter read   o several topics, or a position")
        self.query_one("#records-status", Line).show([])

    # the pane

    @on(Grid.Opened, "#records")
    def open_pane(self) -> None:
        """Open the pane for the record and focus it; on a topic, read its records."""
        if self.reader is None:
            topic = self.grid_in_use().cursor_key
            if topic is not None:
                self.read(Subscription((Choice(topic),), self.SEEK))
            return
        if not self._is_pane_open:
            self.action_detail()
        self._pane.focus()

    def action_detail(self) -> None:
        panel = self.query_one("#record-panel")
        panel.toggle_class("-open")
        if self._is_pane_open:
            self.call_after_refresh(lambda: self._paint_pane(self.app.now_ms()))
        else:
            self.grid_in_use().focus()

    @on(Grid.Moved, "#records")
    def follow_cursor(self) -> None:
        if self._is_pane_open:
            self._paint_pane(self.app.now_ms())

    def _paint_pane(self, now_ms: int) -> None:
        record: BufferedRecord | None = self.record_in_use()
        self._pane.show(record, self.fmt, now_ms, self.view)
        self.entitle(
            "#record-panel", record.id if record is not None else "Record", "enter fold  J view  y copy  esc close"
        )

    # keys

    def action_seek(self) -> None:
        known = self.reader.wanted if self.reader is not None else None
        values = fields_of(known) if known is not None else {"topics": "", "from": f"last {LAST_AT_FIRST}", "to": ""}
        text = "No other reader is affected, and nothing is committed."
        self.ask_subscription("Read records", values, self.current_filter(), self.read, text=text, with_group=False)

    def action_more(self) -> None:
        if self.reader is not None:
            self.reader.more()

    def action_consume(self) -> None:
        if self.reader is not None:
            self.app.go("consumer", self.reader.wanted)
        else:
            self.app.go("consumer")
