"""The consumer: up to six subscriptions side by side, or merged in one list."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from yak.client.offset_spec import END
from yak.errors import UsageError, YakError
from yak.tui.formatter import Formatter
from yak.tui.keys import keys
from yak.tui.messages.detail import DetailLine, View, detail_lines
from yak.tui.messages.reader import WAIT_S, Reader
from yak.tui.messages.store import MergedStore
from yak.tui.messages.subscription import Seek, Subscription, fields_of
from yak.tui.rows.records import empty_text, tile_status, tile_title
from yak.tui.screens.messages import SHARED_KEYS, MessageGrid, ReadingScreen
from yak.tui.widgets.dialogs import TextDialog
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid

LEAVE_SECONDS = 2.0


class Tile(Panel):
    """`letter` names it. It reads from its creation to its removal."""

    def __init__(self, letter: str, grid: MessageGrid, reader: Reader) -> None:
        super().__init__(f"{letter} {reader.wanted.title}", grid)
        self.letter, self.grid, self.reader = letter, grid, reader

    async def on_unmount(self) -> None:
        """Stop reading.

        A group member leaves in order, which takes a moment; else its partitions wait for the session timeout.
        """
        self.reader.close()
        if self.reader.wanted.group:
            await asyncio.to_thread(self.reader.join, LEAVE_SECONDS)

    def paint(self, fmt: Formatter, now_ms: int, view: View) -> None:
        reader = self.reader
        status, counts, wanted = reader.status, reader.store.counts(), reader.wanted
        self.grid.show_records(
            reader.store, fmt, now_ms, view, with_topic=len(wanted.choices) > 1,
            empty=empty_text(status, counts, wanted, reader.filter_text, fmt), is_narrow=True,
        )  # fmt: skip
        width = self.size.width - 6
        self.entitle(
            tile_title(self.letter, wanted, width), tile_status(status, counts, wanted, reader.filter_text, fmt, width)
        )


LETTERS = "ABCDEF"
COMMIT_SECONDS = 15.0
PAUSE_CHECKS = 20
"""How often it is checked whether a paused reader has taken the batch that it was reading."""
_NOTHING = (
    "No subscriptions yet. a adds one: topics, with or without a group.\n"
    "Up to six stand side by side; m shows them as one list."
)


_GROUP_HINT = "With a group its members share the partitions; From counts only where it committed nothing yet."
_STYLES: Mapping[str, str] = {
    "good": "$success",
    "warn": "$warning",
    "bad": "$error",
    "dim": "$dim",
    "accent": "$accent",
    "strong": "bold",
}


class ConsumerScreen(ReadingScreen):
    """Subscriptions as tiles, or merged."""

    CRUMB = "consumer"
    CLI_TWIN = "yak consume TOPIC --group GROUP"
    SEEK = Seek(END)
    BINDINGS = keys("consumer", *SHARED_KEYS)
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = (
        ("group", "The members share the partitions, and the group stores its committed offsets. C commits; nothing else on this screen does."),
        ("no group", "An independent reader: it affects no group and stores no offsets."),
        ("lag", "Records in the log that were not read yet."),
        ("uncommitted", "Records that were read but not committed. The group's next member reads them again."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._is_merged = False

    def body(self) -> ComposeResult:
        yield Static(_NOTHING, id="tiles-empty", markup=False)
        yield Container(id="tiles")
        yield Panel("All", MessageGrid(id="merged"), id="merged-panel")

    # state

    @property
    def tiles(self) -> list[Tile]:
        return sorted(self.query(Tile), key=lambda tile: tile.letter)

    @property
    def tile(self) -> Tile | None:
        """The focused tile, else the first."""
        focused = self.focused
        tiles = self.tiles
        return next((tile for tile in tiles if tile.grid is focused), tiles[0] if tiles else None)

    def crumbs(self) -> list[str]:
        return ["consumer", *(["all in one list"] if self._is_merged else [])]

    def grid_in_use(self) -> MessageGrid | None:
        if self._is_merged:
            return self.query_one("#merged", MessageGrid)
        tile = self.tile
        return tile.grid if tile is not None else None

    def readers(self) -> list[Reader]:
        return [tile.reader for tile in self.tiles]

    def readers_in_use(self) -> list[Reader]:
        tile = self.tile
        return self.readers() if self._is_merged else [tile.reader] if tile is not None else []

    # life cycle

    def on_mount(self) -> None:
        self._arrange()

    def read(self, wanted: Subscription, filter_text: str = "") -> None:
        """Add a tile. Raises UsageError `too-many`."""
        taken = {tile.letter for tile in self.query(Tile)}
        free = [letter for letter in LETTERS if letter not in taken]
        if not free:
            raise UsageError(
                "too-many", f"there are {len(LETTERS)} subscriptions already", why="no more fit", try_=("X ends one",)
            )
        grid = MessageGrid(id=f"tile-{free[0]}")
        tile = Tile(free[0], grid, self.begin_reading(wanted, filter_text, grid))
        after = [each for each in self.tiles if each.letter > free[0]]
        self.query_one("#tiles").mount(tile, before=after[0] if after else None)
        self.call_after_refresh(self._arrange, tile)

    def _arrange(self, focused: Tile | None = None) -> None:
        tiles = self.tiles
        count = len(tiles)
        self.query_one("#tiles-empty").display = not count
        place = self.query_one("#tiles")
        place.display = bool(count) and not self._is_merged
        self.query_one("#merged-panel").display = bool(count) and self._is_merged
        for name, is_used in (("-two", count == 2), ("-four", count in (3, 4)), ("-six", count > 4)):
            place.set_class(is_used, name)
        if not self._is_merged and focused is not None:
            focused.grid.focus()
        elif self._is_merged:
            self.query_one("#merged", MessageGrid).focus()
        self.paint_body()

    # drawing

    def paint(self, now_ms: int) -> None:
        tiles, fmt = self.tiles, self.fmt
        if not self._is_merged:
            for tile in tiles:
                tile.paint(fmt, now_ms, self.view)
            return
        grid = self.query_one("#merged", MessageGrid)
        merged = MergedStore([tile.reader.store for tile in tiles])
        empty = "No record came yet in any of the subscriptions."
        grid.show_records(merged, fmt, now_ms, self.view, with_topic=True, empty=empty)
        rate = sum(tile.reader.status.rate for tile in tiles)
        lag = sum(tile.reader.status.behind or 0 for tile in tiles)
        self.entitle(
            "#merged-panel",
            ", ".join(f"{tile.letter} {tile.reader.wanted.title}" for tile in tiles),
            f"{fmt.number(len(grid.records))} records  {fmt.rate(rate)}  lag {fmt.number(lag)}",
        )

    # keys

    def go_back(self) -> bool:
        """Leave the merged list at last."""
        if not super().go_back():
            if not self._is_merged:
                return False
            self.action_merge()
        return True

    def action_merge(self) -> None:
        self._is_merged = not self._is_merged
        if self._is_merged:
            self.query_one("#merged", MessageGrid).begin(follows=True)
        self._arrange(self.tile)
        self._show_marks()

    def action_add_tile(self) -> None:
        fields = {"topics": "", "from": "last 20", "to": "", "group": "", "committed": "false"}

        def begin(wanted: Subscription, filter_text: str) -> None:
            try:
                self.read(wanted, filter_text)
            except YakError as error:
                self.app.show_error(error)

        self.ask_subscription("Add a subscription", fields, "", begin, text=_GROUP_HINT, with_group=True)

    def action_seek(self) -> None:
        tile = self.tile
        if tile is None:
            self.action_add_tile()
            return

        def begin(wanted: Subscription, filter_text: str) -> None:
            tile.reader.close()
            tile.reader = self.begin_reading(wanted, filter_text, tile.grid)

        known = tile.reader
        self.ask_subscription(
            f"Subscription {tile.letter}", fields_of(known.wanted), known.filter_text, begin,
            text=_GROUP_HINT, with_group=True,
        )  # fmt: skip

    @work(exclusive=True, group="ask")
    async def action_commit(self) -> None:
        tile = self.tile
        if tile is None or not tile.reader.wanted.group:
            self.app.show_error(
                UsageError(
                    "no-group",
                    "there is no group to commit to",
                    why="this tile reads without a group",
                    try_=("a, and name a group",),
                )
            )
            return
        reader = tile.reader
        was_paused = reader.is_paused
        reader.pause()  # records that come while the question is open are not part of the answer
        try:
            await self._commit(reader, reader.wanted.group)
        finally:
            reader.pause(was_paused)

    async def _commit(self, reader: Reader, group: str) -> None:
        for _ in range(PAUSE_CHECKS):
            if reader.status.phase == "reading":
                await asyncio.sleep(WAIT_S)
        count = reader.status.uncommitted
        if not count:
            self.app.notice(f"group {group} has committed all that this tile has read")
            return
        command = f"{reader.wanted.command().replace(' --no-commit', '')} --max-messages {count}"
        records = self.fmt.counted(count, "record")
        text = f"Group {group} will go on after the {records} that this tile has read since."
        if not await self.confirmed(f"Commit for {group}", text, command=command, yes="Commit"):
            return
        try:
            why = await asyncio.wait_for(asyncio.wrap_future(reader.commit()), COMMIT_SECONDS)
        except YakError as error:
            self.app.show_error(error)
        except TimeoutError:
            self.app.show_error(YakError("timed-out", f"group {group} did not answer", why="nothing may be committed"))
        else:
            if why:
                self.app.show_error(YakError("not-committed", f"not committed for {group} yet", why=why, try_=("C",)))
                return
            self.app.note_command(command, "committed")
            self.app.notice(f"committed for {group}")

    @work(exclusive=True, group="close")
    async def action_close_tile(self) -> None:
        """Close the focused tile. Asks first if its group has read records without committing them."""
        tile = self.tile
        if tile is None:
            return
        group, count = tile.reader.wanted.group, tile.reader.status.uncommitted
        if group and count:
            text = f"{self.fmt.number(count)} records were read and not committed: group {group} gets them again."
            if not await self.confirmed(f"Leave {group}", text, yes="Leave"):
                return
        await tile.remove()
        left = self.tiles
        self._arrange(left[0] if left else None)

    @on(Grid.Opened)
    def show_record(self) -> None:
        record = self.record_in_use()
        if record is not None:
            lines = detail_lines(record, self.fmt, self.app.now_ms(), view=self.view, width=self.size.width - 8)
            self.app.push_screen(TextDialog(record.id, _content(lines)))


def _content(lines: Iterable[DetailLine]) -> Content:
    parts = []
    for line in lines:
        parts += [Content.styled(text, _STYLES.get(tone, "")) for text, tone in line.spans]
        parts.append(Content("\n"))
    return Content("").join(parts)
