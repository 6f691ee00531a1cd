"""All consumer groups: state, members, lag and its trend."""

import asyncio
from collections.abc import Mapping
from typing import Any

from textual import on
from textual.app import ComposeResult

from yak.errors import YakError
from yak.tui.keys import keys
from yak.tui.rows.cells import Row
from yak.tui.rows.group_detail import AGE, PARTITION_COLUMNS, partition_rows
from yak.tui.rows.groups import COLUMNS, group_rows, list_title, silent_words
from yak.tui.screens.group_changes import GroupChangesScreen
from yak.tui.screens.group_detail import GroupScreen
from yak.tui.source.live import path_of
from yak.tui.state.groups import Groups
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.panel import Panel

_AT_ONCE = 4
_DETAILS_MAX = 60
"""The most groups asked in one round."""
_HINT = "enter open   r move offsets   X delete"
_NONE = "No groups. A group appears when a consumer joins or commits; press c to start one."


class GroupsScreen(GroupChangesScreen):
    """The list of groups. Only visible groups are asked for their lag."""

    TITLE_WORDS = "groups"
    CLI_TWIN = "yak groups list"
    BINDINGS = keys("groups.reset", "groups.delete", "groups.consume", "groups.copy")
    EXPLAINED = (
        ("State", "Stable: members have their partitions. joining, syncing, Assigning, Reconciling: they are being given. Empty: nobody reads, but offsets are kept."),
        ("Lag", "Records below the high watermark that the group has not committed, in all partitions. 0: all is read. A dash: nothing is committed."),
        ("Trend", "The lag of the last 60 s, as long as this screen was looked at."),
        ("ETA", "The lag divided by how fast it falls: when all is read if it goes on so. A dash: it neither falls nor grows steadily."),
        ("Coord", "The broker that leads the group's partition of __consumer_offsets: it knows the members, and what is committed."),
        ("Type", "classic: the members share out the partitions themselves. consumer: the coordinator does (KIP-848)."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups()

    def body(self) -> ComposeResult:
        """Build the list and, if there is room, the partitions of the group under the cursor."""
        yield Panel("Groups", Grid(id="groups"), id="groups-panel", subtitle=_HINT)
        yield Panel("Partitions", Grid(id="below"), id="groups-below")

    def paint(self, now_ms: int) -> None:
        """Draw the latest answers."""
        empty = _NONE if self.groups.is_listed else self.trouble_words() or "asking the brokers for their groups ..."
        rows = group_rows(self.groups, self.look, now_ms)
        self.query_one("#groups", Grid).show(COLUMNS, rows, empty=empty, is_wide=self.look.is_wide)
        hint = self.trouble_words() or silent_words(self.groups) or _HINT
        self.query_one("#groups-panel", Panel).entitle(list_title(self.groups, self.look), hint)
        self._paint_below(now_ms)

    @on(Grid.Moved, "#groups")
    def moved(self) -> None:
        """Show the partitions of the group under the cursor."""
        self._paint_below(self.app.now_ms())

    def _paint_below(self, now_ms: int) -> None:
        name, said = self.chosen_group()
        below = self.query_one("#groups-below", Panel)
        if not below.display:
            return
        rows = [] if said is None else partition_rows(said, {}, self.look, now_ms)
        empty = "" if not name or said is None else "Nothing is committed, and no member has a partition."
        columns = [column for column in PARTITION_COLUMNS if column.label != "AGE"]
        without_age = [Row(row.key, tuple(c for n, c in enumerate(row.cells) if n != AGE)) for row in rows]
        self.query_one("#below", Grid).show(columns, without_age, empty=empty, is_wide=self.look.is_wide)
        below.entitle(
            f"Partitions of {name}" if name else "Partitions", "enter on the group: members, ages" if name else ""
        )

    def forget(self) -> None:
        """Drop the groups of the former cluster."""
        self.groups = Groups()

    async def ask(self) -> None:
        """List the groups, then ask for the lag of the visible ones."""
        source = self.app.source
        listed = await source.ask("GET", "/api/groups")
        if source is not self.app.source:
            return
        self.groups.listed(listed)
        self.paint(self.app.now_ms())
        groups, gate = self.groups, asyncio.Semaphore(_AT_ONCE)

        async def tell(name: str) -> None:
            async with gate:
                try:
                    said = await source.ask("GET", path_of("api", "groups", name))
                except YakError as error:
                    groups.failed(name, error.message)
                else:
                    groups.told(name, said, self.app.now_ms())

        names = self.query_one("#groups", Grid).keys_in_sight()[:_DETAILS_MAX]
        await asyncio.gather(*(tell(name) for name in names))

    def opened(self, what: object) -> None:
        """Open a group by its name."""
        self.show_group(str(what))

    @on(Grid.Opened, "#groups")
    def open_group(self, event: Grid.Opened) -> None:
        """Open the screen of the group."""
        self.show_group(event.row.key)

    def show_group(self, name: str) -> None:
        """Push the group's screen, in place of an open one."""
        top = self.app.screen_below()
        if isinstance(top, GroupScreen):
            if top.group.name == name:
                return
            self.app.pop_screen()
        self.app.push_screen(GroupScreen(name, self.groups.by_name.get(name)))

    def chosen_group(self) -> tuple[str, Mapping[str, Any] | None]:
        """The group under the cursor."""
        name = self.query_one("#groups", Grid).cursor_key
        if name is None or name not in self.groups.by_name:
            return "", None
        return name, self.groups.by_name[name].said

    def action_consume(self) -> None:
        """Read with the group, on the consumer screen."""
        self.app.go("consumer")

    def action_copy(self) -> None:
        """Copy the group's name."""
        name, _said = self.chosen_group()
        if name:
            self.app.copy(name, f"the name {name}")
