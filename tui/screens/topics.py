"""All topics: health, size, rates."""

import asyncio

from textual import on, work
from textual.app import ComposeResult

from yak.errors import YakError
from yak.tui.keys import keys
from yak.tui.rows.topics import COLUMNS, TopicFacts, TopicTable, is_internal, total_words
from yak.tui.screens.topic_changes import ChangesTopics
from yak.tui.source.live import path_of
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.panel import Panel

ASK_SECONDS = 1.0
FACTS_MS = 5_000
"""The age limit of a visible topic's facts."""
OTHERS_MS = 30_000
OTHERS_MAX = 300
"""With more topics than this, only visible ones are requested."""
ROUND_MAX = 40
AT_ONCE = 4
_EMPTY = "No topics yet. Topics hold messages. Press a to make one, or type :sample."


class TopicsScreen(ChangesTopics):
    """The list of topics; enter opens one."""

    TITLE_WORDS = "topics"
    CLI_TWIN = "yak topics list -o wide"
    BINDINGS = keys(
        "topics.create", "topics.alter", "topics.delete", "topics.browse", "topics.produce", "topics.describe",
        "topics.copy", "topics.internal",
    )  # fmt: skip
    EXPLAINED = (
        ("State", "Offline: a partition has no leader, nobody can write to it or read it. Under-replicated: a replica is not in the in-sync set."),
        ("Parts, RF", "Partitions, and the replication factor: how many copies of each there are."),
        ("Messages", "High watermark less log start, of all partitions together. Of a compacted topic there are fewer: compaction leaves gaps."),
        ("Size", "Bytes on the disks of the leaders. Followers hold as much again, each."),
        ("In, out", "Messages in a second that producers wrote, and that consumers read."),
        ("Configs set", "What is set for this topic; all else is as the brokers have it."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._table = TopicTable()
        self._with_internal = False
        self._wanted: str | None = None
        self._is_asking = False

    def body(self) -> ComposeResult:
        """Build the table."""
        yield Panel("Topics", Grid(id="topics"))

    def on_mount(self) -> None:
        """Request the visible topics' facts from time to time."""
        super().on_mount()
        self.set_interval(ASK_SECONDS, self._ask)

    def paint(self, now_ms: int) -> None:  # noqa: ARG002 - nothing here is a matter of time
        """Draw the picture's numbers and the requested facts."""
        picture, grid = self.picture, self.query_one("#topics", Grid)
        rows = self._table.rows(picture, self.look, grid.keys_in_sight(), with_internal=self._with_internal)
        empty = _EMPTY if picture.is_loaded else "waiting for the cluster to say what there is ..."
        if grid.filter_text and rows:
            empty = f"No topic matches {grid.filter_text}: {len(rows)} looked at. esc clears the filter."
        grid.show(COLUMNS, rows, empty=empty, is_wide=self.look.is_wide)
        filtered = f"{grid.row_count} of {len(rows)} match {grid.filter_text}" if grid.filter_text else ""
        self.query_one(Panel).entitle(total_words(picture, self.look, with_internal=self._with_internal), filtered)
        if self._wanted is not None and picture.is_loaded:
            wanted, self._wanted = self._wanted, None
            self.call_later(self.opened, wanted)
        if not self._table.facts:
            self.call_later(self._ask)

    # requests

    def _ask(self) -> None:
        if self.app.screen is self and not self._is_asking and not self.app.is_frozen and self.picture.is_loaded:
            self._is_asking = True  # set before the worker runs: another paint may come first
            self.ask_facts()

    @work(group="facts")
    async def ask_facts(self) -> None:
        """Request sizes, log starts and configs of the visible topics, and of all topics if they are few."""
        try:
            now_ms = self.app.now_ms()
            table, seen = self._table, self.query_one("#topics", Grid).keys_in_sight()
            wanted = table.stale(seen, now_ms, FACTS_MS)
            if not wanted and len(self.picture.topics) <= OTHERS_MAX:
                wanted = table.stale(list(self.picture.topics), now_ms, OTHERS_MS)
            gate = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._ask_one(name, gate) for name in wanted[:ROUND_MAX]))
            if wanted:
                self.app.repaint()
        finally:
            self._is_asking = False

    async def _ask_one(self, topic: str, gate: asyncio.Semaphore) -> None:
        facts = self._table.facts
        async with gate:
            try:
                answer = await self.app.source.ask("GET", path_of("topics", topic))
            except YakError:  # the topic was deleted, or no broker answers, which the banner reports
                old = facts.get(topic, TopicFacts(0))
                facts[topic] = TopicFacts(self.app.now_ms(), old.log_starts, old.sizes, old.configs, old.topic_id)
                return
        facts[topic] = TopicFacts.of(answer, self.app.now_ms())

    def ask_again(self) -> None:
        """Request everything again after a change."""
        self._table.facts.clear()
        self._ask()

    # choice and actions

    def chosen_topic(self) -> str | None:
        """The topic under the cursor."""
        return self.query_one("#topics", Grid).cursor_key

    def opened(self, what: object) -> None:
        """Open a topic, or one of its partitions, `orders-0`."""
        if not self.picture.is_loaded or not self.query("#topics"):
            self._wanted = str(what)  # opened once the topics are known
            return
        topic, partition = str(what), None
        if topic not in self.picture.topics:
            name, _, number = topic.rpartition("-")
            if not number.isdigit() or name not in self.picture.topics:
                self.app.notice(f"there is no topic {topic}", "warn")
                return
            topic, partition = name, int(number)
        self._with_internal = self._with_internal or is_internal(topic)
        self.paint(self.app.now_ms())
        self.query_one("#topics", Grid).move_to(topic)
        self.open_topic(topic, partition)

    def open_topic(self, topic: str, partition: int | None = None) -> None:
        """Push the topic's screen, in place of an open one."""
        from yak.tui.screens.topic import TopicScreen

        if isinstance(self.app.screen, TopicScreen):
            self.app.pop_screen()
        self.app.push_screen(TopicScreen(topic, partition, self._table.facts.get(topic)))

    @on(Grid.Opened, "#topics")
    def open_row(self, event: Grid.Opened) -> None:
        """Open the topic (enter)."""
        self.open_topic(event.row.key)

    def action_describe(self) -> None:
        """Open the topic."""
        topic = self.chosen_topic()
        if topic is not None:
            self.open_topic(topic)

    def action_browse(self) -> None:
        """Show the topic's records."""
        self.app.go("messages", self.chosen_topic())

    def action_produce(self) -> None:
        """Open the producer with this topic."""
        self.app.go("producer", self.chosen_topic())

    def action_internal(self) -> None:
        """Show or hide internal topics."""
        self._with_internal = not self._with_internal
        self.paint(self.app.now_ms())

    def action_copy(self) -> None:
        """Copy the topic's name."""
        topic = self.chosen_topic()
        if topic is not None:
            self.app.copy(topic, f"the name {topic}")

    def made(self, topic: str) -> None:
        """Move the cursor to the new topic once it is listed."""
        self.set_timer(0.6, lambda: self.query_one("#topics", Grid).move_to(topic))
