"""The first screen: the cluster's health, its rates, its latest events."""

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from yak.tui.keys import keys
from yak.tui.rows import activity, cluster, topics
from yak.tui.screens.base import BROAD, YakScreen
from yak.tui.widgets.frame import Lines, Panel
from yak.tui.widgets.grid import Grid

_EVENTS_MAX = 200


class DashboardScreen(YakScreen):
    """Brokers, health, rates, activity."""

    CRUMB = "dashboard"
    CLI_TWIN = "yak cluster, yak brokers"
    OPENS = {"busiest": "topics", "events": "activity"}
    BINDINGS = keys("dashboard")
    EXPLAINED = (
        ("Role", "Of a broker, not of a partition. Brokers of role leader are preferred as leaders, those of role follower stand by. Leads counts the partitions that a broker leads now."),
        ("Controller", "The broker that elects leaders, marked ◆. There is one at a time; the controller epoch counts the controller's elections."),
        ("Leads", "Partitions whose writes and reads this broker serves. The other replicas copy from it."),
        ("Out of sync", "Replicas on this broker that are outside of the ISR: acks=all does not wait for them, and they cannot be elected."),
        ("FENCED", "The broker leads nothing: it is considered dead, or has not been unfenced since its start."),
        ("In, out", "Records written by producers, and read by consumers, per second. Replication is not counted."),
        ("Redis, quorum", "The metadata store: Redis, or a quorum of brokers, whose voters elect a leader; voters 2/3: two of three have all of the metadata log. While Redis is down or the quorum has no leader, writes and reads continue; changes of topics and leaders wait."),
    )  # fmt: skip

    def body(self) -> ComposeResult:
        yield Panel("Brokers", Grid(id="brokers"), id="dashboard-brokers")
        with Horizontal(id="dashboard-middle"):
            yield Panel("Health", Grid(id="health"), id="dashboard-health", subtitle="enter opens the cause")
            yield Panel("Rates, last 60 s", Lines(id="rates"), id="dashboard-rates")
        with Horizontal(id="dashboard-lower"):
            yield Panel("Activity", Grid(id="events"), id="dashboard-activity", subtitle="0 all of it")
            yield Panel("Busiest topics", Grid(id="busiest"), id="dashboard-topics", subtitle="2 all of them")

    def paint(self, now_ms: int) -> None:
        picture, fmt = self.picture, self.fmt
        self.show_table(
            "#brokers",
            cluster.BROKER_COLUMNS,
            cluster.broker_rows(picture, fmt, cluster.SPARK + max(0, self.app.size.width - BROAD) // 3),
            self.known(""),
        )
        if self.app.size.width >= BROAD:
            self.query_one("#busiest", Grid).show(topics.BUSIEST_COLUMNS, topics.busiest_rows(picture, fmt))
        rows = cluster.health_rows(picture, fmt, now_ms) if picture.is_loaded else []
        self.query_one("#health", Grid).show(cluster.HEALTH_COLUMNS, rows)
        rates = self.query_one("#rates", Lines)
        rates.show(cluster.rate_lines(picture, fmt, rates.size.width or 36, now_ms))
        lines = list(picture.activity.lines)[-_EVENTS_MAX:]
        nothing = "No events since yak ui started. Kill a broker or create a topic to see some."
        self.query_one("#events", Grid).show(
            activity.COLUMNS, activity.activity_rows(lines, fmt, now_ms), empty=nothing
        )

    @on(Grid.Opened, "#health")
    def go_to_cause(self, event: Grid.Opened) -> None:
        name, _, what = event.row.key.partition(":")
        if name == "dashboard":
            self.query_one("#brokers").focus()
        else:
            self.app.go(name, what or None)
