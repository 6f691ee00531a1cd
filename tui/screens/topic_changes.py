"""Creating, altering and deleting topics, and moving leaderships, for the screens that show topics."""

from textual import work
from textual.content import Content

from yak.client.admin import ConfigValue
from yak.errors import YakError
from yak.tui.screens import topic_words as words
from yak.tui.screens.base import YakScreen
from yak.tui.source.live import path_of
from yak.tui.source.topic_asking import alter_topic, topic_configs
from yak.tui.state.picture import Partition
from yak.tui.widgets.dialogs import ConfirmDialog, Field, FormDialog


class ChangesTopics(YakScreen):
    """A screen whose cursor is on a topic or a partition."""

    def chosen_topic(self) -> str | None:
        """The topic under the cursor."""
        return None

    def chosen_partition(self) -> Partition | None:
        """The partition under the cursor."""
        return None

    @work(group="change")
    async def action_create(self) -> None:
        """Create a topic."""
        values = await self.app.push_screen_wait(
            FormDialog(
                "Make a topic",
                words.create_fields(len(self.picture.brokers)),
                command=lambda given: words.create_command(words.create_body(given)),
                yes="Make it",
            )
        )
        if values is None:
            return
        body = words.create_body(values)
        command = words.create_command(body)
        try:
            await self.app.source.ask("POST", "/topics", body=body)
        except YakError as error:
            self._failed(command, error)
            return
        self.cli(command)
        self.app.notice(f"topic {body['name']} is made")
        self.made(body["name"])

    def made(self, topic: str) -> None:
        """Called after a topic was created here."""

    @work(group="change")
    async def action_delete(self) -> None:
        """Delete the topic under the cursor, once its name was typed."""
        topic = self.chosen_topic()
        if topic is None:
            return
        partitions = self.picture.topics.get(topic, ())
        held = sum((each.high_watermark or 0) for each in partitions)
        lost = (
            f" {self.look.number(held)} messages were ever written to it."
            if held
            else " Nothing was ever written to it."
        )
        said = f"Topic {topic} has {len(partitions)} partitions.{lost} All of it is gone at once, and cannot be brought back."
        command = f"yak topics delete {topic} --yes"
        if not await self.app.push_screen_wait(
            ConfirmDialog(f"Delete {topic}", said, command=command, typed=topic, yes="Delete")
        ):
            return
        try:
            await self.app.source.ask("DELETE", path_of("topics", topic))
        except YakError as error:
            self._failed(command, error)
            return
        self.cli(command)
        self.app.notice(f"topic {topic} is deleted", "warn")
        self.deleted(topic)

    def deleted(self, topic: str) -> None:
        """Called after a topic was deleted here."""

    def action_alter(self) -> None:
        """Change the thing under the cursor."""
        self.alter_chosen()

    def alter_chosen(self) -> None:
        """Change the topic; screens with other things under the cursor override it."""
        self.alter_topic()

    @work(group="change")
    async def alter_topic(self) -> None:
        """Change partitions and configs, after showing the differences."""
        topic = self.chosen_topic()
        if topic is None:
            return
        configs = await self._configs(topic)
        if configs is None:
            return
        count = len(self.picture.topics.get(topic, ()))
        values = await self.app.push_screen_wait(
            FormDialog(
                f"Change {topic}",
                words.alter_fields(count, configs),
                command=lambda given: words.alter_change(topic, count, configs, given).command(),
                words="An empty field: as the cluster has it.",
                yes="Go on",
            )
        )
        if values is not None:
            await self._apply(words.alter_change(topic, count, configs, values), count, configs)

    async def alter_one(self, topic: str, config: ConfigValue, documentation: str) -> None:
        """Change one config of a topic, showing its documentation."""
        values = await self.app.push_screen_wait(
            FormDialog(
                f"{config.name} of {topic}",
                (Field("value", "Value", config.value or "" if config.source == "topic" else "", f"{config.value}"),),
                command=lambda given: words.config_change(topic, config, given["value"]).command(),
                words=f"{documentation}\nNow {config.value or '(empty)'}, from: {config.source}. Empty: as the cluster has it.",
                yes="Go on",
            )
        )
        if values is not None:
            change = words.config_change(topic, config, values["value"])
            await self._apply(change, len(self.picture.topics.get(topic, ())), {config.name: config})

    async def _configs(self, topic: str) -> dict[str, ConfigValue] | None:
        try:
            found = await self.app.source.kafka(topic_configs, topic)
        except YakError as error:
            self.app.show_error(error)
            return None
        return {each.name: each for each in found}

    async def _apply(self, change: words.Change, partitions: int, configs: dict[str, ConfigValue]) -> None:
        diff = "\n".join(change.diff(partitions, configs))
        command = change.command()
        if not await self.app.push_screen_wait(
            ConfirmDialog(f"Change {change.topic}", diff, command=command, yes="Change")
        ):
            return
        try:
            await self.app.source.kafka(
                alter_topic, change.topic, dict(change.configs), tuple(change.deletions), change.partitions
            )
        except YakError as error:
            self._failed(command, error)
            return
        self.cli(command)
        self.app.notice(f"topic {change.topic} is changed")
        self.ask_again()

    @work(group="change")
    async def action_move(self) -> None:
        """Move a leadership to another replica."""
        partition = self.chosen_partition()
        if partition is None:
            self.app.notice("put the cursor on a partition: F moves its leadership")
            return
        choices = words.move_choices(partition.replicas, partition.isr, partition.leader)
        name = f"{partition.topic}:{partition.partition}"
        if not choices:
            self.app.notice(f"no other replica of {partition.name} is in sync: nobody could take it", "warn")
            return
        led = (
            "Nobody leads it now."
            if partition.leader is None
            else f"Broker {partition.leader} leads it in epoch {partition.leader_epoch}."
        )
        values = await self.app.push_screen_wait(
            FormDialog(
                f"Move the leadership of {partition.name}",
                (Field("to", "New leader", str(choices[0]), choices=[str(node) for node in choices]),),
                command=lambda given: f"yak failover {name} --to {given['to']}",
                words=f"{led} The new leader has every record before it leads: nothing is lost, nothing is copied.",
                yes="Move",
            )
        )
        if values is not None:
            await self._move(partition, int(values["to"]), f"yak failover {name} --to {values['to']}")

    async def _move(self, partition: Partition, to: int, command: str) -> None:
        body = {"topic": partition.topic, "partition": partition.partition, "to": to}
        try:
            answer = await self.app.source.ask("POST", "/api/failover", body=body)
        except YakError as error:
            self._failed(command, error)
            return
        if answer["moved"]:
            self.cli(command, f"moved in {answer['took_ms']:.0f} ms")
            self.app.notice(f"broker {to} leads {partition.name}, after {answer['took_ms']:.0f} ms")
            return
        stayed = [*answer["failed"], *answer["stayed"]]
        reason = stayed[0]["reason"] if stayed else "nothing was to be done"
        self.cli(command, f"stayed: {reason}")
        self.app.notice(f"{partition.name} stayed: {reason}", "warn")

    def _failed(self, command: str, error: YakError) -> None:
        self.cli(command, f"failed: {error.message}")
        self.app.show_error(error)


def as_content(lines: list[str]) -> Content:
    """Lines as Content, without markup: text from a cluster may contain brackets."""
    return Content("\n".join(lines))
