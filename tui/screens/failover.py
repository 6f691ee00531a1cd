"""Failover drills: move leaderships, kill, pause and resume brokers, and see the timeline and lost records."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal

from yak.errors import YakError
from yak.local.demo.delivery_statistics import Pause
from yak.tui.demo.source import DemoSource
from yak.tui.keys import keys
from yak.tui.rows import failover as rows
from yak.tui.rows.cluster import broker_words
from yak.tui.screens.base import YakScreen
from yak.tui.screens.failover_words import kill_words, move_body, move_command, redis_words
from yak.tui.source.base import LocalControl
from yak.tui.state.drill import Drill, Timeline
from yak.tui.state.drills import Drills
from yak.tui.widgets.dialogs import ConfirmDialog, Field, FormDialog, TextDialog
from yak.tui.widgets.frame import Lines, Panel
from yak.tui.widgets.grid import Grid

LOOK_SECONDS = 0.5
_LOCAL_ACTIONS = ("kill", "pause", "heal", "restart", "add")


class FailoverScreen(YakScreen):
    """Brokers with their processes, timelines of failovers, acknowledged against read records."""

    TITLE_WORDS = "failover"
    CLI_TWIN = "yak failover, yak node kill|pause|resume|restart NODE"
    BINDINGS = keys(
        "failover.move", "failover.kill", "failover.pause", "failover.heal", "failover.repeat", "failover.restart",
        "failover.add", "failover.copy",
    )  # fmt: skip
    EXPLAINED = (
        ("detected", "A broker noticed that nobody listens at the dead one's port. One that hangs is not noticed so: its session with the controller runs out."),
        ("behind", "Replicas on this broker that are not in the in-sync set: acks=all does not wait for them, and they may not lead."),
        ("fenced", "The controller no longer counts on the broker. Nothing is elected to it, and what it writes is refused."),
        ("elected", "The last of its partitions has a new leader, from the in-sync replicas: they have all that was acknowledged with acks=all."),
        ("first write", "The first acknowledgement after that, as the demo's clients were given it; without them, seen in the high watermark, to a tenth of a second."),
        ("wait", "The longest time that any client waited for an acknowledgement around it; without the demo's clients, the first write."),
        ("acked, read", "What the demo's producer was told is stored, and what its consumer group was given. Lost: acknowledged, and the reader is past its place. Moved: at another offset than told."),
        ("kill -9", "The process ends at once, as in a crash. Its disk stays: on the way back it cuts off what no other replica has, and copies the rest."),
        ("hang", "SIGSTOP. Connections stay open and nothing answers: worse than a crash, for nobody is told."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.drills = Drills()
        self._processes: rows.Processes | None = None

    def body(self) -> ComposeResult:
        """Build the brokers above, the timeline below, the check of the demo's records at the bottom."""
        yield Panel("Brokers", Grid(id="brokers"), id="failover-brokers")
        with Horizontal(id="failover-middle"):
            yield Panel("Last failover", Lines(id="failover-lines"), id="failover-timeline")
            yield Panel("Failovers so far", Grid(id="failover-drills", has_cursor=False), id="failover-history")
        yield Panel("Acknowledged against read", Lines(id="verdict-lines"), id="failover-verdict")

    def on_mount(self) -> None:
        """Poll the processes."""
        super().on_mount()
        self.set_interval(LOOK_SECONDS, self._look)
        self._look()

    # drawing

    @property
    def control(self) -> LocalControl | None:
        """The control of local processes; None if the brokers are not ours."""
        return self.app.source.local

    def _look(self) -> None:
        if self.control is not None and self.app.screen_below() is self:
            self._look_at_processes(self.control)

    @work(exclusive=True, group="processes")
    async def _look_at_processes(self, control: LocalControl) -> None:
        try:
            status = await asyncio.to_thread(control.look)
            redis_pid = await asyncio.to_thread(control.redis_pid)
        except YakError:
            return  # the same error prevents actions, and is shown then
        found = {each.node_id: rows.Process(each.state, each.pid) for each in status.brokers}
        seen = rows.Processes(found, status.redis_running, redis_pid)
        if seen != self._processes:
            self._processes = seen
            self.app.repaint()

    def paint(self, now_ms: int) -> None:
        """Draw from the picture, the processes, and the demo's counters."""
        picture, look = self.picture, self.look
        brokers = rows.broker_rows(picture, self._processes, look)
        empty = "" if picture.is_loaded else "waiting for the brokers ..."
        self.query_one("#brokers", Grid).show(rows.COLUMNS, brokers, empty=empty, is_wide=look.is_wide)
        self.query_one("#failover-brokers", Panel).entitle("Brokers", self._what_works())
        found = self._timelines(now_ms)
        self._paint_timeline(found, now_ms)
        self.query_one("#failover-drills", Grid).show(
            rows.HISTORY, rows.history_rows(found, look, now_ms), empty="None yet."
        )
        source, verdict = self.app.source, self.query_one("#verdict-lines", Lines)
        if isinstance(source, DemoSource):
            verdict.show(rows.verdict_lines(source.demo, look, now_ms))
        else:
            verdict.show(rows.no_workload_lines())

    def _what_works(self) -> str:
        if self.app.is_readonly:
            return "read-only: nothing can be broken here"
        if self.control is None:
            return "only F: no yak up of this machine started these brokers"
        return ""

    def _timelines(self, now_ms: int) -> list[Timeline]:
        source = self.app.source
        pauses: Sequence[Pause] = tuple(source.demo.pauses) if isinstance(source, DemoSource) else ()
        return self.drills.timelines(self.picture, pauses, now_ms)

    def _paint_timeline(self, found: list[Timeline], now_ms: int) -> None:
        lines = self.query_one("#failover-lines", Lines)
        panel = self.query_one("#failover-timeline", Panel)
        if found:
            width, height = lines.size.width or 76, lines.size.height or 8
            lines.show(rows.timeline_lines(found[-1], self.look, width, height, now_ms))
            panel.entitle("Last failover", found[-1].drill.command and "y copies its command")
        else:
            lines.show(rows.nothing_yet_lines(is_local=self.control is not None))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide process actions without local control, and repeat before the first drill."""
        if action in _LOCAL_ACTIONS and self.control is None:
            return False
        if action in ("repeat", "copy") and self.drills.last is None:
            return False
        return super().check_action(action, parameters)

    # actions

    def _chosen(self) -> str | None:
        """The row under the cursor: a node id, or `redis`."""
        return self.query_one("#brokers", Grid).cursor_key

    def _node(self) -> int | None:
        chosen = self._chosen()
        return int(chosen) if chosen is not None and chosen != rows.REDIS else None

    @work(group="drill")
    async def action_move(self) -> None:
        """Move leaderships away from a broker."""
        node = self._node()
        if node is None:
            self.app.notice("put the cursor on a broker: F moves what it leads")
            return
        led = sorted(each.name for each in self.picture.partitions.values() if each.leader == node)
        if not led:
            self.app.notice(f"broker {node} leads nothing, so there is nothing to move")
            return
        others = [str(each) for each in sorted(self.picture.brokers) if each != node]
        nodes = sorted(self.picture.brokers)
        fields = (
            Field("what", "Partitions", "", f"all {len(led)}; or a topic, or TOPIC:0"),
            Field("to", "New leader", "any in sync", choices=("any in sync", *others)),
        )
        words = "In order: the new leader has everything before it leads. Nothing is copied, nothing is lost."
        values = await self.app.push_screen_wait(
            FormDialog(
                f"Planned failover of broker {node}", fields, words=words, yes="Move",
                command=lambda given: move_command(node, given, led, nodes),
            )
        )  # fmt: skip
        if values is not None:
            await self._move(node, move_body(node, values, led, nodes), move_command(node, values, led, nodes))

    async def _move(self, node: int, body: dict[str, Any], command: str) -> None:
        wanted = [
            each.name
            for each in self.picture.partitions.values()
            if each.leader == node
            and body.get("topic") in (None, each.topic)
            and body.get("partition") in (None, each.partition)
        ]
        words = f"planned failover of {len(wanted)} from broker {node}"
        drill = Drill("failover", node, self.app.now_ms(), words, command, frozenset(wanted), request=body)
        self._began(drill)
        try:
            answer = await self.app.source.ask("POST", "/api/failover", body=body)
        except YakError as error:
            self.cli(command, f"failed: {error.message}")
            self.app.show_error(error)
            return
        moved, failed = len(answer["moved"]), answer["failed"] + answer["stayed"]
        self.cli(command, f"moved {moved} in {answer['took_ms']:.0f} ms")
        if failed:
            first = failed[0]
            self.app.notice(f"{len(failed)} stayed: {first['topic']}-{first['partition']}: {first['reason']}", "warn")

    @work(group="drill")
    async def action_kill(self) -> None:
        """`kill -9` the chosen process."""
        if self._chosen() == rows.REDIS:
            await self._kill_redis()
            return
        await self._end("kill", self._node())

    @work(group="drill")
    async def action_pause(self) -> None:
        """SIGSTOP the broker."""
        await self._end("pause", self._node())

    @work(group="drill")
    async def action_restart(self) -> None:
        """SIGTERM the broker, and start it."""
        await self._end("restart", self._node())

    async def _end(self, action: Any, node: int | None, *, is_asked: bool = False) -> None:
        """Kill, pause or restart a broker, if the user agrees."""
        control = self.control
        if node is None or control is None:
            self.app.notice("put the cursor on a broker")
            return
        picture = self.picture
        words, title, yes = kill_words(action, node, picture, self._processes)
        command = control.command(f"node {action} {node}")
        if not is_asked and not await self.app.push_screen_wait(ConfirmDialog(title, words, command=command, yes=yes)):
            return
        led = frozenset(each.name for each in picture.partitions.values() if each.leader == node)
        what = {"kill": "kill -9 of", "pause": "SIGSTOP of", "restart": "restart of"}[action]
        drill = Drill(
            action, node, self.app.now_ms(), f"{what} broker {node}", command, led, node == picture.controller_id
        )
        done = {"kill": control.kill, "pause": control.pause, "restart": control.restart}[action]
        self._began(drill)
        if not await self._run(command, lambda: done(node)):
            self.drills.forget(drill)

    async def _kill_redis(self) -> None:
        control, processes = self.control, self._processes
        if control is None or processes is None:
            return
        command = f"kill -9 {processes.redis_pid}"
        if await self.app.push_screen_wait(
            ConfirmDialog("Kill the metadata store", redis_words(), command=command, yes="Kill")
        ):
            await self._run(command, control.stop_redis)

    @work(group="drill")
    async def action_heal(self) -> None:
        """Repair the chosen process if it is down, else all that are."""
        control, processes = self.control, self._processes
        if control is None or processes is None:
            return
        plan = heal_plan(self._chosen(), processes, control)
        if not plan:
            self.app.notice("nothing to heal: all processes run")
            return
        words, command = "\n".join(each.words for each in plan), " && ".join(each.command for each in plan)
        if await self.app.push_screen_wait(ConfirmDialog("Heal", words, command=command, yes="Heal")):
            for each in plan:
                await self._run(each.command, each.action)

    @work(group="drill")
    async def action_repeat(self) -> None:
        """Repeat the last drill."""
        last = self.drills.last
        if last is None or last.node_id is None:
            return
        if last.action != "failover":
            await self._end(last.action, last.node_id)
            return
        body = dict(last.request or {})
        if await self.app.push_screen_wait(
            ConfirmDialog(f"Again: {last.words}", "Leaderships are moved in order.", command=last.command, yes="Move")
        ):
            await self._move(last.node_id, body, last.command)

    @work(group="drill")
    async def action_add(self) -> None:
        """Start one more broker."""
        control = self.control
        if control is None:
            return
        words = "It begins empty, follows, and gets no partition until topics are made or replicas are moved to it."
        command = control.command("node add")
        if await self.app.push_screen_wait(ConfirmDialog("Add a broker", words, command=command, yes="Add")):
            await self._run(command, control.add)

    @on(Grid.Opened, "#brokers")
    def describe(self, event: Grid.Opened) -> None:
        """Show all details of a broker."""
        broker = None if event.row.key == rows.REDIS else self.picture.brokers.get(int(event.row.key))
        if broker is not None:
            words = broker_words(broker, self.picture, self.look, self.app.now_ms())
            self.app.push_screen(TextDialog(f"Broker {broker.node_id}", Text("\n".join(words))))

    def action_copy(self) -> None:
        """Copy the command of the last drill."""
        last = self.drills.last
        if last is not None:
            self.app.copy(last.command, "the command of the last failover")

    def _began(self, drill: Drill) -> None:
        self.drills.add(drill)
        self.app.forget_key_bar()
        self.refresh_bindings()
        self.app.repaint()

    async def _run(self, command: str, action: Callable[[], object]) -> bool:
        """Run the action in a thread and record it; returns whether it succeeded."""
        try:
            await asyncio.to_thread(action)
        except YakError as error:
            self.cli(command, f"failed: {error.message}")
            self.app.show_error(error)
            return False
        self.cli(command)
        self._look()
        return True


@dataclass(frozen=True, slots=True)
class Remedy:
    """One repair."""

    words: str
    command: str
    action: Callable[[], object]


def heal_plan(chosen: str | None, processes: rows.Processes, control: LocalControl) -> list[Remedy]:
    """Repairs for the chosen broker if it is down, else for all. A stopped Redis comes first: brokers need it."""
    plan: list[Remedy] = []
    if processes.redis_running is False:
        plan.append(Remedy("Redis is started again on its data.", control.command("up -d"), control.start_redis))
    broken = [
        node for node, process in sorted(processes.brokers.items()) if process.state in ("paused", "dead", "stopped")
    ]
    if chosen is not None and chosen != rows.REDIS and int(chosen) in broken:
        broken = [int(chosen)]
    elif chosen == rows.REDIS and plan:
        return plan
    for node in broken:
        if processes.brokers[node].state == "paused":
            words, command, action = f"Broker {node} goes on.", f"resume {node}", control.resume
        else:
            words, command, action = f"Broker {node} is started again on its data.", f"restart {node}", control.restart
        plan.append(Remedy(words, control.command(f"node {command}"), partial(action, node)))
    return plan
