"""One topic: what is opened from it, and done to it. How it is drawn: `topic_view`."""

from textual import on, work
from textual.widgets import TabbedContent

from yak.tui.keys import keys
from yak.tui.rows import topic_config
from yak.tui.screens.topic_changes import as_content
from yak.tui.screens.topic_view import TopicView
from yak.tui.state.picture import Partition
from yak.tui.widgets.dialogs import TextDialog
from yak.tui.widgets.grid import Grid


class TopicScreen(TopicView):
    """A topic, and what its keys do."""

    BINDINGS = keys(
        "topics.browse", "topics.produce", "topics.alter", "partitions.move", "topics.delete", "topics.copy",
        "partitions.before", "partitions.next",
    )  # fmt: skip

    @on(TabbedContent.TabActivated, "#topic-tabs")
    def tab_turned(self, event: TabbedContent.TabActivated) -> None:
        """Another tab: its table has the focus, and what it shows is asked for."""
        grid = next(iter(event.pane.query(Grid)), None)
        chosen = self.chosen_partition()
        self.paint(self.app.now_ms())
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
        """Its replicas."""
        self.paint(self.app.now_ms())
        self.ask_seen()

    @on(Grid.Moved, "#replicas")
    def other_replica(self, event: Grid.Moved) -> None:
        """Its partition is the chosen one."""
        if event.row is not None and self._pane() == "replicas":
            self.query_one("#partitions", Grid).move_to(event.row.key.partition("/")[0])

    @on(Grid.Moved, "#configs")
    def other_config(self) -> None:
        """What it is for."""
        self._paint_configs()

    @on(Grid.Opened, "#partitions")
    def open_partition(self) -> None:
        """Its replicas where they are not seen yet, else what happened to it."""
        partition = self.chosen_partition()
        if not self.is_roomy:
            self.query_one("#topic-tabs", TabbedContent).active = "tab-replicas"
        elif partition is not None:
            lines = reversed(self._events(partition.partition))
            now_ms = self.app.now_ms()
            said = [f"{self.look.time(line.time_ms, now_ms)}  {line.message}" for line in lines]
            self.app.push_screen(
                TextDialog(
                    f"History of {partition.name}", as_content(said or ["Nothing happened to it since yak ui listens."])
                )
            )

    @on(Grid.Opened, "#tail")
    def open_message(self) -> None:
        """Its messages."""
        self.action_browse()

    @on(Grid.Opened, "#groups")
    @on(Grid.Opened, "#groups-beside")
    def open_group(self, event: Grid.Opened) -> None:
        """The group."""
        self.app.go("groups", event.row.key)

    @on(Grid.Opened, "#timeline")
    def open_event(self, event: Grid.Opened) -> None:
        """In the activity."""
        self.app.go("activity", event.row.key)

    @on(Grid.Opened, "#configs")
    def open_config(self) -> None:
        """Change it, where that is allowed."""
        if not self.app.is_readonly:
            self._alter_config()

    @work(group="change")
    async def _alter_config(self) -> None:
        config = self._config()
        if config is not None and not config.is_read_only:
            await self.alter_one(self.topic, config, topic_config.documentation(config.name))

    def alter_chosen(self) -> None:
        """The config under the cursor; on the other tabs the whole topic."""
        if self._pane() == "config" and self._config() is not None:
            self._alter_config()
        else:
            self.alter_topic()

    def action_before(self) -> None:
        """The partition before."""
        self._step(-1)

    def action_next(self) -> None:
        """The next partition."""
        self._step(1)

    def _step(self, by: int) -> None:
        self.query_one("#partitions", Grid).action_cursor(by)
        chosen = self.chosen_partition()
        if chosen is not None and self._pane() == "replicas":
            self._show_replicas_of(chosen)

    def action_browse(self) -> None:
        """Its messages."""
        self.app.go("messages", self.topic)

    def action_produce(self) -> None:
        """Send to it."""
        self.app.go("producer", self.topic)

    def action_copy(self) -> None:
        """The name on the first tab, else the line."""
        if self._pane() == "partitions":
            self.app.copy(self.topic, f"the name {self.topic}")
        else:
            self.app.copy(self.copied(), "the line")

    def deleted(self, topic: str) -> None:
        """Back to the list."""
        if self.app.screen is self and topic == self.topic:
            self.app.pop_screen()
