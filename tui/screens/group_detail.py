"""One group: its members, their partitions, its position in each partition."""

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult

from yak.errors import YakError
from yak.ids import TopicPartition
from yak.tui.keys import keys
from yak.tui.rows.group_detail import (
    MEMBER_COLUMNS,
    PARTITION_COLUMNS,
    member_rows,
    partition_rows,
    summary,
)
from yak.tui.screens.group_changes import GroupChangesScreen
from yak.tui.source.group_calls import find_group_unread
from yak.tui.source.live import path_of
from yak.tui.state.groups import Group, Unread
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.lines import Lines
from yak.tui.widgets.panel import Panel

_UNREAD_EVERY_S = 15.0
"""The first unread record of each partition costs a fetch from every leader."""
_NOBODY = "No members. Offsets that it committed are kept; who reads with this group goes on from there."
_NOTHING = "Nothing is committed, and no member has a partition."


class GroupScreen(GroupChangesScreen):
    """The screen of one group; the list of groups pushes it."""

    TITLE_WORDS = "group"
    CLI_TWIN = "yak groups describe GROUP, yak groups members GROUP"
    BINDINGS = keys("group.reset", "group.forget", "group.delete", "group.age", "group.messages", "group.copy")
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Committed", "The next offset that the group reads after a restart: what it said was done."),
        ("Log end", "The high watermark: as far as a consumer can read now."),
        ("Age", "How long ago the oldest record was written that the group has not read. It is read every 15 s, and with t."),
        ("Member", "Who reads the partition now. A warning says where the committed offset does not fit the log."),
        ("Arrow in Assigned", "A member of the new protocol (KIP-848) on the way from what it has to what it is to have."),
    )  # fmt: skip

    def __init__(self, name: str, known: Group | None = None) -> None:
        super().__init__()
        self.group = known or Group(name)
        self.unread: dict[TopicPartition, Unread] = {}
        self._is_reading = False
        self._unread_trouble: YakError | None = None

    def crumbs(self) -> list[str]:
        """The crumbs, below the groups."""
        return ["groups", self.group.name]

    def body(self) -> ComposeResult:
        """Build head, members and partitions."""
        yield Panel(f"Group {self.group.name}", Lines(id="summary"), id="group-head")
        yield Panel("Members", Grid(id="members"), id="group-members")
        yield Panel("Partitions", Grid(id="partitions"), id="group-partitions")

    def on_mount(self) -> None:
        """Focus the partitions, which most actions concern."""
        self.query_one("#partitions").focus()
        self.set_interval(_UNREAD_EVERY_S, self._read_in_turn)

    def paint(self, now_ms: int) -> None:
        """Draw the latest answers."""
        look, said = self.look, self.group.said
        self.query_one("#summary", Lines).show(summary(self.group, look, now_ms))
        self.query_one("#group-head", Panel).entitle(f"Group {self.group.name}", self.trouble_words())
        members = [] if said is None else member_rows(said, look)
        partitions = [] if said is None else partition_rows(said, self.unread, look, now_ms)
        waiting = self.trouble_words() or "asking the coordinator ..."
        self.query_one("#members", Grid).show(
            MEMBER_COLUMNS, members, empty=waiting if said is None else _NOBODY, is_wide=look.is_wide
        )
        self.query_one("#partitions", Grid).show(
            PARTITION_COLUMNS, partitions, empty=waiting if said is None else _NOTHING, is_wide=look.is_wide
        )
        self.query_one("#group-members", Panel).entitle(f"Members: {len(members)}")
        hint = "reading the first unread records ..." if self._is_reading else self._hint()
        self.query_one("#group-partitions", Panel).entitle(f"Partitions: {len(partitions)}", hint)

    def _hint(self) -> str:
        if self._unread_trouble is not None:
            return f"{self.look.sign('warn')} no ages: {self._unread_trouble.why or self._unread_trouble.message}"[:120]
        return "m messages   t ages now   r move offsets   D forget a topic"

    def ask_again(self) -> None:
        """Ask, unless the cluster has changed: the group does not exist there."""
        if self._asked_source not in (None, self.app.source):
            if self.app.screen is self:
                self.dismiss()
            return
        super().ask_again()

    async def ask(self) -> None:
        """Ask its coordinator; the first time, find the age of its unread records too."""
        said = await self.app.source.ask("GET", path_of("api", "groups", self.group.name))
        is_first = self.group.said is None or not self.unread
        self.group.told(said, self.app.now_ms())
        if is_first and self._unread_trouble is None:
            self._read_in_turn()

    def _read_in_turn(self) -> None:
        if self.is_seen and self.group.lag and not self.app.is_frozen:
            self._read_unread(is_asked_for=False)

    def action_age(self) -> None:
        """Find the age of the oldest unread records now."""
        self._read_unread(is_asked_for=True)

    def _read_unread(self, *, is_asked_for: bool) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._find_unread(is_asked_for)

    @work(group="unread")
    async def _find_unread(self, is_asked_for: bool) -> None:
        try:
            self.unread = await self.app.source.kafka(find_group_unread, self.group.name)
            self._unread_trouble = None
        except YakError as error:
            self._unread_trouble = error
            if is_asked_for:
                self.app.show_error(error)
        finally:
            self._is_reading = False
        if self.is_seen:
            self.paint(self.app.now_ms())

    def chosen_group(self) -> tuple[str, Mapping[str, Any] | None]:
        """This group."""
        return self.group.name, self.group.said

    def chosen_topic(self) -> str:
        """The topic of the partition under the cursor."""
        return (self.query_one("#partitions", Grid).cursor_key or "").rpartition(":")[0]

    def group_is_gone(self, name: str) -> None:
        """Return to the list."""
        if name == self.group.name and self in self.app.screen_stack:
            self.dismiss()

    def action_messages(self) -> None:
        """Show the records of the topic under the cursor."""
        topic = self.chosen_topic()
        if topic:
            self.app.go("messages", topic)

    def action_copy(self) -> None:
        """Copy the line."""
        self.app.copy(self.copied(), "the line")
