"""Topics, their configs, their latest records and the groups that read them, as rows. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from yak.protocol.topic_names import is_internal
from yak.tui.formatter import Formatter
from yak.tui.messages.detail import cell_text
from yak.tui.rows.cells import Cell, Column, Row, SlicedRows, Tone, figure
from yak.tui.state.picture import Partition, Picture, Rates
from yak.view.formats import format_duration
from yak.view.partition_state import PartitionState, worst

if TYPE_CHECKING:
    from yak.client.admin import ConfigValue
    from yak.client.consumer import ConsumerRecord

COLUMNS: Final = (
    Column("TOPIC", 12, most=80, flex=1, preferred=30),
    Column("STATE", 11, flash=True),
    Column("PARTS", 5, is_right=True),
    Column("RF", 2, is_right=True),
    Column("RECORDS", 8, is_right=True),
    Column("SIZE", 8, is_right=True),
    Column("IN", 7, is_right=True),
    Column("OUT", 7, is_right=True, rank=1),
    Column("BYTES IN", 9, is_right=True, rank=3),
    Column("CONFIGS SET", 11, most=90, flex=1, rank=2),
)


TONES: Final[Mapping[PartitionState, Literal["good", "warn", "bad"]]] = {
    PartitionState.OFFLINE: "bad",
    PartitionState.UNDER_MIN_ISR: "bad",
    PartitionState.AT_MIN_ISR: "warn",
    PartitionState.UNDER_REPLICATED: "warn",
    PartitionState.OK: "good",
}
"""How a state is painted; its sign has the same name."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The answer of `GET /topics/NAME`.

    Log starts by partition (None: unknown), bytes of the leaders' logs, configs set for the topic.
    """

    received_ms: int
    log_starts: Mapping[int, int | None] = field(default_factory=dict)
    sizes: Mapping[int, int | None] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Mapping[str, Any], received_ms: int) -> "TopicFacts":
        partitions = answer["partitions"]
        return cls(
            received_ms,
            {each["partition"]: each["log_start_offset"] for each in partitions},
            {each["partition"]: each["size_bytes"] for each in partitions},
            dict(answer["configs"] or {}),  # None: this user may not describe them
        )

    @property
    def size_bytes(self) -> int | None:
        """The size of all partitions; None if a leader does not report it."""
        known = [each for each in self.sizes.values() if each is not None]
        return sum(known) if len(known) == len(self.sizes) else None

    def messages(self, partitions: Sequence[Partition]) -> int | None:
        """The sum of high watermark minus log start; None if one is unknown."""
        total = 0
        for each in partitions:
            start = self.log_starts.get(each.partition)
            if start is None or each.high_watermark is None:
                return None
            total += max(0, each.high_watermark - start)
        return total


def topic_names(picture: Picture, *, with_internal: bool) -> list[str]:
    """All topics in order, with or without internal ones."""
    return sorted(name for name in picture.topics if with_internal or not is_internal(name))


def state_of(partitions: Iterable[Partition]) -> tuple[str, Tone, int]:
    """Words, tone, which is the name of the sign too, and the severity for sorting."""
    states = [each.state for each in partitions]
    state = worst(states)
    tone = TONES[state]
    if state is PartitionState.OK:
        return state.label, tone, 0
    count = states.count(state)
    return f"{count} {state.label}", tone, state.severity * 1_000_000 + count


def topic_row(
    name: str, partitions: Sequence[Partition], rates: Rates, facts: TopicFacts | None, fmt: Formatter
) -> Row:
    """One topic."""
    text, tone, severity = state_of(partitions)
    factor = max((len(each.replicas) for each in partitions), default=0)
    messages = None if facts is None else facts.messages(partitions)
    size = None if facts is None else facts.size_bytes
    configs = {} if facts is None else facts.configs
    return Row(
        name,
        Cell(name, "dim" if is_internal(name) else "strong"),
        Cell(f"{fmt.sign(tone)} {text}", tone, severity),
        Cell(fmt.number(len(partitions)), "", len(partitions)),
        Cell(str(factor), "", factor),
        figure(fmt.number(messages), messages),
        figure(fmt.size(size), size),
        figure(fmt.rate(rates.messages_in), rates.messages_in),
        figure(fmt.rate(rates.messages_out), rates.messages_out),
        figure(fmt.size_rate(rates.bytes_in), rates.bytes_in),
        Cell(" ".join(f"{name}={value}" for name, value in sorted(configs.items())), "dim"),
    )


BUSIEST_COLUMNS: Final = tuple(COLUMNS[number] for number in (0, 1, 2, 6, 7, 8))


def busiest_rows(picture: Picture, fmt: Formatter) -> list[Row]:
    """The topics, those with the most records per second first, without what must be requested."""
    rows = [
        topic_row(name, picture.topics[name], picture.topic_rates(name), None, fmt)
        for name in topic_names(picture, with_internal=False)
    ]
    few = [Row(row.key, *row.cells[:3], *row.cells[6:9]) for row in rows]
    return sorted(few, key=lambda row: -float(row.cells[3].order or 0))


def bare_row(name: str, fmt: Formatter) -> Row:
    """A topic of which only the name is known yet."""
    none = Cell(fmt.sign("none"), "dim", -1)
    return Row(name, Cell(name, "strong"), none, none, none, none, none, none, none, none, Cell(""))


class TopicTable:
    """The rows of all topics. Visible ones are refreshed at each update, the others in turns."""

    def __init__(self) -> None:
        self.facts: dict[str, TopicFacts] = {}
        self._names: list[str] = []
        self._names_of: tuple[object, ...] = ()
        self._rows = SlicedRows()

    def rows(
        self, picture: Picture, fmt: Formatter, in_sight: Sequence[str], *, with_internal: bool = False
    ) -> list[Row]:
        names_of = (picture.topics_version, with_internal)
        if names_of != self._names_of:
            self._names, self._names_of = topic_names(picture, with_internal=with_internal), names_of
            self.facts = {name: each for name, each in self.facts.items() if name in picture.topics}

        def make(name: str) -> Row:
            partitions, rates = picture.topics.get(name, ()), picture.topic_rates(name)
            return topic_row(name, partitions, rates, self.facts.get(name), fmt)

        return self._rows.update(self._names, in_sight, make, lambda name: bare_row(name, fmt), (picture, fmt))

    def stale(self, in_sight: Sequence[str], now_ms: int, older_than_ms: int) -> list[str]:
        """Visible topics with outdated facts, those without facts first."""
        known = [(self.facts[name].received_ms if name in self.facts else -1, name) for name in in_sight]
        return [name for received_ms, name in sorted(known) if received_ms < now_ms - older_than_ms]


def topics_title(picture: Picture, fmt: Formatter, *, with_internal: bool) -> str:
    """`12 topics, 39 partitions`, the hidden ones, and those with problems."""
    names = list(picture.topics) if with_internal else [name for name in picture.topics if not is_internal(name)]
    partitions = sum(len(picture.topics[name]) for name in names)
    under_replicated = sum(each.replication.is_under_replicated for each in picture.partitions.values())
    text = f"{fmt.counted(len(names), 'topic')}, {fmt.counted(partitions, 'partition')}"
    if len(names) < len(picture.topics):
        text += f" ({len(picture.topics) - len(names)} internal: I)"
    return text + (f", {fmt.number(under_replicated)} under-replicated" if under_replicated else "")


CONFIG_COLUMNS: Final = (
    Column("CONFIG", 20, most=42),
    Column("VALUE", 10, most=34, flex=1, flash=True),
    Column("FROM", 7),
    Column("DEFAULT", 8, most=24, rank=1),
    Column("DESCRIPTION", 12, most=200, flex=3, rank=2),
)
_NEVER: Final = 2**63 - 1


def config_rows(configs: "Iterable[ConfigValue]", fmt: Formatter) -> list[Row]:
    """Configs set for the topic first, then by name."""
    from yak.config.topic_config_table import TOPIC_CONFIGS

    rows = []
    for each in sorted(configs, key=lambda each: (each.source != "topic", each.name)):
        definition = TOPIC_CONFIGS.get(each.name)
        is_own = each.source == "topic"
        default = definition.default if definition is not None else None
        rows.append(
            Row(
                each.name,
                Cell(each.name, "strong" if is_own else ""),
                Cell(readable_value(each.name, each.value, fmt), "accent" if is_own else ""),
                Cell(each.source, "accent" if is_own else "dim"),
                Cell(readable_value(each.name, default, fmt), "dim"),
                Cell(documentation(each.name), "dim"),
            )
        )
    return rows


def documentation(name: str) -> str:
    """A config's documentation; empty if this version does not know it."""
    from yak.config.topic_config_table import TOPIC_CONFIGS

    definition = TOPIC_CONFIGS.get(name)
    return "" if definition is None else definition.documentation


def readable_value(name: str, value: str | None, fmt: Formatter) -> str:
    """A value with a readable form: `604800000 (7 d)`, `1048588 (1.0 MiB)`."""
    if value is None or value == "":
        return fmt.sign("none")
    try:
        number = int(value)
    except ValueError:
        return value
    if number == _NEVER:
        return "never" if name.endswith(".ms") else "no limit"
    if number == -1 and name.startswith("retention."):
        return "-1 (no limit)"
    if name.endswith(".ms") and number >= 1000:
        return f"{value} ({format_duration(number)})"
    if "bytes" in name and number >= 1024:
        return f"{value} ({fmt.size(number)})"
    return value


def chosen_config_lines(config: "ConfigValue", fmt: Formatter) -> list[list[Cell]]:
    """The config under the cursor in two lines."""
    changes = "read-only" if config.is_read_only else "E changes it"
    return [
        [
            Cell(config.name, "strong"),
            Cell(readable_value(config.name, config.value, fmt)),
            Cell(f"from: {config.source}", "dim"),
            Cell(changes, "accent"),
        ],
        [Cell(documentation(config.name) or "unknown to this version of yak ui", "dim")],
    ]


_VALUE_CHARACTERS: Final = 300
TAIL_COLUMNS: Final = (
    Column("OFFSET", 8, is_right=True),
    Column("TIME", 10),
    Column("KEY", 4, most=24),
    Column("VALUE", 12, most=_VALUE_CHARACTERS, flex=1),
)


def tail_rows(records: "Iterable[ConsumerRecord]", fmt: Formatter, now_ms: int, count: int) -> list[Row]:
    """The last `count` by time, newest first."""
    newest = sorted(records, key=lambda each: (each.timestamp_ms, each.offset), reverse=True)[:count]
    return [
        Row(
            f"{each.partition}@{each.offset}",
            Cell(f"{each.partition}@{each.offset}", "dim", each.offset),
            Cell(
                fmt.time(each.timestamp_ms if each.timestamp_ms >= 0 else None, now_ms, millis=True),
                "dim",
                max(each.timestamp_ms, 0),
            ),
            Cell(fmt.sign("none") if each.key is None else cell_text(each.key), "dim" if each.key is None else ""),
            Cell(cell_text(each.value, limit=_VALUE_CHARACTERS), "dim" if each.value is None else ""),
        )
        for each in newest
    ]
