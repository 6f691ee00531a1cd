"""Consumer groups: all of them, one with its members and positions, and changes to one."""

import asyncio
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from yak.client.groups.descriptions import active_group
from yak.client.groups.offsets_file import parse_offsets, read_text
from yak.client.groups.reset import ResetPlan
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.tui.keys import keys
from yak.tui.rows.cells import Row
from yak.tui.rows.groups import (
    COLUMNS,
    MEMBER_COLUMNS,
    PARTITION_COLUMNS,
    STEP_COLUMNS,
    TIME_LAG,
    WAYS,
    group_rows,
    list_title,
    member_rows,
    members_of,
    partition_rows,
    plan_summary,
    reset_command,
    reset_target,
    silent_brokers,
    step_rows,
    summary,
    topics_of,
)
from yak.tui.screens.base import AskingScreen
from yak.tui.source.base import gather_few
from yak.tui.source.kafka import (
    delete_group,
    find_group_unread,
    forget_group_topic,
    move_group_offsets,
    plan_group_reset,
)
from yak.tui.source.live import path_of
from yak.tui.state.groups import Group, Groups, Unread
from yak.tui.widgets.dialogs import Field
from yak.tui.widgets.frame import Lines, Panel, plain_title
from yak.tui.widgets.grid import Grid
from yak.view.groups import members_text

if TYPE_CHECKING:
    from yak.tui.app import YakApp


class ResetPreview(ModalScreen[bool]):
    """Old and new offsets; returns whether the reset was done. A group with members is refused, and they are listed."""

    BINDINGS = [*keys("reset"), Binding("escape,q", "dismiss(False)", "no")]
    AUTO_FOCUS = "Grid"
    app: "YakApp"

    def __init__(self, group: str, values: Mapping[str, str]) -> None:
        super().__init__()
        self._group, self._values = group, values
        self._plan: ResetPlan | None = None
        self._results: Mapping[TopicPartition, YakError | None] | None = None
        self._is_busy = self._is_applying = False

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="preview") as dialog:
            dialog.border_title = plain_title(f"Move the offsets of {self._group}: the plan")
            if self.app.is_production:
                yield Static(f"This is {self.app.source.title}: PROD", classes="dialog-prod", markup=False)
            yield Static("waiting for the brokers ...", id="preview-text", markup=False)
            yield Grid(id="steps")
            yield Static("", id="preview-refused", markup=False)
            line = reset_command(self._group, self._values, self.app.fmt, is_done=True)
            yield Static(f"$ {line}", classes="dialog-command", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button("Move them (R)", variant="error", id="yes", disabled=True, action="screen.apply")
                yield Button("Look again (r)", id="again", action="screen.again")
                yield Button("No (esc)", id="no", action="screen.dismiss(False)")

    def on_mount(self) -> None:
        self.action_again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if (action == "apply" and self.app.is_readonly) or (action == "dismiss" and self._is_applying):
            return False
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        if not self._is_busy and self._results is None:
            self._is_busy = True
            self._load_plan()

    @work(group="preview")
    async def _load_plan(self) -> None:
        app = self.app
        try:
            offsets = {}
            if self._values["to"] == "file":
                path = self._values["value"]
                offsets = parse_offsets(await asyncio.to_thread(read_text, path), self._group, path)
            wanted = reset_target(self._values, app.now_ms(), app.fmt, offsets)
            self._plan = await app.source.kafka(plan_group_reset, self._group, wanted, topics_of(self._values))
        except YakError as error:
            self._plan = None
            self._say(error.message, f"{error.why}")
        else:
            self._show()
        finally:
            self._is_busy = False

    def _show(self) -> None:
        plan, fmt = self._plan, self.app.fmt
        if plan is None:
            return
        self.query_one("#steps", Grid).show(STEP_COLUMNS, step_rows(plan.steps, self._results, fmt))
        text = plan_summary(plan.steps, fmt)
        if plan.group is None:
            text += " The group does not exist yet and will be created."
        refused = ""
        if plan.refused is not None:
            refused = f"{fmt.sign('bad')} This cannot be done now: {plan.refused.why}. Stop its members, then press r."
        elif self.app.is_readonly:
            refused = f"{fmt.sign('warn')} Changes are not allowed here (--readonly)."
        self._say(text, refused)
        self.query_one("#yes", Button).disabled = not self._may_apply()

    def _say(self, text: str, refused: str) -> None:
        self.query_one("#preview-text", Static).update(text)
        self.query_one("#preview-refused", Static).update(refused)

    def _may_apply(self) -> bool:
        plan = self._plan
        is_whole = plan is not None and plan.refused is None and bool(plan.changes)
        return is_whole and self._results is None and not self.app.is_readonly

    def action_apply(self) -> None:
        if self._may_apply() and not self._is_busy:
            self._is_busy = self._is_applying = True
            self._say("moving the offsets ...", "")
            self._apply()

    @work(group="preview")
    async def _apply(self) -> None:
        app, plan = self.app, self._plan
        assert plan is not None
        line = reset_command(self._group, self._values, app.fmt, is_done=True)
        try:
            results = await app.source.kafka(move_group_offsets, self._group, plan.changes)
        except YakError as error:
            app.show_error(error)
            self._show()
            return
        finally:
            self._is_busy = self._is_applying = False
        failed = [error for error in results.values() if error is not None]
        app.note_command(line, f"{app.fmt.counted(len(failed), 'partition')} failed" if failed else "")
        if failed:
            self._results = results
            self._show()
            app.show_error(failed[0])
            return
        app.notice(f"{app.fmt.counted(len(results), 'partition')} of group {self._group} moved")
        self.dismiss(True)


class GroupChangesScreen(AskingScreen):
    """Actions on the group that `chosen_group()` names."""

    def chosen_group(self) -> tuple[str, Mapping[str, Any] | None]:
        """The group's name, empty without one, and its coordinator's answer, if any."""
        raise NotImplementedError

    def chosen_topic(self) -> str:
        return ""

    def group_is_gone(self, name: str) -> None:
        """Called after the group was deleted."""

    @work(exclusive=True, group="change")
    async def action_reset(self) -> None:
        (name, said), topics = self.chosen_group(), self.chosen_topic()
        if not name:
            return
        text = "Where should the group continue? A plan is shown first; nothing changes before you confirm it."
        if said is not None and said["members"]:
            text += f"\nIt has members now, which must be stopped first: {members_text(members_of(said))}."
        fmt = self.fmt
        fields = (
            Field("topics", "Topics", topics, "orders:0,2 payments; empty: all that it committed"),
            Field("to", "To", WAYS[0], choices=WAYS),
            Field("value", "Offset, time, file", "", "100, -15m, 2026-11-20T12:00Z, FILE.csv"),
        )
        title = f"Move the offsets of {name}"
        values = await self.fill_form(
            title, fields, lambda given: reset_command(name, given, fmt), text=text, yes="Show the plan"
        )
        if values is not None:
            await self.app.push_screen_wait(ResetPreview(name, values))
            self.ask_again()

    @work(exclusive=True, group="change")
    async def action_delete(self) -> None:
        name, said = self.chosen_group()
        if not name:
            return
        if said is not None and said["members"]:
            self.app.show_error(active_group(name, members_of(said), f'group "{name}" was not deleted'))
            return
        done = f"yak groups delete {shlex.quote(name)} --yes"
        text = "Its committed offsets are deleted. A consumer of this group then starts where auto.offset.reset says."
        if await self.confirmed(f"Delete group {name}", text, command=done, typed=name, yes="Delete"):
            change = self.app.source.kafka(delete_group, name)
            if await self.carry_out(done, change, f"group {name} is deleted"):
                self.group_is_gone(name)
            self.ask_again()

    @work(exclusive=True, group="change")
    async def action_forget(self) -> None:
        name, topic = self.chosen_group()[0], self.chosen_topic()
        if not name or not topic:
            return
        done = f"yak groups delete {shlex.quote(name)} --topic {shlex.quote(topic)} --yes"
        text = f"What group {name} committed of {topic} is forgotten. This fails while a member is subscribed to the topic."
        if await self.confirmed(f"Forget offsets of {topic}", text, command=done, typed=topic, yes="Forget"):
            change = self.app.source.kafka(forget_group_topic, name, topic)
            await self.carry_out(done, change, f"the offsets of {topic} are forgotten")
            self.ask_again()


_UNREAD_EVERY_S = 15.0
"""The first unread record of each partition costs a fetch from every leader."""
_UNKNOWN = ("group-id-not-found", "unknown-group")
"""The error of a group that does not exist, over HTTP and over the Kafka protocol."""
_NO_MEMBERS = "No members. The next member continues from the committed offsets."
_NOTHING = "Nothing is committed, and no member has a partition."


class GroupScreen(GroupChangesScreen):
    """The screen of one group; the list of groups pushes it."""

    CRUMB = "group"
    CLI_TWIN = "yak groups describe GROUP, yak groups members GROUP"
    BINDINGS = keys("group")
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = (
        ("Committed", "The committed offset: the first offset that the group reads after a restart."),
        ("Log end", "The high watermark: consumers read up to it."),
        ("Time lag", "The age of the oldest unread record. It is read every 15 s, and with t."),
        ("Member", "The member that reads the partition. A warning says that the committed offset does not fit the log."),
        ("Arrow in Assigned", "A member of the consumer protocol (KIP-848) that moves from its present to its target assignment."),
    )  # fmt: skip

    def __init__(self, name: str, known: Group | None = None) -> None:
        super().__init__()
        self.group = known or Group(name)
        self.unread: dict[TopicPartition, Unread] = {}
        self._is_reading = False
        self._unread_trouble: YakError | None = None

    def crumbs(self) -> list[str]:
        return ["groups", self.group.name]

    def body(self) -> ComposeResult:
        yield Panel(f"Group {self.group.name}", Lines(id="summary"), id="group-head")
        yield Panel("Members", Grid(id="members"), id="group-members")
        yield Panel("Partitions", Grid(id="partitions"), id="group-partitions")

    def on_mount(self) -> None:
        self.query_one("#partitions").focus()
        self.set_interval(_UNREAD_EVERY_S, self._read_in_turn)

    def paint(self, now_ms: int) -> None:
        fmt, said = self.fmt, self.group.said
        self.query_one("#summary", Lines).show(summary(self.group, fmt, now_ms))
        self.entitle("#group-head", f"Group {self.group.name}", self.error_text())
        members = [] if said is None else member_rows(said, fmt)
        partitions = [] if said is None else partition_rows(said, self.unread, fmt, now_ms)
        waiting = self.error_text() or "waiting for the coordinator ..."
        self.show_table("#members", MEMBER_COLUMNS, members, waiting if said is None else _NO_MEMBERS)
        self.show_table("#partitions", PARTITION_COLUMNS, partitions, waiting if said is None else _NOTHING)
        self.entitle("#group-members", f"Members: {len(members)}")
        hint = "reading the first unread records ..." if self._is_reading else self._hint()
        self.entitle("#group-partitions", f"Partitions: {len(partitions)}", hint)

    def _hint(self) -> str:
        if self._unread_trouble is not None:
            why = self._unread_trouble.why or self._unread_trouble.message
            return f"{self.fmt.sign('warn')} no time lag: {why}"[:120]
        return "m messages   t time lag now   r move offsets   D forget a topic"

    async def ask(self) -> None:
        """Ask its coordinator; the first time, find the age of its unread records too."""
        try:
            said = await self.app.source.ask("GET", path_of("api", "groups", self.group.name))
        except YakError as error:
            if error.code not in _UNKNOWN or self.group.said is not None or not self.is_active:
                raise
            self.app.notice(f"there is no group {self.group.name}", "warn")
            self.dismiss()
            return
        is_first = self.group.said is None or not self.unread
        self.group.update(said, self.app.now_ms())
        if is_first and self._unread_trouble is None:
            self._read_in_turn()

    def _read_in_turn(self) -> None:
        if self.is_seen and self.group.lag and not self.app.is_frozen:
            self._read_unread(is_requested=False)

    def action_age(self) -> None:
        self._read_unread(is_requested=True)

    def _read_unread(self, *, is_requested: bool) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._find_unread(is_requested)

    @work(group="unread")
    async def _find_unread(self, is_requested: bool) -> None:
        try:
            self.unread = await self.app.source.kafka(find_group_unread, self.group.name)
            self._unread_trouble = None
        except YakError as error:
            self._unread_trouble = error
            if is_requested:
                self.app.show_error(error)
        finally:
            self._is_reading = False
        if self.is_seen:
            self.paint_body()

    def chosen_group(self) -> tuple[str, Mapping[str, Any] | None]:
        return self.group.name, self.group.said

    def chosen_topic(self) -> str:
        return (self.query_one("#partitions", Grid).cursor_key or "").rpartition(":")[0]

    def group_is_gone(self, name: str) -> None:
        if name == self.group.name and self in self.app.screen_stack:
            self.dismiss()

    def action_messages(self) -> None:
        topic = self.chosen_topic()
        if topic:
            self.app.go("messages", topic)


_DETAILS_MAX = 60
"""The most groups requested in one round."""
_HINT = "enter open   r move offsets   X delete"
_NONE = "No groups. A group appears when a consumer joins or commits; press c to start one."


class GroupsScreen(GroupChangesScreen):
    """The list of groups. The lag is requested for visible groups only."""

    CRUMB = "groups"
    CLI_TWIN = "yak groups list"
    BINDINGS = keys("groups")
    EXPLAINED = (
        ("State", "Stable: the partitions are assigned. joining, syncing (PreparingRebalance, CompletingRebalance), Assigning, Reconciling: the assignment changes. Empty: no members, but committed offsets."),
        ("Lag", "Records below the high watermark that the group has not committed, in all partitions. 0: all is read. A dash: no committed offset."),
        ("Trend", "The lag of the last 60 s, as long as this screen was open."),
        ("ETA", "The time until all is read: the lag divided by the rate at which it falls. A dash: the lag does not fall steadily."),
        ("Coord", "The group coordinator: the broker that leads the group's partition of __consumer_offsets."),
        ("Type", "classic: a member assigns the partitions. consumer: the coordinator assigns them (KIP-848)."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups()

    def body(self) -> ComposeResult:
        yield Panel("Groups", Grid(id="groups"), id="groups-panel", subtitle=_HINT)
        yield Panel("Partitions", Grid(id="below"), id="groups-below")

    def paint(self, now_ms: int) -> None:
        empty = _NONE if self.groups.is_listed else self.error_text() or "listing the groups ..."
        rows = group_rows(self.groups, self.fmt, now_ms)
        self.show_table("#groups", COLUMNS, rows, empty)
        hint = self.error_text() or silent_brokers(self.groups) or _HINT
        self.entitle("#groups-panel", list_title(self.groups, self.fmt), hint)
        self._paint_below(now_ms)

    @on(Grid.Moved, "#groups")
    def moved(self) -> None:
        self.paint_body()

    def _paint_below(self, now_ms: int) -> None:
        name, said = self.chosen_group()
        below = self.query_one("#groups-below", Panel)
        if not below.display:
            return
        rows = [] if said is None else partition_rows(said, {}, self.fmt, now_ms)
        empty = "" if not name or said is None else _NOTHING
        columns = [column for column in PARTITION_COLUMNS if column.label != "TIME LAG"]
        without_time = [Row(row.key, *(c for n, c in enumerate(row.cells) if n != TIME_LAG)) for row in rows]
        self.show_table("#below", columns, without_time, empty)
        below.entitle(
            f"Partitions of {name}" if name else "Partitions", "enter on the group: members, time lag" if name else ""
        )

    async def ask(self) -> None:
        source = self.app.source
        self.groups.listed(await source.ask("GET", "/api/groups"))
        self.paint_body()
        groups = self.groups

        async def ask_one(name: str) -> None:
            try:
                said = await source.ask("GET", path_of("api", "groups", name))
            except YakError as error:
                groups.failed(name, error.message)
            else:
                groups.update(name, said, self.app.now_ms())

        await gather_few(map(ask_one, self.query_one("#groups", Grid).keys_in_sight()[:_DETAILS_MAX]))

    def opened(self, what: object) -> None:
        self.show_group(str(what))

    @on(Grid.Opened, "#groups")
    def open_group(self, event: Grid.Opened) -> None:
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
        name = self.query_one("#groups", Grid).cursor_key
        if name is None or name not in self.groups.by_name:
            return "", None
        return name, self.groups.by_name[name].said

    def action_copy(self) -> None:
        name, _said = self.chosen_group()
        if name:
            self.app.copy(name, f"the name {name}")
