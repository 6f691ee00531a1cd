"""All topics: health, size, rates; and the changes to topics, for all screens that show one."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from textual import on, work
from textual.app import ComposeResult

from yak.client.admin import ConfigValue
from yak.client.numbers import parse_long
from yak.errors import PeerError, UsageError, YakError
from yak.protocol.topic_names import is_internal, validate_topic_name
from yak.tui.keys import keys
from yak.tui.rows.topics import COLUMNS, TopicFacts, TopicTable, topics_title
from yak.tui.screens.base import AskingScreen, YakScreen
from yak.tui.source.base import gather_few
from yak.tui.source.kafka import alter_topic, delete_topic, topic_configs
from yak.tui.source.live import path_of
from yak.tui.state.picture import Partition
from yak.tui.widgets.dialogs import Field
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid

USUAL: Final = ("min.insync.replicas", "retention.ms", "retention.bytes", "max.message.bytes")
"""Configs with a field of their own."""
_POLICY: Final = "cleanup.policy"
_USUAL_POLICIES: Final = ("default", "delete", "compact")
DEFAULT: Final = "default"


def create_fields(brokers: int) -> tuple[Field, ...]:
    """The form for a new topic."""
    return (
        Field("name", "Name", "", "letters, digits, . _ -", is_needed=True),
        Field("partitions", "Partitions", "3", "the broker's default"),
        Field("replication_factor", "Replication factor", str(min(3, max(1, brokers))), "the broker's default"),
        Field("min.insync.replicas", "min.insync.replicas", "", "default; how many replicas acks=all needs"),
        Field("retention.ms", "retention.ms", "", "default; 3600000: an hour, -1: for ever"),
        Field(_POLICY, _POLICY, DEFAULT, choices=_USUAL_POLICIES),
        Field("others", "Other configs", "", "max.message.bytes=2097152 flush.messages=1"),
    )


def create_body(values: Mapping[str, str]) -> dict[str, Any]:
    """The body for `POST /topics`. Raises UsageError: `bad-topic-name`, `bad-number`, `bad-config`."""
    configs = {name: values[name] for name in ("min.insync.replicas", "retention.ms") if values[name]}
    if values[_POLICY] != DEFAULT:
        configs[_POLICY] = values[_POLICY]
    configs |= other_configs(values["others"])
    for name, value in configs.items():
        check_config(name, value)
    body: dict[str, Any] = {"name": check_name(values["name"])}
    for name, label in (("partitions", "partitions"), ("replication_factor", "the replication factor")):
        if values[name]:
            body[name] = whole_number(values[name], label)
    return {**body, "configs": configs} if configs else body


def create_command(body: Mapping[str, Any]) -> str:
    """`yak topics create orders -p 3 -r 3 -c retention.ms=60000`."""
    argv = ["yak", "topics", "create", body["name"]]
    argv += ["-p", str(body["partitions"])] if "partitions" in body else []
    argv += ["-r", str(body["replication_factor"])] if "replication_factor" in body else []
    for name, value in body.get("configs", {}).items():
        argv += ["-c", f"{name}={value}"]
    return shlex.join(argv)


def check_name(name: str) -> str:
    """The name, if it is valid for a topic. Raises UsageError `bad-topic-name`."""
    try:
        validate_topic_name(name)
    except PeerError as error:
        raise UsageError("bad-topic-name", f'"{name}" is no name for a topic', why=error.message) from None
    return name


def whole_number(text: str, label: str) -> int:
    """A number of at least 1. Raises UsageError `bad-number`."""
    number = parse_long(text)
    if not number:
        raise UsageError("bad-number", f'"{text}" for {label} is not a whole number from 1 on')
    return number


def other_configs(text: str) -> dict[str, str]:
    """`NAME=VALUE` pairs, separated by spaces. Raises UsageError `bad-config`."""
    found: dict[str, str] = {}
    try:
        tokens = shlex.split(text)
    except ValueError as error:
        raise UsageError("bad-config", "a quote in the other configs is not closed", why=str(error)) from None
    for token in tokens:
        name, equals, value = token.partition("=")
        if not equals or not name:
            raise UsageError("bad-config", f'"{token}" is not NAME=VALUE')
        found[name] = value
    return found


def check_config(name: str, value: str) -> None:
    """Raise UsageError `bad-config`, with the config's documentation, for an invalid name or value."""
    from yak.config.topic_config_table import TOPIC_CONFIGS

    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise UsageError("bad-config", f'there is no topic config "{name}"')
    try:
        definition.accept(value)
    except ValueError as error:
        raise UsageError("bad-config", f'"{value}" is nothing for {name}', why=str(error)) from None


@dataclass(frozen=True, slots=True)
class Change:
    """A change to a topic. `partitions` is the new number, None if unchanged."""

    topic: str
    partitions: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    deletions: Sequence[str] = ()

    def command(self) -> str:
        """`yak topics alter orders -p 6 -c retention.ms=60000 --delete-config flush.ms`."""
        argv = ["yak", "topics", "alter", self.topic]
        argv += ["-p", str(self.partitions)] if self.partitions is not None else []
        for name, value in self.configs.items():
            argv += ["-c", f"{name}={value}"]
        for name in self.deletions:
            argv += ["--delete-config", name]
        return shlex.join(argv)

    def diff(self, partitions: int, before: Mapping[str, ConfigValue]) -> list[str]:
        """A line for each difference, with the old and the new value."""
        lines = []
        if self.partitions is not None:
            lines.append(f"partitions            {partitions} -> {self.partitions}")
        for name, value in self.configs.items():
            lines.append(f"{name:<21} {_value_text(before.get(name))} -> {value}")
        lines += [f"{name:<21} {_value_text(before.get(name))} -> as the cluster has it" for name in self.deletions]
        if self.partitions is not None:
            lines += ["", "Keys go to other partitions from now on; partitions cannot be taken away again."]
        return lines


def _value_text(config: ConfigValue | None) -> str:
    if config is None:
        return "?"
    return f"{config.value or '(empty)'}{'' if config.source == 'topic' else f' ({config.source})'}"


def alter_fields(partitions: int, configs: Mapping[str, ConfigValue]) -> tuple[Field, ...]:
    """The form for an existing topic: set configs are values, defaults are hints."""
    own = {name: each.value or "" for name, each in configs.items() if each.source == "topic"}

    def hint(name: str) -> str:
        known = configs.get(name)
        return "" if known is None else f"{known.value} ({known.source})"

    fields = [Field("partitions", "Partitions", str(partitions), "at least as many as now", is_needed=True)]
    fields += [Field(name, name, own.get(name, ""), hint(name)) for name in USUAL]
    others = " ".join(shlex.quote(f"{name}={value}") for name, value in own.items() if name not in USUAL)
    return (*fields, Field("others", "Other configs", others, "NAME=VALUE ...; take one out: its default"))


def alter_change(topic: str, partitions: int, configs: Mapping[str, ConfigValue], values: Mapping[str, str]) -> Change:
    """The change from a completed form. Raises UsageError: `bad-number`, `bad-config`, `nothing-to-change`."""
    own = {name: each.value or "" for name, each in configs.items() if each.source == "topic"}
    wanted = {name: values[name] for name in USUAL if values[name]} | other_configs(values["others"])
    changes = {name: value for name, value in wanted.items() if own.get(name) != value}
    for name, value in changes.items():
        check_config(name, value)
    total = whole_number(values["partitions"], "partitions")
    if total < partitions:
        raise UsageError("bad-number", f"{topic} has {partitions} partitions", why="partitions cannot be taken away")
    deletions = tuple(name for name in own if name not in wanted)
    change = Change(topic, total if total > partitions else None, changes, deletions)
    if change.partitions is None and not changes and not deletions:
        raise UsageError("nothing-to-change", "nothing is changed yet")
    return change


def config_change(topic: str, config: ConfigValue, value: str) -> Change:
    """The change of one config; an empty value restores the default.

    Raises UsageError: `bad-config`, `nothing-to-change`.
    """
    if not value and config.source == "topic":
        return Change(topic, deletions=(config.name,))
    if not value or (value == config.value and config.source == "topic"):
        raise UsageError("nothing-to-change", "nothing is changed yet")
    check_config(config.name, value)
    return Change(topic, configs={config.name: value})


def move_choices(replicas: Sequence[int], isr: Sequence[int], leader: int | None) -> list[int]:
    """Replicas that could become leader: those in sync, the preferred one first."""
    return [node for node in replicas if node in isr and node != leader]


class ChangesTopics(YakScreen):
    """A screen whose cursor is on a topic or a partition."""

    _with_internal = False

    def chosen_topic(self) -> str | None:
        return None

    def chosen_partition(self) -> Partition | None:
        return None

    def action_browse(self) -> None:
        self.app.go("messages", self.chosen_topic())

    def action_produce(self) -> None:
        self.app.go("producer", self.chosen_topic())

    def action_internal(self) -> None:
        self._with_internal = not self._with_internal
        self.paint_body()

    @work(group="change")
    async def action_delete(self) -> None:
        topic = self.chosen_topic()
        if topic is None:
            return
        partitions = self.picture.topics.get(topic, ())
        topic_id = next((each.topic_id for each in partitions), "")
        held = sum((each.high_watermark or 0) for each in partitions)
        records, number = self.fmt.counted(held, "record"), self.fmt.counted(len(partitions), "partition")
        lost = f" It got {records} so far." if held else " No record was ever written to it."
        said = f"Topic {topic} has {number}.{lost} Its records are deleted at once and cannot be restored."
        command = f"yak topics delete {topic} --yes"
        if await self.confirmed(f"Delete {topic}", said, command=command, typed=topic, yes="Delete"):
            change = self.app.source.kafka(delete_topic, topic, topic_id)
            if await self.carry_out(command, change, f"topic {topic} is deleted", "warn"):
                self.deleted(topic)

    def deleted(self, topic: str) -> None:
        """Called after a topic was deleted here."""

    def action_alter(self) -> None:
        self.alter_topic()

    @work(group="change")
    async def alter_topic(self) -> None:
        topic = self.chosen_topic()
        if topic is None:
            return
        configs = await self._configs(topic)
        if configs is None:
            return
        count = len(self.picture.topics.get(topic, ()))
        values = await self.fill_form(
            f"Change {topic}",
            alter_fields(count, configs),
            lambda given: alter_change(topic, count, configs, given).command(),
            text="An empty field: as the cluster has it.",
            yes="Go on",
        )
        if values is not None:
            await self._apply(alter_change(topic, count, configs, values), count, configs)

    async def alter_one(self, topic: str, config: ConfigValue, documentation: str) -> None:
        values = await self.fill_form(
            f"{config.name} of {topic}",
            (Field("value", "Value", config.value or "" if config.source == "topic" else "", f"{config.value}"),),
            lambda given: config_change(topic, config, given["value"]).command(),
            text=f"{documentation}\nNow {config.value or '(empty)'}, from: {config.source}. Empty: as the cluster has it.",
            yes="Go on",
        )
        if values is not None:
            change = config_change(topic, config, values["value"])
            await self._apply(change, len(self.picture.topics.get(topic, ())), {config.name: config})

    async def _configs(self, topic: str) -> dict[str, ConfigValue] | None:
        try:
            found = await self.app.source.kafka(topic_configs, topic)
        except YakError as error:
            self.app.show_error(error)
            return None
        return {each.name: each for each in found}

    async def _apply(self, change: Change, partitions: int, configs: dict[str, ConfigValue]) -> None:
        diff = "\n".join(change.diff(partitions, configs))
        command = change.command()
        if await self.confirmed(f"Change {change.topic}", diff, command=command, yes="Change"):
            altered = self.app.source.kafka(
                alter_topic, change.topic, dict(change.configs), tuple(change.deletions), change.partitions
            )
            if await self.carry_out(command, altered, f"topic {change.topic} is changed"):
                self.altered(change.topic)

    def altered(self, topic: str) -> None:
        """Called after a topic was changed here."""

    @work(group="change")
    async def action_move(self) -> None:
        partition = self.chosen_partition()
        if partition is None:
            self.app.notice("put the cursor on a partition: F elects another leader")
            return
        choices = move_choices(partition.replicas, partition.isr, partition.leader)
        name = f"{partition.topic}:{partition.partition}"
        if not choices:
            self.app.notice(f"no other replica of {partition.name} is in sync and could lead it", "warn")
            return
        led = (
            "It has no leader now."
            if partition.leader is None
            else f"Broker {partition.leader} leads it in epoch {partition.leader_epoch}."
        )
        values = await self.fill_form(
            f"Elect another leader of {partition.name}",
            (Field("to", "New leader", str(choices[0]), choices=[str(node) for node in choices]),),
            lambda given: f"yak failover {name} --to {given['to']}",
            text=f"{led} The new leader has every record before it leads: nothing is lost, nothing is copied.",
            yes="Move",
        )
        if values is not None:
            await self._move(partition, int(values["to"]), f"yak failover {name} --to {values['to']}")

    async def _move(self, partition: Partition, to: int, command: str) -> None:
        body = {"topic": partition.topic, "partition": partition.partition, "to": to}
        try:
            answer = await self.app.source.ask("POST", "/api/failover", body=body)
        except YakError as error:
            self.failed(command, error)
            return
        if answer["moved"]:
            self.app.note_command(command, f"moved in {answer['took_ms']:.0f} ms")
            self.app.notice(f"broker {to} leads {partition.name}, after {answer['took_ms']:.0f} ms")
            return
        stayed = [*answer["failed"], *answer["stayed"]]
        reason = stayed[0]["reason"] if stayed else "nothing to do"
        self.app.note_command(command, f"stayed: {reason}")
        self.app.notice(f"{partition.name} stayed: {reason}", "warn")


FACTS_MS = 5_000
"""The age limit of a visible topic's facts."""
OTHERS_MS = 30_000
OTHERS_MAX = 300
"""With more topics than this, only visible ones are requested."""
ROUND_MAX = 40
_EMPTY = "No topics yet. Topics hold records. Press a to create one, or type :sample."


class TopicsScreen(ChangesTopics, AskingScreen):
    """The list of topics; enter opens one."""

    CRUMB = "topics"
    CLI_TWIN = "yak topics list -o wide"
    EVERY_S = 1.0
    BINDINGS = keys("topics")
    EXPLAINED = (
        ("State", "Offline: a partition has no leader, and neither writes nor reads work. Under-replicated: a replica is outside of the ISR."),
        ("Parts, RF", "Partitions, and the replication factor: the number of replicas of each partition."),
        ("Records", "High watermark minus log start offset, of all partitions. A compacted topic has fewer records: compaction leaves gaps."),
        ("Size", "Bytes on the disks of the leaders. Each follower holds as much again."),
        ("In, out", "Records written by producers, and read by consumers, per second."),
        ("Configs set", "The configs of this topic. All others have the brokers' values."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._table = TopicTable()
        self._wanted: str | None = None

    def body(self) -> ComposeResult:
        yield Panel("Topics", Grid(id="topics"))

    def paint(self, now_ms: int) -> None:  # noqa: ARG002 - nothing here is a matter of time
        picture, grid = self.picture, self.query_one("#topics", Grid)
        rows = self._table.rows(picture, self.fmt, grid.keys_in_sight(), with_internal=self._with_internal)
        empty = self.known(_EMPTY)
        if grid.filter_text and rows:
            empty = f"No topic matches {grid.filter_text}: {len(rows)} searched. esc clears the filter."
        self.show_table("#topics", COLUMNS, rows, empty)
        filtered = f"{grid.row_count} of {len(rows)} match {grid.filter_text}" if grid.filter_text else ""
        self.query_one(Panel).entitle(topics_title(picture, self.fmt, with_internal=self._with_internal), filtered)
        if self._wanted is not None and picture.is_loaded:
            wanted, self._wanted = self._wanted, None
            self.call_later(self.opened, wanted)
        if grid.keys_in_sight() and not self._table.facts:
            self.call_later(self.ask_again)

    # requests

    async def ask(self) -> bool:
        """Request sizes, log starts and configs of the visible topics, and of all topics if they are few."""
        table, now_ms = self._table, self.app.now_ms()
        wanted = table.stale(self.query_one("#topics", Grid).keys_in_sight(), now_ms, FACTS_MS)
        if not wanted and len(self.picture.topics) <= OTHERS_MAX:
            wanted = table.stale(list(self.picture.topics), now_ms, OTHERS_MS)
        await gather_few(self._ask_one(name) for name in wanted[:ROUND_MAX])
        return bool(wanted)

    async def _ask_one(self, topic: str) -> None:
        facts = self._table.facts
        try:
            answer = await self.app.source.ask("GET", path_of("topics", topic))
        except YakError:  # the topic was deleted, or no broker answers, which the banner reports
            facts[topic] = replace(facts.get(topic, TopicFacts(0)), received_ms=self.app.now_ms())
        else:
            facts[topic] = TopicFacts.of(answer, self.app.now_ms())

    def altered(self, topic: str) -> None:
        self._table.facts.pop(topic, None)
        self.ask_again()

    # choice and actions

    def chosen_topic(self) -> str | None:
        return self.query_one("#topics", Grid).cursor_key

    def opened(self, what: object) -> None:
        """Open a topic, or one of its partitions, `orders-0`."""
        if not self.picture.is_loaded:
            self._wanted = str(what)  # opened once the topics are known
            return
        topic, partition = str(what), None
        if topic not in self.picture.topics:
            name, _, number = topic.rpartition("-")
            partition = parse_long(number)
            if partition is None or name not in self.picture.topics:
                self.app.notice(f"there is no topic {topic}", "warn")
                return
            topic = name
        self._with_internal = self._with_internal or is_internal(topic)
        self.paint_body()
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
        self.open_topic(event.row.key)

    def action_describe(self) -> None:
        topic = self.chosen_topic()
        if topic is not None:
            self.open_topic(topic)

    def action_copy(self) -> None:
        topic = self.chosen_topic()
        if topic is not None:
            self.app.copy(topic, f"the name {topic}")

    @work(group="change")
    async def action_create(self) -> None:
        fields = create_fields(len(self.picture.brokers))
        values = await self.fill_form(
            "Create a topic", fields, lambda given: create_command(create_body(given)), yes="Make it"
        )
        if values is None:
            return
        body = create_body(values)
        command = create_command(body)
        change = self.app.source.ask("POST", "/topics", body=body)
        if await self.carry_out(command, change, f"topic {body['name']} is made"):
            self.set_timer(0.6, lambda: self.query_one("#topics", Grid).move_to(body["name"]))
