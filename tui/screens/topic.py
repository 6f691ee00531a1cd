"""One topic: navigation from it and changes to it. `topic_view` draws it."""

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
    """A topic and its keys' actions."""

    BINDINGS = keys(
        "topics.browse", "topics.produce", "topics.alter", "partitions.move", "topics.delete", "topics.copy",
        "partitions.before", "partitions.next",
    )  # fmt: skip

    @on(TabbedContent.TabActivated, "#topic-tabs")
    def tab_turned(self, event: TabbedContent.TabActivated) -> None:
        """Focus the tab's table, and request its data."""
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
        """Show the replicas of the partition."""
        self.paint(self.app.now_ms())
        self.ask_seen()

    @on(Grid.Moved, "#replicas")
    def other_replica(self, event: Grid.Moved) -> None:
        """Choose the partition of the replica."""
        if event.row is not None and self._pane() == "replicas":
            self.query_one("#partitions", Grid).move_to(event.row.key.partition("/")[0])

    @on(Grid.Moved, "#configs")
    def other_config(self) -> None:
        """Explain the config."""
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
            said = [f"{self.look.time(line.time_ms, now_ms)}  {line.message}" for line in lines]
            self.app.push_screen(
                TextDialog(
                    f"History of {partition.name}", as_content(said or ["Nothing happened to it since yak ui listens."])
                )
            )

    @on(Grid.Opened, "#tail")
    def open_message(self) -> None:
        """Show the topic's records."""
        self.action_browse()

    @on(Grid.Opened, "#groups")
    @on(Grid.Opened, "#groups-beside")
    def open_group(self, event: Grid.Opened) -> None:
        """Open the group."""
        self.app.go("groups", event.row.key)

    @on(Grid.Opened, "#timeline")
    def open_event(self, event: Grid.Opened) -> None:
        """Show the event in the activity."""
        self.app.go("activity", event.row.key)

    @on(Grid.Opened, "#configs")
    def open_config(self) -> None:
        """Change the config, unless read-only."""
        if not self.app.is_readonly:
            self._alter_config()

    @work(group="change")
    async def _alter_config(self) -> None:
        config = self._config()
        if config is not None and not config.is_read_only:
            await self.alter_one(self.topic, config, topic_config.documentation(config.name))

    def alter_chosen(self) -> None:
        """Change the config under the cursor; on the other tabs, the topic."""
        if self._pane() == "config" and self._config() is not None:
            self._alter_config()
        else:
            self.alter_topic()

    def action_before(self) -> None:
        """Go to the previous partition."""
        self._step(-1)

    def action_next(self) -> None:
        """Go to the next partition."""
        self._step(1)

    def _step(self, by: int) -> None:
        self.query_one("#partitions", Grid).action_cursor(by)
        chosen = self.chosen_partition()
        if chosen is not None and self._pane() == "replicas":
            self._show_replicas_of(chosen)

    def action_browse(self) -> None:
        """Show the topic's records."""
        self.app.go("messages", self.topic)

    def action_produce(self) -> None:
        """Open the producer with this topic."""
        self.app.go("producer", self.topic)

    def action_copy(self) -> None:
        """Copy the name on the first tab, else the line."""
        if self._pane() == "partitions":
            self.app.copy(self.topic, f"the name {self.topic}")
        else:
            self.app.copy(self.copied(), "the line")

    def deleted(self, topic: str) -> None:
        """Return to the list."""
        if self.app.screen is self and topic == self.topic:
            self.app.pop_screen()
