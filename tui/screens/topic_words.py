"""Forms and confirmation texts of the topic screens, and the equivalent commands. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.client.admin import ConfigValue
from yak.errors import UsageError
from yak.tui.widgets.dialogs import Field

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
    words = ["yak", "topics", "create", body["name"]]
    words += ["-p", str(body["partitions"])] if "partitions" in body else []
    words += ["-r", str(body["replication_factor"])] if "replication_factor" in body else []
    for name, value in body.get("configs", {}).items():
        words += ["-c", f"{name}={value}"]
    return shlex.join(words)


def check_name(name: str) -> str:
    """The name, if it is valid for a topic. Raises UsageError `bad-topic-name`."""
    legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
    if name in (".", "..") or len(name) > 249 or any(letter not in legal for letter in name):
        raise UsageError(
            "bad-topic-name",
            f'"{name}" is no name for a topic',
            why="up to 249 ASCII letters, digits, '.', '_' and '-'",
        )
    return name


def whole_number(text: str, label: str) -> int:
    """A number of at least 1. Raises UsageError `bad-number`."""
    if not text.isascii() or not text.isdigit() or not int(text):
        raise UsageError("bad-number", f'"{text}" for {label} is not a whole number from 1 on')
    return int(text)


def other_configs(text: str) -> dict[str, str]:
    """`NAME=VALUE` pairs, separated by spaces. Raises UsageError `bad-config`."""
    found: dict[str, str] = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError("bad-config", "a quote in the other configs is not closed", why=str(error)) from None
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError("bad-config", f'"{word}" is not NAME=VALUE')
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

    @property
    def is_nothing(self) -> bool:
        """Whether nothing changes."""
        return self.partitions is None and not self.configs and not self.deletions

    def command(self) -> str:
        """`yak topics alter orders -p 6 -c retention.ms=60000 --delete-config flush.ms`."""
        words = ["yak", "topics", "alter", self.topic]
        words += ["-p", str(self.partitions)] if self.partitions is not None else []
        for name, value in self.configs.items():
            words += ["-c", f"{name}={value}"]
        for name in self.deletions:
            words += ["--delete-config", name]
        return shlex.join(words)

    def diff(self, partitions: int, before: Mapping[str, ConfigValue]) -> list[str]:
        """A line for each difference, with the old and the new value."""
        lines = []
        if self.partitions is not None:
            lines.append(f"partitions            {partitions} -> {self.partitions}")
        for name, value in self.configs.items():
            lines.append(f"{name:<21} {_shown(before.get(name))} -> {value}")
        lines += [f"{name:<21} {_shown(before.get(name))} -> as the cluster has it" for name in self.deletions]
        if self.partitions is not None:
            lines += ["", "Keys go to other partitions from now on; partitions cannot be taken away again."]
        return lines


def _shown(config: ConfigValue | None) -> str:
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
    if change.is_nothing:
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
