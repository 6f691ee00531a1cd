"""Failover drills: move leaders, kill, pause and resume brokers, and see the timeline and lost records."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal

from yak.errors import UsageError, YakError
from yak.local.demo.delivery_statistics import Pause
from yak.tui.demo.source import DemoSource
from yak.tui.keys import keys
from yak.tui.rows import failover as rows
from yak.tui.screens.base import AskingScreen
from yak.tui.screens.processes import ControlsBrokers, End
from yak.tui.state.drills import FIRST_SIGNS, Drill, Drills, Timeline
from yak.tui.widgets.dialogs import Field
from yak.tui.widgets.frame import Lines, Panel
from yak.tui.widgets.grid import Grid

ANY = "any in sync"


class FailoverScreen(ControlsBrokers, AskingScreen):
    """Brokers with their processes, timelines of failovers, acknowledged against read records."""

    CRUMB = "failover"
    EVERY_S = 0.5
    CLI_TWIN = "yak failover, yak node kill|pause|resume|restart NODE"
    BINDINGS = keys("failover")
    EXPLAINED = (
        ("detected", "A broker noticed that the dead broker's port refuses connections. For a paused broker this step is missing: its session with the controller times out."),
        ("role", "Of a broker, not of a partition. Brokers of role leader are preferred as leaders. Leads counts the partitions that a broker leads now."),
        ("out of sync", "Replicas on this broker that are outside of the ISR: acks=all does not wait for them, and they cannot be elected."),
        ("fenced", "The controller excludes the broker from elections and ISRs, and its writes are refused."),
        ("elected", "The last of its partitions has a new leader. New leaders come from the ISR, and have all records that were acknowledged with acks=all."),
        ("first write", "The first acknowledgement after the election, as the demo's producer measured it; without the demo, from the high watermark, to a tenth of a second."),
        ("wait", "The longest time that a client waited for an acknowledgement; without the demo's clients, the first write."),
        ("acked, read", "Records acknowledged to the demo's producer, and read by its consumer group. Lost: acknowledged, but missing where the reader has passed. Moved: at another offset than acknowledged."),
        ("kill -9", "The process ends at once, as in a crash. Its disk stays. After the restart it truncates what no in-sync replica has, and copies the rest."),
        ("pause", "SIGSTOP: connections stay open, but nothing answers. Other brokers notice it later than a crash."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.drills = Drills()

    def body(self) -> ComposeResult:
        yield Panel("Brokers", Grid(id="brokers"), id="failover-brokers")
        with Horizontal(id="failover-middle"):
            yield Panel("Last failover", Lines(id="failover-lines", wraps=True), id="failover-timeline")
            yield Panel("Failovers so far", Grid(id="failover-drills", has_cursor=False), id="failover-history")
        yield Panel("Acknowledged against read", Lines(id="delivery-lines", wraps=True), id="failover-delivery")

    async def ask(self) -> bool:
        before, self.processes = self.processes, await self.read_processes() or self.processes
        return self.processes != before

    # drawing

    def paint(self, now_ms: int) -> None:
        picture, fmt = self.picture, self.fmt
        brokers = rows.broker_rows(picture, self.processes, fmt)
        self.show_table("#brokers", rows.COLUMNS, brokers, self.known(""))
        self.entitle("#failover-brokers", "Brokers", self._what_works())
        found = self._timelines(now_ms)
        self._paint_timeline(found, now_ms)
        self.query_one("#failover-drills", Grid).show(
            rows.HISTORY, rows.history_rows(found, fmt, now_ms), empty="None yet."
        )
        source, widget = self.app.source, self.query_one("#delivery-lines", Lines)
        lines = rows.NO_WORKLOAD
        if isinstance(source, DemoSource):
            lines = rows.delivery_lines(source.demo, fmt, now_ms)
        widget.show(lines)
        widget.styles.height = len(widget.fitted(lines))

    def _what_works(self) -> str:
        if self.app.is_readonly:
            return "read-only: no broker can be stopped here"
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
            lines.show(rows.timeline_lines(found[-1], self.fmt, width, height, now_ms))
            panel.entitle("Last failover", found[-1].drill.command and "y copies its command")
        else:
            lines.show(rows.nothing_yet_lines(is_local=self.control is not None))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide repeat and copy before the first drill."""
        if action in ("repeat", "copy") and self.drills.last is None:
            return False
        return super().check_action(action, parameters)

    # actions

    def chosen_process(self) -> str | None:
        return self.query_one("#brokers", Grid).cursor_key

    def _node(self) -> int | None:
        chosen = self.chosen_process()
        return int(chosen) if chosen is not None and chosen != rows.REDIS else None

    @work(group="drill")
    async def action_move(self) -> None:
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
            Field("to", "New leader", ANY, choices=(ANY, *others)),
        )
        text = (
            "In order: the new leader has everything before it leads. Nothing is copied, nothing is lost. The new leader "
            f"becomes the preferred one, and stays: F on it, with {node} as new leader, brings the leaders back."
        )
        title = f"Planned failover of broker {node}"
        values = await self.fill_form(
            title, fields, lambda given: move_command(node, given, led, nodes), text=text, yes="Move"
        )
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
        title = f"planned failover of {len(wanted)} from broker {node}"
        drill = Drill("failover", node, self.app.now_ms(), title, command, frozenset(wanted), request=body)
        self._began(drill)
        try:
            answer = await self.app.source.ask("POST", "/api/failover", body=body)
        except YakError as error:
            self.drills.forget(drill)
            self.failed(command, error)
            return
        moved, failed = len(answer["moved"]), answer["failed"] + answer["stayed"]
        self.app.note_command(command, f"moved {moved} in {answer['took_ms']:.0f} ms")
        if failed:
            first = failed[0]
            self.app.notice(f"{len(failed)} stayed: {first['topic']}-{first['partition']}: {first['reason']}", "warn")

    async def act(self, action: End, node: int, command: str, done: Callable[[], object]) -> bool:
        picture = self.picture
        led = frozenset(each.name for each in picture.partitions.values() if each.leader == node)
        what = f"{FIRST_SIGNS[action] if action != 'restart' else 'restart'} of broker {node}"
        drill = Drill(action, node, self.app.now_ms(), what, command, led, node == picture.controller_id)
        self._began(drill)
        is_done = await super().act(action, node, command, done)
        if is_done:
            self.ask_again()
        else:
            self.drills.forget(drill)
        return is_done

    @work(group="drill")
    async def action_repeat(self) -> None:
        last = self.drills.last
        if last is None or last.node_id is None:
            return
        if last.action in ("kill", "pause", "restart"):
            await self.end(last.action, str(last.node_id))
        elif await self.confirmed(
            f"Again: {last.title}", "Leaders are moved in order.", command=last.command, yes="Move"
        ):
            await self._move(last.node_id, dict(last.request or {}), last.command)

    def action_copy(self) -> None:
        last = self.drills.last
        if last is not None:
            self.app.copy(last.command, "the command of the last failover")

    def _began(self, drill: Drill) -> None:
        self.drills.add(drill)
        self.app.forget_key_bar()
        self.refresh_bindings()
        self.app.repaint()


def move_body(node: int, values: Mapping[str, str], led: Sequence[str], nodes: Sequence[int]) -> dict[str, Any]:
    """The body for `POST /api/failover`. Raises UsageError for a partition that the broker does not lead."""
    body: dict[str, Any] = {}
    what = values["what"].strip()
    if what:
        topic, _, number = what.partition(":")
        body["topic"] = topic
        mine = [name for name in led if name.rpartition("-")[0] == topic]
        if not mine:
            raise UsageError("not-led", f"broker {node} leads nothing of {topic}", why=f"it leads {_some(led)}")
        if number:
            if f"{topic}-{number}" not in mine:
                raise UsageError("not-led", f"broker {node} does not lead {what}", why=f"it leads {_some(mine)}")
            body["partition"] = int(number)
    body["from"] = node
    to = values["to"]
    if to != ANY:
        if to not in {str(each) for each in nodes}:
            raise UsageError("unknown-broker", f"there is no broker {to}")
        body["to"] = int(to)
    return body


def move_command(node: int, values: Mapping[str, str], led: Sequence[str], nodes: Sequence[int]) -> str:
    """The equivalent command. Raises UsageError."""
    body = move_body(node, values, led, nodes)
    what = "" if "topic" not in body else f" {body['topic']}" + (f":{body['partition']}" if "partition" in body else "")
    to = f" --to {body['to']}" if "to" in body else ""
    return f"yak failover{what} --from {node}{to}"


def _some(names: Sequence[str]) -> str:
    text = ", ".join(names[:4])
    return text + (f" and {len(names) - 4} more" if len(names) > 4 else "")
