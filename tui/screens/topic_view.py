"""The view of one topic: partitions, ISR and the reasons for it, records, groups, configs, events."""

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import TabbedContent, TabPane

from yak.client.admin import ConfigValue
from yak.tui.rows import activity, partitions, replicas, topic_config, topic_readers
from yak.tui.rows.cells import Cell
from yak.tui.rows.packed import packed
from yak.tui.rows.topics import TopicFacts
from yak.tui.screens.topic_asking import TAIL_MESSAGES, TopicAnswers
from yak.tui.screens.topic_changes import ChangesTopics
from yak.tui.state.activity import Line
from yak.tui.state.picture import Partition
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.lines import Lines
from yak.tui.widgets.panel import Panel

ASK_SECONDS = 0.5
STACKED_WIDTH, STACKED_HEIGHT = 78, 22
"""The least size with the replicas below the partitions; in a smaller window they have a tab."""
HIGH = 38
"""The least height with records and groups below the partitions."""
_EVENTS_MAX = 500


class TopicView(ChangesTopics):
    """A topic. In a small window each panel is a tab; in a larger one the replicas stand below the partitions."""

    TITLE_WORDS = "topic"
    CLI_TWIN = "yak topics describe TOPIC, yak isr TOPIC"
    EXPLAINED = (
        ("HW", "The high watermark: every record below it is on all replicas in sync. Readers see no further; what is below it survives the loss of the leader."),
        ("LEO, log end", "The offset that the next record gets, on each replica. The leader's is first; followers copy up to it."),
        ("Epoch", "Of a leadership: each new leader begins a new one, and what comes from an older one is refused. Of a broker: each start begins a new one."),
        ("ISR", "The replicas in sync. acks=all waits for all of them; only one of them becomes leader. A dot is a replica that is out."),
        ("Behind", "Records that the leader has and this replica does not have yet."),
        ("Fetched, caught up", "When the replica last asked the leader for more, and when it last had all. Too long ago, and it is taken out of the ISR (replica.lag.time.max.ms)."),
        ("The bars", "The last offsets before the leader's log end, as many as the panel's edge says: full as far as the replica has them, shaded where the high watermark is."),
        ("min ISR", "min.insync.replicas: with fewer replicas in sync than this, writes with acks=all are refused, so that none is on one disk alone."),
    )  # fmt: skip

    def __init__(self, topic: str, partition: int | None = None, facts: TopicFacts | None = None) -> None:
        super().__init__()
        self.topic = topic
        self._wanted_partition = partition
        self._answers = TopicAnswers(self.app, topic, facts)

    def crumbs(self) -> list[str]:
        """The crumbs, below the list."""
        return ["topics", self.topic]

    def body(self) -> ComposeResult:
        """Build six tabs."""
        with TabbedContent(id="topic-tabs", initial="tab-partitions"):
            with TabPane("Partitions", id="tab-partitions"):
                yield Panel("Partitions", Grid(id="partitions"), id="topic-partitions")
                with Vertical(id="topic-beside"):
                    yield Panel(
                        "Replicas", Grid(id="replicas-beside", has_cursor=False), Lines(id="meaning-beside"),
                        id="topic-replicas-beside",
                    )  # fmt: skip
                    yield Panel("Last events", Grid(id="events-beside", has_cursor=False), id="topic-events-beside")
                    with Horizontal(id="topic-pair"):
                        yield Panel(
                            "Last messages", Grid(id="tail-beside", has_cursor=False), id="topic-tail-beside",
                            subtitle="m all of them",
                        )  # fmt: skip
                        yield Panel("Groups reading it", Grid(id="groups-beside"))
            with TabPane("Replicas", id="tab-replicas"):
                yield Panel("Replicas", Grid(id="replicas"), Lines(id="meaning"), id="topic-replicas")
            with TabPane("Messages", id="tab-messages"):
                yield Panel("Last messages", Grid(id="tail"))
            with TabPane("Groups", id="tab-groups"):
                yield Panel("Groups reading it", Grid(id="groups"))
            with TabPane("Config", id="tab-config"):
                yield Panel("Configs", Grid(id="configs"), Lines(id="config-words"), id="topic-configs")
            with TabPane("Timeline", id="tab-timeline"):
                yield Panel("Timeline", Grid(id="timeline"), subtitle="enter the event")

    def on_mount(self) -> None:
        """Request the visible data from time to time."""
        super().on_mount()
        self.set_interval(ASK_SECONDS, self.ask_seen)
        self.ask_seen()

    def _fit(self, width: int, height: int) -> None:
        super()._fit(width, height)
        self.set_class(height >= HIGH, "-high")
        self.set_class(self.is_roomy, "-stacked")

    # requests

    @property
    def is_roomy(self) -> bool:
        """Whether panels are stacked."""
        return self.app.size.width >= STACKED_WIDTH and self.app.size.height >= STACKED_HEIGHT

    @property
    def is_high(self) -> bool:
        """Whether records and groups fit too."""
        return self.is_roomy and self.app.size.height >= HIGH

    def _pane(self) -> str:
        return self.query_one("#topic-tabs", TabbedContent).active.removeprefix("tab-")

    def seen(self) -> list[str]:
        """The kinds of data that the visible panels need."""
        pane = self._pane()
        wanted = ["facts"]
        if pane in ("partitions", "replicas"):
            wanted.append("detail")
        if pane == "messages" or (pane == "partitions" and self.is_high):
            wanted.append("tail")
        if pane == "groups" or (pane == "partitions" and self.is_high):
            wanted.append("groups")
        if pane == "config":
            wanted.append("configs")
        return wanted

    def ask_seen(self) -> None:
        """Request that data if the screen is visible."""
        if self.app.screen is self and not self.app.is_frozen and self.topic in self.picture.topics:
            self._ask_in_worker()

    @work(group="topic")
    async def _ask_in_worker(self) -> None:
        if await self._answers.ask(self.seen(), self._partitions_in_sight()):
            self.app.repaint()

    def _partitions_in_sight(self) -> list[int]:
        """Partitions whose replicas are visible, the chosen one first."""
        chosen = self.chosen_partition()
        found = [] if chosen is None else [chosen.partition]
        if self._pane() == "replicas":
            found += [int(key.partition("/")[0]) for key in self.query_one("#replicas", Grid).keys_in_sight()]
        return list(dict.fromkeys(found))

    def ask_again(self) -> None:
        """Request everything again after a change."""
        self._answers.forget()
        self.ask_seen()

    # drawing

    def paint(self, now_ms: int) -> None:
        """Draw the visible tab."""
        pane = self._pane()
        if pane in ("partitions", "replicas"):
            self._paint_partitions(now_ms)
        if pane == "partitions" and self.is_roomy:
            self._paint_beside(now_ms)
            self._paint_events("#events-beside", now_ms)
            if self.is_high:
                self._paint_tail("#tail-beside", now_ms)
                self._paint_groups("#groups-beside")
        elif pane == "replicas":
            self._paint_replicas(now_ms)
        elif pane == "messages":
            self._paint_tail("#tail", now_ms)
        elif pane == "groups":
            self._paint_groups("#groups")
        elif pane == "config":
            self._paint_configs()
        elif pane == "timeline":
            self._paint_events("#timeline", now_ms)

    def _paint_partitions(self, now_ms: int) -> None:
        found = self.picture.topics.get(self.topic, [])
        answers, grid = self._answers, self.query_one("#partitions", Grid)
        rows = partitions.partition_rows(found, answers.facts, self._min_isr(), self.look, now_ms)
        gone = f"Topic {self.topic} is gone: it was deleted. esc goes back to the list."
        empty = gone if self.picture.is_loaded else "waiting for the cluster to say what there is ..."
        columns = partitions.columns(grid.size.width or 78)
        grid.show(columns, rows, empty=empty, is_wide=self.look.is_wide)
        title = partitions.partitions_title(self.topic, found, answers.facts, self._min_isr(), self.look)
        self.query_one("#topic-partitions", Panel).entitle(title, "" if self.is_roomy else "enter its replicas")
        if self._wanted_partition is not None and rows:
            grid.move_to(str(self._wanted_partition))
            self._wanted_partition = None

    def _min_isr(self) -> int | None:
        known = next(iter(self._answers.details.values()), None)
        return None if known is None else known.min_isr

    def _paint_beside(self, now_ms: int) -> None:
        """Draw the replicas of the partition under the cursor, below the partitions."""
        partition, look = self.chosen_partition(), self.look
        if partition is None:
            return
        detail = self._answers.details.get(partition.partition)
        rows = replicas.replica_rows(partition, detail, self.picture.brokers, look, now_ms)
        self.query_one("#replicas-beside", Grid).show(replicas.COLUMNS, rows, is_wide=look.is_wide)
        self._paint_meaning("#meaning-beside", "#topic-replicas-beside", partition)

    def _paint_replicas(self, now_ms: int) -> None:
        """Draw the replicas of all partitions, in their tab."""
        found, look, grid = self.picture.topics.get(self.topic, []), self.look, self.query_one("#replicas", Grid)
        rows = replicas.topic_replica_rows(found, self._answers.details, self.picture.brokers, look, now_ms)
        grid.show(replicas.TOPIC_COLUMNS, rows, is_wide=look.is_wide)
        partition = self.chosen_partition()
        if partition is not None:
            self._paint_meaning("#meaning", "#topic-replicas", partition)

    def _paint_meaning(self, lines_id: str, panel_id: str, partition: Partition) -> None:
        look, lines = self.look, self.query_one(lines_id, Lines)
        detail = self._answers.details.get(partition.partition)
        said = packed(replicas.meaning(partition, detail, look), lines.size.width - 2)
        lines.show(said)
        lines.styles.height = len(said)
        led = "no leader" if partition.leader is None else f"leader {partition.leader}"
        window = min(replicas.window_of(partition), max(1, replicas.top_of(partition)))
        self.query_one(panel_id, Panel).entitle(
            f"Replicas of {partition.name}: {led}, epoch {partition.leader_epoch}",
            f"bars: last {look.number(window)} offsets   [ ] other partition",
        )

    def _paint_events(self, where: str, now_ms: int) -> None:
        rows = activity.activity_rows(self._events(), self.look, now_ms)
        nothing = f"Nothing happened to {self.topic} since yak ui listens."
        self.query_one(where, Grid).show(activity.COLUMNS, rows, empty=nothing, is_wide=self.look.is_wide)

    def _events(self, partition: int | None = None) -> list[Line]:
        found = [line for line in self.picture.activity.lines if is_about(line, self.topic, partition)]
        return found[-_EVENTS_MAX:]

    def _paint_tail(self, where: str, now_ms: int) -> None:
        answers, grid = self._answers, self.query_one(where, Grid)
        messages = [each for held in answers.messages.values() for each in held]
        rows = topic_readers.tail_rows(messages, self.look, now_ms, TAIL_MESSAGES)
        empty = f"{self.topic} has no records. p sends one." if answers.has_tail else "asking ..."
        if "tail" in answers.errors:
            empty = _error_words(answers, "tail")
        grid.show(topic_readers.TAIL_COLUMNS, rows, empty=empty, is_wide=self.look.is_wide)
        rate = self.picture.topic_rates(self.topic).messages_in
        if where == "#tail":
            title = f"Last messages of {self.topic}: {topic_readers.rate_words(rate)}"
            panel = grid.parent
            if isinstance(panel, Panel):
                panel.entitle(title, "m all of them: search, filter, copy, export")

    def _paint_groups(self, where: str) -> None:
        answers, grid = self._answers, self.query_one(where, Grid)
        empty = f"No group reads {self.topic}. A group appears when a consumer commits: yak consume {self.topic} --group NAME."
        if answers.readers is None:
            empty = _error_words(answers, "groups") if "groups" in answers.errors else "asking ..."
        rows = topic_readers.group_rows((answers.readers or {}).values(), self.look)
        grid.show(topic_readers.GROUP_COLUMNS, rows, empty=empty, is_wide=self.look.is_wide)
        panel = grid.parent
        if isinstance(panel, Panel):
            left_out = f"{answers.groups_left_out} more groups were not asked   " if answers.groups_left_out else ""
            panel.entitle("Groups reading it", f"{left_out}enter the group")

    def _paint_configs(self) -> None:
        answers, grid = self._answers, self.query_one("#configs", Grid)
        rows = topic_config.config_rows(answers.configs, self.look) if answers.configs else []
        empty = _error_words(answers, "configs") if "configs" in answers.errors else "asking ..."
        grid.show(topic_config.COLUMNS, rows, empty=empty, is_wide=self.look.is_wide)
        own = sum(each.source == "topic" for each in answers.configs)
        self.query_one("#topic-configs", Panel).entitle(
            f"Configs: {own} set for {self.topic}, {len(rows)} in all", "enter or E changes it"
        )
        config = self._config()
        if config is not None:
            first, second = topic_config.config_words(config, self.look)
            width = self.query_one("#config-words", Lines).size.width - 2
            self.query_one("#config-words", Lines).show(
                [first, *packed([Cell(each, "dim") for each in second[0].text.split()], width)]
            )

    # choice

    def find_grid(self) -> Grid | None:
        """The table of the visible tab."""
        if isinstance(self.focused, Grid):
            return self.focused
        pane = self.query_one("#topic-tabs", TabbedContent).active_pane
        return None if pane is None else next(iter(pane.query(Grid)), None)

    def chosen_topic(self) -> str | None:
        """This topic."""
        return self.topic if self.topic in self.picture.topics else None

    def chosen_partition(self) -> Partition | None:
        """The partition under the cursor of the partitions or the replicas."""
        key = self.query_one("#partitions", Grid).cursor_key
        found = self.picture.topics.get(self.topic, [])
        number = self._wanted_partition if self._wanted_partition is not None else int(key or 0)
        return next((each for each in found if each.partition == number), found[0] if found else None)

    def _config(self) -> ConfigValue | None:
        key = self.query_one("#configs", Grid).cursor_key
        return None if key is None else self._answers.configs_by_name().get(key)


def is_about(line: Line, topic: str, partition: int | None = None) -> bool:
    """Whether an event or a user's action concerns a topic, or one of its partitions."""
    event = line.event
    if line.kind == "you":
        return partition is None and topic in str(event.get("command", "")).replace(":", " ").split()
    if topic not in (event.get("topic"), event.get("resource_name") if event.get("resource_type") == "topic" else None):
        return False
    return partition is None or event.get("partition") == partition


def _error_words(answers: TopicAnswers, name: str) -> str:
    error = answers.errors[name]
    return f"{error.message}. {error.why}"
