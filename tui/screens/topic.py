"""One topic: partitions, ISR and the reasons for it, records, groups, configs, events."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import TabbedContent, TabPane

from yak.client.admin import ConfigValue
from yak.client.consume import Window
from yak.client.consumer import ConsumerRecord
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.tui.keys import keys
from yak.tui.rows import activity, groups, partitions, topics
from yak.tui.rows.cells import Cell, packed
from yak.tui.rows.partitions import PartitionDetail
from yak.tui.rows.topics import TopicFacts
from yak.tui.screens.topics import ChangesTopics
from yak.tui.source.base import gather_few, unreadable
from yak.tui.source.kafka import read_tail, topic_configs
from yak.tui.source.live import path_of
from yak.tui.state.activity import Line
from yak.tui.state.groups import Group, group_on_topic
from yak.tui.state.picture import Partition
from yak.tui.widgets.dialogs import TextDialog
from yak.tui.widgets.frame import Lines, Panel
from yak.tui.widgets.grid import Grid
from yak.view.formats import format_rate

if TYPE_CHECKING:
    from yak.tui.app import YakApp


DETAIL_MS: Final = 900
OTHER_DETAIL_MS: Final = 3_000
"""The age limit for visible partitions that are not under the cursor."""
DETAILS_MAX: Final = 24
_AGES_MS: Final = {"facts": 2_000, "groups": 3_000, "configs": 5_000, "tail": 900}
"""The age limits of the other answers."""
TAIL_PARTITIONS: Final = 8
TAIL_MESSAGES: Final = 100
"""Records of the whole topic. As many are requested of each partition, so that the topic's newest are among them."""
GROUPS_MAX: Final = 100


class TopicAnswers:
    """All answers about one topic. `errors` has the last error of each kind."""

    def __init__(self, app: "YakApp", topic: str, facts: TopicFacts | None) -> None:
        self._app, self.topic = app, topic
        self.facts = facts
        self.details: dict[int, PartitionDetail] = {}
        self.readers: dict[str, Group] | None = None
        self.groups_left_out = 0
        self.messages: dict[int, list[ConsumerRecord]] = {}
        self.has_tail = False
        self.configs: list[ConfigValue] = []
        self.errors: dict[str, YakError] = {}
        self._requested_ms: dict[str, int] = {}
        self._begun: dict[str, None] = {}

    def forget(self) -> None:
        self._requested_ms.clear()

    async def ask(self, wanted: Iterable[str], partitions: Sequence[int]) -> bool:
        """Request those of `facts`, `detail`, `groups`, `configs` and `tail` that are old; return whether any were.

        `partitions` are those whose detail is wanted; the first one is refreshed most often.
        """
        due = []
        for name in wanted:
            if name == "detail":
                due += [
                    self._one(name, f"detail {number}", number)
                    for place, number in enumerate(partitions[:DETAILS_MAX])
                    if self._is_due(f"detail {number}", DETAIL_MS if not place else OTHER_DETAIL_MS)
                ]
            elif self._is_due(name, _AGES_MS[name]):
                due.append(self._one(name, name))
        await gather_few(due)
        return bool(due)

    def _is_due(self, key: str, age_ms: int) -> bool:
        """Whether a request is due; if so, it counts as made."""
        now_ms = self._app.now_ms()
        if key in self._begun or now_ms - self._requested_ms.get(key, -(10**9)) < age_ms:
            return False
        self._requested_ms[key] = now_ms
        self._begun[key] = None
        return True

    async def _one(self, name: str, key: str, partition: int = 0) -> None:
        try:
            if name == "facts":
                self.facts = TopicFacts.of(await self._get("topics", self.topic), self._app.now_ms())
            elif name == "detail":
                answer = await self._get("api", "partitions", self.topic, partition)
                self.details[partition] = PartitionDetail.of(answer, self._app.now_ms())
            elif name == "groups":
                await self._ask_groups()
            elif name == "configs":
                self.configs = await self._app.source.kafka(topic_configs, self.topic)
            elif name == "tail":
                await self._ask_tail()
            self.errors.pop(name, None)
        except YakError as error:
            self.errors[name] = error  # shown in place of the answer; the request is repeated when due
        except self._app.unreadable as error:
            self.errors[name] = unreadable("an answer of a broker", error)
        finally:
            self._begun.pop(key, None)

    async def _get(self, *parts: object) -> dict[str, object]:
        found: dict[str, object] = await self._app.source.ask("GET", path_of(*parts))
        return found

    async def _ask_groups(self) -> None:
        listed = await self._app.source.ask("GET", "/api/groups")
        names = [each["group"] for each in listed["groups"]]
        self.groups_left_out = max(0, len(names) - GROUPS_MAX)
        known = self.readers or {}

        async def one(group: str) -> Group | None:
            try:
                answer = await self._app.source.ask("GET", path_of("api", "groups", group))
            except YakError:
                return known.get(group)  # its coordinator is moving; the request is repeated soon
            return group_on_topic(self.topic, answer, known.get(group), self._app.now_ms())

        found = await gather_few(one(name) for name in names[:GROUPS_MAX])
        self.readers = {each.name: each for each in found if each is not None}

    async def _ask_tail(self) -> None:
        partitions = self._app.picture.topics.get(self.topic, [])
        busiest = sorted(partitions, key=lambda each: -(each.moved_ms or 0))[:TAIL_PARTITIONS]
        windows = {}
        for each in busiest:
            held, end = self.messages.get(each.partition, []), each.high_watermark or 0
            if end and not (held and held[-1].offset >= end - 1):
                start = max(0, end - TAIL_MESSAGES)
                if self.facts is not None:
                    start = max(start, self.facts.log_starts.get(each.partition) or 0)
                windows[TopicPartition(self.topic, each.partition)] = Window(start, end)
        if windows:
            found = await self._app.source.kafka(read_tail, windows)
            for place in windows:
                self.messages[place.partition] = [each for each in found if each.partition == place.partition]
        self.has_tail = bool(busiest) and all(each.high_watermark is not None for each in busiest)


ASK_SECONDS = 0.5
STACKED_WIDTH, STACKED_HEIGHT = 78, 22
"""The least size with the replicas below the partitions; in a smaller window they have a tab."""
HIGH = 38
"""The least height with records and groups below the partitions."""
_EVENTS_MAX = 500


class TopicScreen(ChangesTopics):
    """A topic. In a small window each panel is a tab; in a larger one the replicas stand below the partitions."""

    CRUMB = "topic"
    CLI_TWIN = "yak topics describe TOPIC, yak isr TOPIC"
    OPENS = {"groups": "groups", "groups-beside": "groups", "timeline": "activity"}
    BINDINGS = keys(
        "topics.browse", "topics.produce", "topics.alter", "partitions.move", "topics.delete", "topics.copy",
        "partitions.before", "partitions.next",
    )  # fmt: skip
    EXPLAINED = (
        ("HW", "The high watermark. Records below it are on all in-sync replicas, and survive the loss of the leader. Consumers read up to it."),
        ("LEO, log end", "The log end offset: the offset of the next record on a replica. Followers copy up to the leader's."),
        ("Epoch", "The leader epoch: each new leader starts a higher one, and requests with an older one are refused. The broker epoch: each start of a broker gets a higher one."),
        ("ISR", "The in-sync replicas. acks=all waits for all of them, and only they can be elected. A dot stands for a replica outside of the ISR."),
        ("Lag", "Records that the leader has and this replica lacks."),
        ("Fetched, caught up", "The replica's last fetch, and the last time it had all records of the leader. A replica that is not caught up for replica.lag.time.max.ms leaves the ISR."),
        ("The bars", "The newest offsets of the log; the panel's edge says how many. A bar is full as far as the replica has them, and shaded at the high watermark."),
        ("min ISR", "min.insync.replicas: with fewer in-sync replicas, writes with acks=all are refused, so that no acknowledged record is on one disk only."),
    )  # fmt: skip

    def __init__(self, topic: str, partition: int | None = None, facts: TopicFacts | None = None) -> None:
        super().__init__()
        self.topic = topic
        self._wanted_partition = partition
        self._answers = TopicAnswers(self.app, topic, facts)
        self._topic_id = ""

    def crumbs(self) -> list[str]:
        return ["topics", self.topic]

    def body(self) -> ComposeResult:
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
                            "Last records", Grid(id="tail-beside", has_cursor=False), id="topic-tail-beside",
                            subtitle="m all of them",
                        )  # fmt: skip
                        yield Panel("Groups reading it", Grid(id="groups-beside"), id="topic-groups-beside")
            with TabPane("Replicas", id="tab-replicas"):
                yield Panel("Replicas", Grid(id="replicas"), Lines(id="meaning"), id="topic-replicas")
            with TabPane("Messages", id="tab-messages"):
                yield Panel("Last records", Grid(id="tail"), id="topic-tail")
            with TabPane("Groups", id="tab-groups"):
                yield Panel("Groups reading it", Grid(id="groups"), id="topic-groups")
            with TabPane("Config", id="tab-config"):
                yield Panel("Configs", Grid(id="configs"), Lines(id="config-text"), id="topic-configs")
            with TabPane("Timeline", id="tab-timeline"):
                yield Panel("Timeline", Grid(id="timeline"), subtitle="enter the event")

    def on_mount(self) -> None:
        self.set_interval(ASK_SECONDS, self.ask_seen)
        self.ask_seen()

    def size_classes(self, width: int, height: int) -> dict[str, bool]:
        return super().size_classes(width, height) | {"-high": height >= HIGH, "-stacked": self.is_roomy}

    # requests

    @property
    def is_roomy(self) -> bool:
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
        partitions = self.picture.topics.get(self.topic)
        if partitions and self.is_active and not self.app.is_frozen:
            if self._topic_id not in ("", partitions[0].topic_id):  # it was deleted, and created again
                self._answers = TopicAnswers(self.app, self.topic, None)
            self._topic_id = partitions[0].topic_id
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

    def altered(self, topic: str) -> None:  # noqa: ARG002 - it is this one
        self._answers.forget()
        self.ask_seen()

    # drawing

    def paint(self, now_ms: int) -> None:
        pane = self._pane()
        if pane in ("partitions", "replicas"):
            self._paint_partitions(now_ms)
        if pane == "partitions" and self.is_roomy:
            self._paint_beside(now_ms)
            self._paint_events("#events-beside", now_ms)
            if self.is_high:
                self._paint_tail("#tail-beside", now_ms)
                self._paint_groups("#groups-beside", now_ms)
        elif pane == "replicas":
            self._paint_replicas(now_ms)
        elif pane == "messages":
            self._paint_tail("#tail", now_ms)
        elif pane == "groups":
            self._paint_groups("#groups", now_ms)
        elif pane == "config":
            self._paint_configs()
        elif pane == "timeline":
            self._paint_events("#timeline", now_ms)

    def _paint_partitions(self, now_ms: int) -> None:
        found = self.picture.topics.get(self.topic, [])
        answers, grid = self._answers, self.query_one("#partitions", Grid)
        rows = partitions.partition_rows(found, answers.facts, self.fmt, now_ms)
        empty = self.known(f"Topic {self.topic} is gone: it was deleted. esc goes back to the list.")
        columns = partitions.partition_columns(grid.size.width or 78)
        self.show_table("#partitions", columns, rows, empty)
        title = partitions.partitions_title(self.topic, found, answers.facts, self.fmt)
        self.entitle("#topic-partitions", title, "" if self.is_roomy else "enter its replicas")
        if self._wanted_partition is not None and rows:
            grid.move_to(str(self._wanted_partition))
            self._wanted_partition = None

    def _paint_beside(self, now_ms: int) -> None:
        partition, rows = self.chosen_partition(), []
        if partition is not None:
            detail = self._answers.details.get(partition.partition)
            rows = partitions.replica_rows(partition, detail, self.picture.brokers, self.fmt, now_ms)
        self.show_table("#replicas-beside", partitions.REPLICA_COLUMNS, rows)
        self._paint_meaning("#meaning-beside", "#topic-replicas-beside", partition)

    def _paint_replicas(self, now_ms: int) -> None:
        found, brokers = self.picture.topics.get(self.topic, []), self.picture.brokers
        rows = partitions.topic_replica_rows(found, self._answers.details, brokers, self.fmt, now_ms)
        self.show_table("#replicas", partitions.TOPIC_REPLICA_COLUMNS, rows)
        self._paint_meaning("#meaning", "#topic-replicas", self.chosen_partition())

    def _paint_meaning(self, lines_id: str, panel_id: str, partition: Partition | None) -> None:
        fmt, lines = self.fmt, self.query_one(lines_id, Lines)
        if partition is None:
            lines.show([])
            self.entitle(panel_id, "Replicas")
            return
        said = packed(partitions.meaning(partition, fmt), lines.size.width - 2)
        lines.show(said)
        lines.styles.height = len(said)
        led = "no leader" if partition.leader is None else f"leader {partition.leader}"
        window = min(partitions.window_of(partition), max(1, partitions.top_of(partition)))
        self.entitle(
            panel_id,
            f"Replicas of {partition.name}: {led}, epoch {partition.leader_epoch}",
            f"bars: last {fmt.number(window)} offsets   [ ] other partition",
        )

    def _paint_events(self, where: str, now_ms: int) -> None:
        rows = activity.activity_rows(self._events(), self.fmt, now_ms)
        nothing = f"No events of {self.topic} since yak ui started."
        self.show_table(where, activity.COLUMNS, rows, nothing)

    def _events(self, partition: int | None = None) -> list[Line]:
        found = [line for line in self.picture.activity.lines if is_about(line, self.topic, partition)]
        return found[-_EVENTS_MAX:]

    def _paint_tail(self, where: str, now_ms: int) -> None:
        answers = self._answers
        messages = [each for held in answers.messages.values() for each in held]
        rows = topics.tail_rows(messages, self.fmt, now_ms, TAIL_MESSAGES)
        empty = f"{self.topic} has no records. p sends one." if answers.has_tail else "asking ..."
        if "tail" in answers.errors:
            empty = _error_text(answers, "tail")
        self.show_table(where, topics.TAIL_COLUMNS, rows, empty)
        if where == "#tail":
            rate = self.picture.topic_rates(self.topic).messages_in
            came = f"{format_rate(rate)} come in" if rate is not None and rate >= 1 else "no records arrive"
            title = f"Last records of {self.topic}: {came}"
            self.entitle("#topic-tail", title, "m all of them: search, filter, copy, export")

    def _paint_groups(self, where: str, now_ms: int) -> None:
        answers = self._answers
        empty = f"No group reads {self.topic}. A group appears when a consumer commits: yak consume {self.topic} --group NAME."
        if answers.readers is None:
            empty = _error_text(answers, "groups") if "groups" in answers.errors else "asking ..."
        rows = groups.topic_group_rows((answers.readers or {}).values(), self.fmt, now_ms)
        self.show_table(where, groups.TOPIC_GROUP_COLUMNS, rows, empty)
        left_out = f"{answers.groups_left_out} more groups were not asked   " if answers.groups_left_out else ""
        self.entitle(where.replace("#", "#topic-"), "Groups reading it", f"{left_out}enter the group")

    def _paint_configs(self) -> None:
        answers = self._answers
        rows = topics.config_rows(answers.configs, self.fmt) if answers.configs else []
        empty = _error_text(answers, "configs") if "configs" in answers.errors else "asking ..."
        self.show_table("#configs", topics.CONFIG_COLUMNS, rows, empty)
        own = sum(each.source == "topic" for each in answers.configs)
        self.entitle(
            "#topic-configs", f"Configs: {own} set for {self.topic}, {len(rows)} in all", "enter or E changes it"
        )
        config = self._config()
        if config is not None:
            first, second = topics.chosen_config_lines(config, self.fmt)
            lines = self.query_one("#config-text", Lines)
            words = [Cell(each, "dim") for each in second[0].text.split()]
            lines.show([first, *packed(words, lines.size.width - 2)])

    # choice

    def find_grid(self) -> Grid | None:
        if isinstance(self.focused, Grid):
            return self.focused
        pane = self.query_one("#topic-tabs", TabbedContent).active_pane
        return None if pane is None else next(iter(pane.query(Grid)), None)

    def chosen_topic(self) -> str | None:
        return self.topic if self.topic in self.picture.topics else None

    def chosen_partition(self) -> Partition | None:
        key = self.query_one("#partitions", Grid).cursor_key
        found = self.picture.topics.get(self.topic, [])
        number = self._wanted_partition if self._wanted_partition is not None else int(key or 0)
        return next((each for each in found if each.partition == number), found[0] if found else None)

    def _config(self) -> ConfigValue | None:
        key = self.query_one("#configs", Grid).cursor_key
        return next((each for each in self._answers.configs if each.name == key), None)

    # navigation and changes

    @on(TabbedContent.TabActivated, "#topic-tabs")
    def tab_turned(self, event: TabbedContent.TabActivated) -> None:
        grid = next(iter(event.pane.query(Grid)), None)
        chosen = self.chosen_partition()
        self.paint_body()
        if grid is not None:
            grid.focus()
            if grid.id == "replicas" and chosen is not None:
                self._show_replicas_of(chosen)
        self.ask_seen()

    def _show_replicas_of(self, partition: Partition) -> None:
        grid = self.query_one("#replicas", Grid)
        if not (grid.cursor_key or "").startswith(f"{partition.partition}/"):
            first = partition.leader if partition.leader in partition.replicas else min(partition.replicas)
            grid.move_to(f"{partition.partition}/{first}")

    @on(Grid.Moved, "#partitions")
    def other_partition(self) -> None:
        self.paint_body()
        self.ask_seen()

    @on(Grid.Moved, "#replicas")
    def other_replica(self, event: Grid.Moved) -> None:
        if event.row is not None and self._pane() == "replicas":
            self.query_one("#partitions", Grid).move_to(event.row.key.partition("/")[0])

    @on(Grid.Moved, "#configs")
    def other_config(self) -> None:
        self._paint_configs()

    @on(Grid.Opened, "#partitions")
    def open_partition(self) -> None:
        """Show the replicas' tab in a small window, else the partition's history."""
        partition = self.chosen_partition()
        if not self.is_roomy:
            self.query_one("#topic-tabs", TabbedContent).active = "tab-replicas"
        elif partition is not None:
            lines = reversed(self._events(partition.partition))
            now_ms = self.app.now_ms()
            said = "\n".join(f"{self.fmt.time(line.time_ms, now_ms)}  {line.message}" for line in lines)
            title = f"History of {partition.name}"
            self.app.push_screen(TextDialog(title, said or "No events since yak ui started."))

    @on(Grid.Opened, "#tail")
    def open_message(self) -> None:
        self.action_browse()

    @on(Grid.Opened, "#configs")
    def open_config(self) -> None:
        if not self.app.is_readonly:
            self._alter_config()

    @work(group="change")
    async def _alter_config(self) -> None:
        config = self._config()
        if config is not None and not config.is_read_only:
            await self.alter_one(self.topic, config, topics.documentation(config.name))

    def action_alter(self) -> None:
        """Change the config under the cursor; on the other tabs, the topic."""
        if self._pane() == "config" and self._config() is not None:
            self._alter_config()
        else:
            self.alter_topic()

    def action_step(self, by: int) -> None:
        self.query_one("#partitions", Grid).action_cursor(by)
        chosen = self.chosen_partition()
        if chosen is not None and self._pane() == "replicas":
            self._show_replicas_of(chosen)

    def action_copy(self) -> None:
        """Copy the name on the first tab, else the line."""
        if self._pane() == "partitions":
            self.app.copy(self.topic, f"the name {self.topic}")
        else:
            super().action_copy()

    def deleted(self, topic: str) -> None:
        if self.is_active and topic == self.topic:
            self.app.pop_screen()


def is_about(line: Line, topic: str, partition: int | None = None) -> bool:
    """Whether an event or a user's action concerns a topic, or one of its partitions."""
    event = line.event
    if line.kind == "you":
        return partition is None and topic in str(event.get("command", "")).replace(":", " ").split()
    if topic not in (event.get("topic"), event.get("resource_name") if event.get("resource_type") == "topic" else None):
        return False
    return partition is None or event.get("partition") == partition


def _error_text(answers: TopicAnswers, name: str) -> str:
    error = answers.errors[name]
    return f"{error.message}. {error.why}"
