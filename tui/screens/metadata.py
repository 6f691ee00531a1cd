"""The metadata log, and the cluster's image after the record under the cursor."""

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from rich.json import JSON
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.timer import Timer
from textual.widgets import Static

from yak.errors import UsageError, YakError
from yak.tui.keys import keys
from yak.tui.rows import metadata as image_rows
from yak.tui.rows.cells import Row
from yak.tui.rows.metadata import COLUMNS, LogRows, Things, diff_rows, known_rows, things, touched_by
from yak.tui.screens.base import AskingScreen
from yak.tui.source.base import unreadable
from yak.tui.state.metadata_log import PAGE_RECORDS, MetadataLog
from yak.tui.widgets.dialogs import Prompt, TextDialog
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.timeline import Timeline

_DEBOUNCE_S: Final = 0.12
"""How long the cursor must rest before the image is requested."""
_IMAGES_MAX: Final = 48
_FILTERED_MAX: Final = 10_000
"""Records that a filter searches, newest first."""
_PAGES_A_ROUND: Final = 6
_JSON_MAX: Final = 20_000
_OFFSET: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_ENDED: Final = ("gone", "not-yet")
_HINT: Final = "enter JSON   [ ] step   T time   = mark"


class MetadataScreen(AskingScreen):
    """The log above, the resulting image below."""

    CRUMB = "metadata log"
    CLI_TWIN = "yak metadata log, yak metadata snapshot --at TIME"
    EVERY_S = 1.0
    BINDINGS = keys("metadata")
    EXPLAINED = (
        ("Metadata log", "Each change of brokers, topics and leaders is one record, in one order for all brokers. Replayed, the records are the cluster's state."),
        ("Epoch", "The leader epoch counts a partition's leaders. The broker epoch is the offset of the broker's registration. The controller epoch counts the controller's elections."),
        ("ISR", "The in-sync replicas: acks=all waits for them, and the next leader is one of them."),
        ("FENCED", "The broker leads nothing: it is considered dead, or has not been unfenced since its start."),
        ("Producer ids", "Blocks of ids that a broker assigns to idempotent producers. Each id is assigned once."),
        ("The mark", "The image shows what the record under the cursor changed. After =, it shows the changes between the marked record and the cursor."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.log_ = MetadataLog()
        self.mark: int | None = None
        self._things: OrderedDict[int, Things] = OrderedDict()
        self._image_of: tuple[int, int | None] | None = None
        self._image_status = ""
        self._resting: Timer | None = None
        self._drawn: tuple[object, ...] = ()
        self._noted_json: int | None = None
        self._wished: int | None = None

    def body(self) -> ComposeResult:
        yield Timeline(id="timeline")
        yield Panel("Metadata log", Grid(id="log"), id="metadata-log", subtitle=_HINT)
        with Horizontal(id="metadata-lower"):
            yield Panel("The cluster then", Grid(id="image"), id="metadata-image")
            with Panel("Record", id="metadata-record"), VerticalScroll(can_focus=False):
                yield Static(id="record-json", markup=False)

    def on_mount(self) -> None:
        self.query_one("#log", Grid).is_following = True

    # requests

    async def ask(self) -> None:
        log = self.log_
        first = log.end if log.is_loaded else 1
        page = await self._page(first)
        if not log.take(page, self._offset()) or not page["records"]:
            self._things.clear()
        if log.end - first > PAGE_RECORDS * 2 or (first == 1 and page["next"] is not None):
            log.take(await self._page(max(log.begin, log.end - PAGE_RECORDS + 1)), self._offset())
        elif page["next"] is not None:
            log.take(await self._page(page["next"]), self._offset())
        self._show_log(self.app.now_ms())
        if self._wished is not None and log.is_loaded:
            self._say_missing(self._wished)
            self._wished = None
        await self._load_missing()

    def _say_missing(self, offset: int) -> None:
        log = self.log_
        if offset < log.begin:
            self.app.notice(f"nothing here before that: the log starts at record {log.begin}", "warn")
        elif offset > log.end:
            self.app.notice(f"record {offset} does not exist yet: the newest is {log.end}", "warn")

    async def _page(self, first: int) -> Mapping[str, Any]:
        params = {"from": first, "limit": PAGE_RECORDS}
        page: Mapping[str, Any] = await self.app.source.ask("GET", "/metadata/log", params=params)
        return page

    async def _load_missing(self) -> None:
        log, grid = self.log_, self.query_one("#log", Grid)
        wanted = [int(key) for key in grid.keys_in_sight()]
        if grid.filter_text:
            wanted = [max(log.begin, log.end - _FILTERED_MAX + 1), log.end]
        if not wanted:
            return
        for start in list(reversed(log.missing(min(wanted), max(wanted))))[:_PAGES_A_ROUND]:
            page = await self._page(start)
            log.take(page, self._offset())
            if not page["records"]:
                break
        self._show_log(self.app.now_ms())

    def _offset(self) -> int | None:
        key = self.query_one("#log", Grid).cursor_key
        return None if key is None else int(key)

    # drawing

    def paint(self, now_ms: int) -> None:
        self._show_log(now_ms)
        panel = self.query_one("#metadata-image", Panel)
        panel.entitle(*self._image_titles(now_ms))

    def _show_log(self, now_ms: int) -> None:
        log, fmt, grid = self.log_, self.fmt, self.query_one("#log", Grid)
        of_time = now_ms // 1000 if fmt.zone == "relative" else 0
        drawn = (log.version, fmt, of_time, bool(grid.filter_text), self._offset(), self.error_text())
        if drawn == self._drawn:
            return
        self._drawn = drawn
        rows = known_rows(log, fmt, now_ms) if grid.filter_text else LogRows(log, fmt, now_ms)
        empty = self.error_text() or "reading the metadata log ..."
        if log.is_loaded and grid.filter_text:
            empty = f"No record of {fmt.number(len(log.records))} that were read matches. esc clears the filter."
        self.show_table("#log", COLUMNS, rows, empty)
        if self._wished is not None and log.begin <= self._wished <= log.end:
            grid.move_to(str(self._wished))
            self._wished = None
        self._show_place(now_ms)
        self._show_record()

    def _show_place(self, now_ms: int) -> None:
        log, fmt, grid = self.log_, self.fmt, self.query_one("#log", Grid)
        offset = self._offset()
        if not log.is_loaded or offset is None:
            return
        ends = tuple(f"{edge} {fmt.moment(log.time_ms(edge), now_ms)}" for edge in (log.begin, log.end))
        self.query_one("#timeline", Timeline).show(log.begin, log.end, offset, self.mark, (ends[0], ends[1]), fmt)
        live = "live" if grid.is_following else f"{fmt.number(log.end - offset)} newer"
        of_copy = ", from a broker's copy" if log.source == "copy" else ""
        title = f"Metadata log: record {fmt.number(offset)} of {fmt.number(log.end)}, {live}{of_copy}"
        if grid.filter_text:
            title = f"Metadata log: {grid.row_count} of {fmt.number(len(log.records))} read match {grid.filter_text}"
        self.entitle("#metadata-log", title, self.error_text() or _HINT)

    def _show_record(self) -> None:
        offset = self._offset()
        if offset == self._noted_json or offset is None or offset not in self.log_.records:
            return
        self._noted_json = offset
        text = self._json(offset)
        self.query_one("#record-json", Static).update(JSON(text) if len(text) <= _JSON_MAX else "")
        self.entitle("#metadata-record", f"Record {offset}")

    def _json(self, offset: int) -> str:
        return json.dumps(self.log_.records[offset])

    def _image_titles(self, now_ms: int) -> tuple[str, str]:
        """The title names what is displayed, which follows the cursor once that rests."""
        offset, displayed = self._offset(), self._image_of
        if offset is None or displayed is None:
            return "The cluster then", self._image_status or ("" if offset is None else f"reading record {offset} ...")
        of, mark = displayed
        if mark is None:
            title = f"The cluster after record {of}, {self.fmt.moment(self.log_.time_ms(of), now_ms)}"
        else:
            first, last = sorted((mark, of))
            title = f"What changed from record {first} to {last}"
        hint = f"{self.fmt.sign('mark')} this record" if mark is None else "= no more"
        if displayed != (offset, self.mark):
            hint = f"reading record {offset} ..."
        return title, self._image_status or hint

    # navigation

    @on(Grid.Moved, "#log")
    def moved(self) -> None:
        grid = self.query_one("#log", Grid)
        if grid.cursor_index == grid.row_count - 1 and not grid.filter_text:
            grid.is_following = True
        self.paint_body()
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(_DEBOUNCE_S, self._rested)

    def _rested(self) -> None:
        self._resting = None
        offset = self._offset()
        if offset is not None:
            self._load_image(offset, self.mark)
            if self.log_.missing(offset, offset):
                self.ask_again()

    @on(Timeline.Moved)
    def slide(self, event: Timeline.Moved) -> None:
        self.query_one("#log", Grid).move_to(str(event.place))

    def action_step(self, by: int) -> None:
        self.query_one("#log", Grid).action_cursor(by)

    def action_mark(self) -> None:
        offset = self._offset()
        if offset is None:
            return
        self.mark = None if self.mark is not None else offset
        if self.mark is not None:
            self.app.notice(f"record {offset} is marked: go elsewhere to see what changed between them")
        self._drawn = ()
        self._load_image(offset, self.mark)
        self.paint_body()

    def go_back(self) -> bool:
        if self.maximized is None and self.mark is not None:
            self.action_mark()
            return True
        return super().go_back()

    def set_filter(self, text: str) -> None:
        """Filter the log's known records; more are read meanwhile. On another table, filter that."""
        grid = self.find_grid()
        if grid is not None and grid.id == "log":
            self._drawn = ()
            if text:  # only rows given as a list can be filtered
                self.show_table("#log", COLUMNS, known_rows(self.log_, self.fmt, self.app.now_ms()))
            grid.set_filter(text)
            self._show_log(self.app.now_ms())
            self.ask_again()
        else:
            super().set_filter(text)

    def action_time(self) -> None:
        self.app.ask(Prompt("T", placeholder="2026-11-20T12:03:04, -15m, or a record's number"), self._go_to)

    @work(exclusive=True, group="jump")
    async def _go_to(self, typed: str | None) -> None:
        if not typed or not typed.strip():
            return
        try:
            offset = await self._offset_of(typed.strip())
        except YakError as error:
            self.app.show_error(error)
            return
        log = self.log_
        if offset < log.begin or _OFFSET.fullmatch(typed.strip()):  # that of a time may be newer than the log as read
            self._say_missing(offset)
        self.query_one("#log", Grid).move_to(str(min(max(offset, log.begin), log.end)))

    async def _offset_of(self, typed: str) -> int:
        if _OFFSET.fullmatch(typed):
            return int(typed)
        now_ms = self.app.now_ms()
        time_ms = self.fmt.parse_time_ms(typed, now_ms)
        if time_ms > now_ms:
            raise UsageError("bad-time", f'"{typed}" is in the future', why="the log ends now")
        image = await self.app.source.ask("GET", "/metadata/image", params={"at": f"{time_ms / 1000:.3f}"})
        try:
            return int(image["offset"])
        except self.app.unreadable as error:
            raise unreadable("the metadata image", error) from error

    # the image

    @work(exclusive=True, group="image")
    async def _load_image(self, offset: int, mark: int | None) -> None:
        """Load the image, or the difference to the mark. A later request replaces an earlier one."""
        try:
            found = await self._things_at(offset)
            before = None if mark is None else await self._things_at(mark)
        except YakError as error:
            self._image_status = f"{self.fmt.sign('warn')} {error.message}"
            if error.code in _ENDED or not self._image_of:
                self.query_one("#image", Grid).show(image_rows.IMAGE_COLUMNS, (), empty=self._image_status)
            self.paint_body()
            return
        self._image_status = ""
        record = self.log_.records.get(offset)
        touched = set() if record is None else touched_by(record, self.log_.topic_names)
        fmt = self.fmt
        rows: list[Row]
        if before is None:
            rows = await asyncio.to_thread(image_rows.image_rows, found, touched, fmt)
            empty = ""
        else:
            assert mark is not None
            pair = (before, found) if mark <= offset else (found, before)
            rows = await asyncio.to_thread(diff_rows, *pair, fmt)
            empty = (
                "Nothing changed between the two."
                if mark != offset
                else "Go to another record: what changed is shown here."
            )
        self.show_table("#image", image_rows.IMAGE_COLUMNS, rows, empty)
        if (offset, mark) != self._image_of and before is None:
            first = next((row.key for row in rows if row.key in touched), None)
            if first is not None:
                self.query_one("#image", Grid).move_to(first)
        self._image_of = (offset, mark)
        self.paint_body()

    async def _things_at(self, offset: int) -> Things:
        if offset in self._things:
            self._things.move_to_end(offset)
            return self._things[offset]
        image = await self.app.source.ask("GET", "/metadata/image", params={"at": offset})
        try:
            found = await asyncio.to_thread(things, image)
            self.log_.learn_names(image)
        except self.app.unreadable as error:
            raise unreadable("the metadata image", error) from error
        self._things[offset] = found
        while len(self._things) > _IMAGES_MAX:
            self._things.popitem(last=False)
        return found

    # details

    @on(Grid.Opened, "#log")
    def open_record(self) -> None:
        offset = self._offset()
        if offset in self.log_.records:
            assert offset is not None
            self.app.push_screen(TextDialog(f"Record {offset}", JSON(self._json(offset))))

    def action_copy(self) -> None:
        focused = self.find_grid()
        offset = self._offset()
        if focused is not None and focused.id == "image":
            super().action_copy()
        elif offset is not None and offset in self.log_.records:
            self.app.copy(self._json(offset), f"record {offset}")

    def opened(self, what: object) -> None:
        if _OFFSET.fullmatch(str(what)):
            self._wished = int(str(what))
            self._drawn = ()
            self.paint_body()
