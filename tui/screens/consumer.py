"""The consumer: up to six subscriptions side by side, or merged in one list."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from yak.tui.messages.reader import Reader
from yak.tui.messages.store import MergedStore, Store
from yak.tui.messages.subscription import Seek, Subscription, fields_of
from yak.tui.rows.records import empty_text, tile_status, tile_title
from yak.tui.screens.messages import SHARED_KEYS, MessageGrid, ReadingScreen
from yak.tui.widgets.dialogs import TextDialog
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid

LEAVE_SECONDS = 2.0


class Tile(Panel):
    """`letter` names it. It reads from its creation to its removal."""

    def __init__(
        self,
        letter: str,
        wanted: Subscription,
        filter_text: str,
        *,
        servers: Callable[[], str],
        numbering: Iterator[int],
    ) -> None:
        self.grid = MessageGrid(id=f"tile-{letter}")
        super().__init__(f"{letter} {wanted.title}", self.grid)
        self.letter = letter
        self.is_paused = False
        self._servers, self._numbering = servers, numbering
        self._drawn: tuple[object, ...] = ()
        self.reader = self._started(wanted, filter_text)

    def _started(self, wanted: Subscription, filter_text: str) -> Reader:
        reader = Reader(self._servers, wanted, numbering=self._numbering)
        if filter_text:
            reader.set_filter(filter_text)
        reader.start()
        self.grid.follows = self.grid.is_following = wanted.is_tail
        return reader

    def read(self, wanted: Subscription, filter_text: str) -> None:
        self.reader.close()
        self.is_paused = False
        self.reader = self._started(wanted, filter_text)

    async def on_unmount(self) -> None:
        """Stop reading.

        A group member leaves in order, which takes a moment; else its partitions wait for the session timeout.
        """
        self.reader.close()
        if self.reader.wanted.group:
            await asyncio.to_thread(self.reader.join, LEAVE_SECONDS)

    def pause(self, is_paused: bool) -> None:
        self.is_paused = is_paused
        self.reader.pause(is_paused)

    def rest(self, is_seen: bool) -> None:
        """Pause while the screen is hidden, unless it is a group member: its partitions and its lag would be stuck."""
        if not self.reader.wanted.group and not self.is_paused:
            self.reader.pause(not is_seen)

    def paint(self, fmt: Formatter, now_ms: int, view: View) -> None:
        reader = self.reader
        status, counts, wanted = reader.status, reader.store.counts(), reader.wanted
        second = now_ms // 1000 if fmt.zone == "relative" else 0
        drawn = (id(reader), counts.version, fmt, view, second, status.phase, status.error)
        if drawn != self._drawn:
            self._drawn = drawn
            with_topic = len(wanted.choices) > 1
            empty = empty_text(status, counts, wanted, reader.filter_text, fmt)
            self.grid.show_records(reader.store, fmt, now_ms, view, with_topic=with_topic, empty=empty, is_narrow=True)
        width = self.size.width - 6
        self.entitle(
            tile_title(self.letter, wanted, width), tile_status(status, counts, wanted, reader.filter_text, fmt, width)
        )


LETTERS = "ABCDEF"
COMMIT_SECONDS = 15.0
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
    BINDINGS = keys(
        "consumer.add", "consumer.merge", "consumer.commit", "consumer.close", "consumer.seek", *SHARED_KEYS
    )
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = (
        ("group", "The members share the partitions, and the group stores its committed offsets. C commits; nothing else on this screen does."),
        ("no group", "An independent reader: it affects no group and stores no offsets."),
        ("lag", "Records in the log that were not read yet."),
        ("uncommitted", "Records that were read but not committed. The group's next member reads them again."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._numbering = itertools.count()
        self._is_merged = False
        self._merged_drawn: tuple[object, ...] = ()

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

    def source_in_use(self) -> Store | MergedStore | None:
        if self._is_merged:
            return MergedStore([tile.reader.store for tile in self.tiles])
        tile = self.tile
        return tile.reader.store if tile is not None else None

    def wanted_in_use(self) -> Subscription | None:
        """Its subscription; for the merged list, the topics of all."""
        tiles = self.tiles
        if self._is_merged and tiles:
            choices = {choice: None for tile in tiles for choice in tile.reader.wanted.choices}
            return Subscription(tuple(choices), tiles[0].reader.wanted.seek)
        tile = self.tile
        return tile.reader.wanted if tile is not None else None

    # life cycle

    def on_mount(self) -> None:
        self._arrange()

    def rest(self, *, is_seen: bool) -> None:
        for tile in self.tiles:
            tile.rest(is_seen)

    def read(self, wanted: Subscription, filter_text: str = "") -> None:
        self.add(wanted, filter_text)

    def add(self, wanted: Subscription, filter_text: str = "") -> None:
        """Add a tile. Raises UsageError `too-many`."""
        taken = {tile.letter for tile in self.query(Tile)}
        free = [letter for letter in LETTERS if letter not in taken]
        if not free:
            raise UsageError(
                "too-many", f"there are {len(LETTERS)} subscriptions already", why="no more fit", try_=("X ends one",)
            )
        source = self.app.source
        tile = Tile(free[0], wanted, filter_text, servers=lambda: source.bootstrap, numbering=self._numbering)
        after = [each for each in self.tiles if each.letter > free[0]]
        self.query_one("#tiles").mount(tile, before=after[0] if after else None)
        self.app.note_command(wanted.command(filter_text))
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
        self.paint(self.app.now_ms())

    # drawing

    def paint(self, now_ms: int) -> None:
        tiles, fmt = self.tiles, self.fmt
        if not self._is_merged:
            for tile in tiles:
                tile.paint(fmt, now_ms, self.view)
            return
        grid = self.query_one("#merged", MessageGrid)
        versions = tuple(tile.reader.store.counts().version for tile in tiles)
        second = now_ms // 1000 if fmt.zone == "relative" else 0
        drawn = (tuple(tile.letter for tile in tiles), versions, fmt, self.view, second)
        if drawn != self._merged_drawn:
            self._merged_drawn = drawn
            merged = MergedStore([tile.reader.store for tile in tiles])
            empty = "No message came yet in any of the subscriptions."
            grid.show_records(merged, fmt, now_ms, self.view, with_topic=True, empty=empty)
        rate = sum(tile.reader.status.rate for tile in tiles)
        lag = sum(tile.reader.status.behind or 0 for tile in tiles)
        self.entitle(
            "#merged-panel",
            ", ".join(f"{tile.letter} {tile.reader.wanted.title}" for tile in tiles),
            f"{fmt.number(len(grid.records))} messages  {fmt.rate(rate)}  lag {fmt.number(lag)}",
        )

    # keys

    def hold(self) -> bool:
        tiles = self.tiles if self._is_merged else [tile for tile in [self.tile] if tile is not None]
        if not tiles:
            return False
        is_paused = not all(tile.is_paused for tile in tiles)
        for tile in tiles:
            tile.pause(is_paused)
        return True

    def filter_setter(self, text: str) -> Callable[[], None]:
        tiles = self.tiles if self._is_merged else [tile for tile in [self.tile] if tile is not None]

        def apply() -> None:
            for tile in tiles if self._typed == text else ():
                if tile.reader.filter_text != text:
                    tile.reader.set_filter(text)

        return apply

    def current_filter(self) -> str:
        tile = self.tile
        return tile.reader.filter_text if tile is not None else ""

    def unmerge(self) -> bool:
        if self._is_merged:
            self.action_merge()
            return True
        return False

    def action_merge(self) -> None:
        self._is_merged = not self._is_merged
        self._merged_drawn = ()
        if self._is_merged:
            self.query_one("#merged", MessageGrid).begin(follows=True)
        self._arrange(self.tile)
        self._show_marks()

    def action_add_tile(self) -> None:
        fields = {"topics": "", "from": "last 20", "to": "", "group": "", "committed": "false"}

        def begin(wanted: Subscription, filter_text: str) -> None:
            try:
                self.add(wanted, filter_text)
            except YakError as error:
                self.app.show_error(error)

        self.ask_subscription("Add a subscription", fields, "", begin, text=_GROUP_HINT, with_group=True)

    def action_seek(self) -> None:
        tile = self.tile
        if tile is None:
            self.action_add_tile()
            return

        def begin(wanted: Subscription, filter_text: str) -> None:
            tile.read(wanted, filter_text)
            self.app.note_command(wanted.command(filter_text))

        known = tile.reader
        self.ask_subscription(
            f"Subscription {tile.letter}", fields_of(known.wanted), known.filter_text, begin,
            text=_GROUP_HINT, with_group=True,
        )  # fmt: skip

    @work(exclusive=True, group="commit")
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
        group, count = tile.reader.wanted.group, tile.reader.status.uncommitted
        if not count:
            self.app.notice(f"group {group} has committed all that this tile has read")
            return
        command = f"{tile.reader.wanted.command().replace(' --no-commit', '')} --max-messages {count}"
        text = f"Group {group} will go on after the {self.fmt.number(count)} messages that this tile has read since."
        if not await self.confirmed(f"Commit for {group}", text, command=command, yes="Commit"):
            return
        try:
            why = await asyncio.wait_for(asyncio.wrap_future(tile.reader.commit()), COMMIT_SECONDS)
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
            text = f"{self.fmt.number(count)} messages were read and not committed: group {group} gets them again."
            if not await self.confirmed(f"Leave {group}", text, yes="Leave"):
                return
        await tile.remove()
        left = self.tiles
        self._arrange(left[0] if left else None)

    @on(Grid.Opened)
    def show_record(self) -> None:
        record = self.record_in_use()
        if record is not None:
            lines = detail_lines(record, self.fmt, self.app.now_ms(), view=self.view)
            self.app.push_screen(TextDialog(record.id, _content(lines)))


def _content(lines: Iterable[DetailLine]) -> Content:
    parts = []
    for line in lines:
        parts += [Content.styled(text, _STYLES.get(tone, "")) for text, tone in line.spans]
        parts.append(Content("\n"))
    return Content("").join(parts)
