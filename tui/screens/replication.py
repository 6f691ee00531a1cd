"""Every partition with its replicas, live: leader, ISR, log ends; and keys for failures."""

from textual.app import ComposeResult
from textual.containers import Container

from yak.protocol.topic_names import is_internal
from yak.tui.keys import keys
from yak.tui.rows.cells import Cell
from yak.tui.rows.failover import election_lines
from yak.tui.rows.partitions import ReplicationTable
from yak.tui.screens.processes import ControlsBrokers
from yak.tui.screens.topics import ChangesTopics
from yak.tui.state.picture import Partition
from yak.tui.widgets.frame import Lines, Panel
from yak.tui.widgets.grid import Grid

HIGH = 30
LOW_LINES, HIGH_LINES = 5, 12
"""Lines of the timeline, in windows lower than `HIGH` and in others."""
_FAMILIES = ("isr", "leader", "log", "broker", "reassignment")


class ReplicationScreen(ChangesTopics, ControlsBrokers):
    """All partitions, those with problems first; below, the timelines of the last failovers."""

    CRUMB = "replication"
    NO_PROCESS = "put the cursor on a partition that has a leader"
    CLI_TWIN = "yak isr --watch"
    OPENS = {"replication": "topics"}
    BINDINGS = keys("replication")
    EXPLAINED = (
        ("The bars", "One for each replica, the leader first: its node id, then the newest offsets of the log, full as far as the replica has them. The shaded cell is the high watermark: records left of it are on all in-sync replicas."),
        ("The number behind a bar", "Records that the leader has and this replica lacks."),
        ("✗", "The replica is outside of the ISR: acks=all does not wait for it, and it cannot be elected."),
        ("Epoch", "The leader epoch: each new leader starts a higher one. Brokers refuse requests of a leader with an older epoch."),
        ("detected, fenced", "A broker noticed that the dead broker's port refuses connections. Then the controller fenced the dead broker."),
        ("elected, first write", "The first of its partitions got another leader. Then the high watermark of one of them rose."),
        ("truncated", "A broker that came back removed records that no in-sync replica has. None of them was acknowledged with acks=all."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._table = ReplicationTable()
        self._only_problems = False

    def body(self) -> ComposeResult:
        with Container(id="replication-halves"):
            yield Panel("Replication", Grid(id="replication"), id="replication-table")
            yield Panel("Failovers", Lines(id="failovers", wraps=True), id="replication-failovers")

    def paint(self, now_ms: int) -> None:
        picture, fmt, grid = self.picture, self.fmt, self.query_one("#replication", Grid)
        rows = self._table.rows(
            picture, fmt, now_ms, grid.keys_in_sight(), grid.size.width or 78, with_internal=self._with_internal
        )
        if self._only_problems:
            rows = [row for row in rows if self._table.is_problem(row.key)]
        empty = "No partitions yet. Press 2 for topics, and a there to make one."
        if self._only_problems:
            empty = "All partitions have a leader and all replicas in sync. o shows them."
        elif grid.filter_text and rows:
            empty = f"No partition matches {grid.filter_text}. esc clears the filter."
        self.show_table("#replication", self._table.columns(), rows, self.known(empty))
        title = f"Replication: {fmt.number(self._table.count_ok)} of {fmt.number(self._table.count)} partitions ok"
        self.entitle(
            "#replication-table", title, "only partitions with problems: o shows all" if self._only_problems else ""
        )
        self._paint_failovers(now_ms)

    def _paint_failovers(self, now_ms: int) -> None:
        lines, fmt = self.query_one("#failovers", Lines), self.fmt
        room = LOW_LINES if self.app.size.height < HIGH else HIGH_LINES
        content = election_lines(self.picture.elections.failovers, fmt, now_ms, lines.size.width or 76, room)
        content += self._recent(now_ms, room - len(content))
        if not content:
            broken = (
                "F elects another leader, K kills the leader."
                if self.control is not None and not self.app.is_readonly
                else "F elects another leader."
            )
            content = [[Cell(f"No failover since yak ui started. {broken}", "dim")]]
        content = lines.fitted(content)[:room]
        lines.show(content)
        self.query_one("#replication-failovers").styles.height = len(content) + 2

    def _recent(self, now_ms: int, room: int) -> list[list[Cell]]:
        found: list[list[Cell]] = []
        for line in reversed(self.picture.activity.lines):
            if len(found) >= room:
                break
            is_hidden = not self._with_internal and is_internal(str(line.event.get("topic", "")))
            if line.family in _FAMILIES and not is_hidden:
                tone = "warn" if line.tone == "bad" else line.tone
                when = self.fmt.time(line.time_ms, now_ms)
                sign = self.fmt.sign(line.tone if line.tone in ("good", "warn", "bad") else "dot")
                found.append([Cell(when, "dim"), Cell(sign, tone), Cell(line.message)])  # type: ignore[arg-type]
        return found

    # choice and actions

    def chosen_partition(self) -> Partition | None:
        return self._table.partition(self.query_one("#replication", Grid).cursor_key)

    def opened(self, what: object) -> None:
        """Select a partition, `orders-0`, or a topic's partitions."""
        grid = self.query_one("#replication", Grid)
        self.paint_body()
        if str(what) in self.picture.topics:
            grid.set_filter(str(what))
        else:
            grid.move_to(str(what))

    def action_problems(self) -> None:
        self._only_problems = not self._only_problems
        self.paint_body()

    def chosen_process(self) -> str | None:
        """The leader of the partition under the cursor."""
        partition = self.chosen_partition()
        return None if partition is None or partition.leader is None else str(partition.leader)

    def process_to_resume(self) -> str | None:
        """All: a broker that is down leads nothing."""
        return None
