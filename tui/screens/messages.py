"""Records: browse and tail topics, filter, inspect one, copy and export."""

import itertools
from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from yak.client.filters import parse_filter
from yak.client.offset_spec import END
from yak.errors import YakError
from yak.tui.keys import keys
from yak.tui.messages.asking import FROM_HINT, TO_HINT, fields_of, subscription_of, time_parser
from yak.tui.messages.kept import Kept
from yak.tui.messages.reader import Limits, Reader
from yak.tui.messages.store import Store
from yak.tui.messages.subscription import Choice, Seek, Subscription, filter_parts, parse_topics
from yak.tui.rows.cells import Cell
from yak.tui.rows.reading import TOPIC_COLUMNS, empty_words, status_cells, topic_choice_rows
from yak.tui.rows.records import record_columns
from yak.tui.screens.reading import FILTER_PAUSE_S, SHARED_KEYS, ReadingScreen
from yak.tui.widgets.dialogs import Field, FormDialog
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.line import Line
from yak.tui.widgets.message_grid import MessageGrid
from yak.tui.widgets.panel import Panel
from yak.tui.widgets.record_pane import RecordPane

LAST_AT_FIRST = 100
"""Records per partition that a newly opened topic shows."""


class MessagesScreen(ReadingScreen):
    """One reading of one topic or several."""

    TITLE_WORDS = "messages"
    CLI_TWIN = "yak consume TOPIC --tail 100"
    BINDINGS = keys("messages.seek", "records.detail", *SHARED_KEYS, "messages.more", "messages.consume")
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = (
        ("offset", "partition@offset: the place of a record in its partition. It never changes and is given only once."),
        ("following", "New messages come at the end. Leave the last line to read in peace; G follows again."),
        (
            "showing 1 of 20",
            "More comes than can be read: one of 20 is shown. All are read: the lag stays near zero. A / filter tries every one.",
        ),
        ("full", "100 000 messages or 64 MiB are held, no more. m gives up the older half and reads on."),
        ("behind", "Messages that are in the log and were not read yet."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.reader: Reader | None = None
        self.limits = Limits()
        self._numbering = itertools.count()
        self._is_paused = False
        self._drawn: tuple[object, ...] = ()
        self._version = -1
        self._filter = ""

    def body(self) -> ComposeResult:
        """Build the list, and beside or below it the pane with one record."""
        with Container(id="records-middle"):
            yield Panel("Messages", MessageGrid(id="records"), id="records-panel")
            yield Panel("Message", RecordPane(id="record"), id="record-panel")
        yield Line(id="records-status")

    def crumbs(self) -> list[str]:
        """The crumbs, with the topics being read."""
        return ["messages", *([self.reader.wanted.title] if self.reader is not None else [])]

    # the reading

    def grid_in_use(self) -> MessageGrid:
        """The list of records."""
        return self.query_one("#records", MessageGrid)

    def source_in_use(self) -> Store | None:
        """The records read so far."""
        return self.reader.store if self.reader is not None else None

    def wanted_in_use(self) -> Subscription | None:
        """The present subscription."""
        return self.reader.wanted if self.reader is not None else None

    @property
    def _pane(self) -> RecordPane:
        return self.query_one("#record", RecordPane)

    @property
    def _is_pane_open(self) -> bool:
        return self.query_one("#record-panel").has_class("-open")

    # reading

    def opened(self, what: object) -> None:
        """Read topics, as typed after `:messages`, or a subscription."""
        try:
            wanted = what if isinstance(what, Subscription) else Subscription(
                parse_topics(str(what)), Seek(END, None, LAST_AT_FIRST)
            )  # fmt: skip
        except YakError as error:
            self.app.show_error(error)
            return
        self.read(wanted)

    def read(self, wanted: Subscription, filter_text: str = "") -> None:
        """Replace the present reading."""
        self._close()
        self.marks.clear()
        self._filter = filter_text
        source = self.app.source
        self.reader = reader = Reader(lambda: source.bootstrap, wanted, limits=self.limits, numbering=self._numbering)
        if filter_text:
            reader.set_filter(filter_text)
        self._is_paused = False
        self.grid_in_use().begin(follows=wanted.is_tail)
        self._version = -1
        reader.start()
        self.cli(wanted.command(filter_text))
        self.paint_all(self.app.now_ms())

    def _close(self) -> None:
        if self.reader is not None:
            self.reader.close()

    def on_unmount(self) -> None:
        """Stop reading."""
        self._close()

    def on_screen_suspend(self) -> None:
        """Pause reading if another screen is shown. A dialog over this one does not count."""
        self.call_later(self._rest_unless_seen)

    def _rest_unless_seen(self) -> None:
        if self.reader is not None and self.app.screen_below() is not self:
            self.reader.pause()

    def on_screen_resume(self) -> None:
        """Resume reading."""
        super().on_screen_resume()
        if self.reader is not None and not self._is_paused:
            self.reader.pause(False)

    def hold(self) -> bool:
        """Pause or resume reading (space)."""
        if self.reader is None:
            return False
        self._is_paused = not self._is_paused
        self.reader.pause(self._is_paused)
        return True

    def set_filter(self, text: str) -> None:
        """Apply the filter typed after `/`, once typing pauses. Raises UsageError."""
        for part in filter_parts(text):
            parse_filter(part)
        if text == self._filter:
            return
        self._filter = text
        if text:
            self.last_filter = text
        self.set_timer(FILTER_PAUSE_S, lambda: self._apply_filter(text))

    def _apply_filter(self, text: str) -> None:
        if self.reader is not None and self._filter == text and self.reader.filter_text != text:
            self.reader.set_filter(text)
            self.paint(self.app.now_ms())

    def filter_words(self) -> str:
        """The filter in force."""
        return self._filter

    def go_back(self) -> bool:
        """Undo the zoom, the pane, the filter, the marks, in this order."""
        if self.maximized is not None:
            self.minimize()
        elif self._is_pane_open:
            self.action_detail()
        elif self._filter:
            self.set_filter("")
        elif self.marks:
            self.action_unmark()
        else:
            return False
        return True

    # drawing

    def paint(self, now_ms: int) -> None:
        """Draw new records; free if there are none."""
        grid, reader, look = self.grid_in_use(), self.reader, self.look
        if reader is None:
            self._paint_topics(grid)
            return
        status, counts = reader.status, reader.store.counts()
        drawn = (
            id(reader),
            counts.version,
            look,
            self.view,
            now_ms // 1000 if look.zone == "relative" else 0,
            status.phase,
            status.error,
            self._is_pane_open,
        )
        if drawn != self._drawn:
            self._drawn = drawn
            with_topic = len(reader.wanted.choices) > 1
            grid.records.freeze(reader.store, look, now_ms, view=self.view, with_topic=with_topic)
            grid.show(
                record_columns(look, with_topic=with_topic, is_narrow=self._is_pane_open),
                grid.records,
                empty=empty_words(status, counts, reader.wanted, self._filter, look),
                is_wide=look.is_wide,
            )
        seek = f"group {reader.wanted.group}" if reader.wanted.group else reader.wanted.seek.words
        self.query_one("#records-panel", Panel).entitle(
            f"{reader.wanted.title}: {seek}", "/ filter  v mark  n next hit"
        )
        left = status_cells(status, counts, reader.wanted, self._filter, look)
        self.query_one("#records-status", Line).show(left, self._right_cells())
        if self._is_pane_open:
            self._paint_pane(now_ms)

    def _right_cells(self) -> list[Cell]:
        cells = []
        if self.export_progress is not None:
            cells.append(Cell(f"exporting: {self.look.number(self.export_progress.written)}", "accent"))
        if self.marks:
            cells.append(Cell(f"{self.look.sign('mark')} {len(self.marks)} marked", "accent"))
        return cells

    def _paint_topics(self, grid: MessageGrid) -> None:
        """List the topics, as long as none is chosen."""
        rows = topic_choice_rows(self.picture, self.look)
        empty = "No topics yet. Topics hold messages. :topics makes one; so does :sample, with messages in it."
        grid.show(TOPIC_COLUMNS, rows, empty=empty, is_wide=self.look.is_wide)
        self.query_one("#records-panel", Panel).entitle(
            "Messages of which topic?", "enter read it  o several, or from where"
        )
        self.query_one("#records-status", Line).show([])

    # the pane

    @on(Grid.Opened, "#records")
    def open_pane(self) -> None:
        """Open the pane for the record and focus it; on a topic, read its records."""
        if self.reader is None:
            topic = self.grid_in_use().cursor_key
            if topic is not None:
                self.read(Subscription((Choice(topic),), Seek(END, None, LAST_AT_FIRST)))
            return
        if not self._is_pane_open:
            self.action_detail()
        self._pane.focus()

    def action_detail(self) -> None:
        """Open or close the pane."""
        panel = self.query_one("#record-panel")
        panel.toggle_class("-open")
        if self._is_pane_open:
            self.call_after_refresh(lambda: self._paint_pane(self.app.now_ms()))
        else:
            self.grid_in_use().focus()

    @on(Grid.Moved, "#records")
    def follow_cursor(self) -> None:
        """Show the record under the cursor in the pane."""
        if self._is_pane_open:
            self._paint_pane(self.app.now_ms())

    def _paint_pane(self, now_ms: int) -> None:
        record: Kept | None = self.record_in_use()
        self._pane.show(record, self.look, now_ms, self.view)
        self.query_one("#record-panel", Panel).entitle(
            record.id if record is not None else "Message", "enter fold  J view  y copy  esc close"
        )

    # keys

    def action_seek(self) -> None:
        """Ask what to read, and from which position."""
        known = self.reader.wanted if self.reader is not None else None
        values = fields_of(known) if known is not None else {"topics": "", "from": f"last {LAST_AT_FIRST}", "to": ""}
        fields = [
            Field("topics", "Topics", values["topics"], "orders, payments:0,2", is_needed=True),
            Field("from", "From", values["from"], FROM_HINT),
            Field("to", "To", values["to"], TO_HINT),
            Field("committed", "only what transactions committed", values.get("committed", "false"), is_check=True),
        ]
        parse_time = time_parser(self.app.now_ms(), self.look.zone)

        def wanted(given: Mapping[str, str]) -> Subscription:
            return subscription_of(given, parse_time, is_readonly=True)

        def begin(given: Mapping[str, str] | None) -> None:
            if given is not None:
                self.read(wanted(given), self._filter)

        words = "Nobody is disturbed by this, and nothing is committed."
        dialog = FormDialog(
            "Read messages", fields, command=lambda given: wanted(given).command(self._filter), words=words, yes="Read"
        )
        self.app.push_screen(dialog, begin)

    def action_more(self) -> None:
        """Resume a reading that stopped because its buffer was full."""
        if self.reader is not None:
            self.reader.more()

    def action_consume(self) -> None:
        """Read the same on the consumer screen."""
        if self.reader is not None:
            self.app.go("consumer", self.reader.wanted)
        else:
            self.app.go("consumer")
