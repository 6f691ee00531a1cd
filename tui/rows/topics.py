"""Topics as rows, from the picture and from the facts of visible ones. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.client.metadata import INTERNAL_TOPICS
from yak.tui.look import Look
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.rows.slices import SlicedRows
from yak.tui.state.picture import Partition, Picture, Rates

COLUMNS: Final = (
    Column("TOPIC", 12, most=80, flex=1),
    Column("STATE", 11, flash=True),
    Column("PARTS", 5, is_right=True),
    Column("RF", 2, is_right=True),
    Column("MESSAGES", 8, is_right=True),
    Column("SIZE", 8, is_right=True),
    Column("IN", 7, is_right=True),
    Column("OUT", 7, is_right=True, rank=1),
    Column("BYTES IN", 9, is_right=True, rank=3),
    Column("CONFIGS SET", 11, most=90, flex=1, rank=2),
)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The answer of `GET /topics/NAME`.

    Log starts by partition (None: unknown), bytes of the leaders' logs, configs set for the topic.
    """

    told_ms: int
    log_starts: Mapping[int, int | None] = field(default_factory=dict)
    sizes: Mapping[int, int | None] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    topic_id: str = ""

    @classmethod
    def of(cls, answer: Mapping[str, Any], told_ms: int) -> "TopicFacts":
        """Parse the answer."""
        partitions = answer["partitions"]
        return cls(
            told_ms,
            {each["partition"]: each["log_start_offset"] for each in partitions},
            {each["partition"]: each["size_bytes"] for each in partitions},
            dict(answer["configs"]),
            answer["topic_id"],
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


def is_internal(topic: str) -> bool:
    """Whether it is an internal topic of the cluster."""
    return topic in INTERNAL_TOPICS


def topic_names(picture: Picture, *, with_internal: bool) -> list[str]:
    """All topics in order, with or without internal ones."""
    return sorted(name for name in picture.topics if with_internal or not is_internal(name))


def state_of(partitions: Sequence[Partition]) -> tuple[str, str, Tone, int]:
    """Sign, words, tone, and the severity for sorting."""
    leaderless = sum(each.leader is None for each in partitions)
    if leaderless:
        return "bad", f"{leaderless} offline", "bad", 2_000_000 + leaderless
    behind = sum(each.is_under_replicated for each in partitions)
    if behind:
        return "warn", f"{behind} under-repl", "warn", 1_000_000 + behind
    return "good", "in sync", "good", 0


def topic_row(name: str, partitions: Sequence[Partition], rates: Rates, facts: TopicFacts | None, look: Look) -> Row:
    """One topic."""
    sign, words, tone, badness = state_of(partitions)
    factor = max((len(each.replicas) for each in partitions), default=0)
    messages = None if facts is None else facts.messages(partitions)
    size = None if facts is None else facts.size_bytes
    return Row(
        name,
        (
            Cell(name, "dim" if is_internal(name) else "strong"),
            Cell(f"{look.sign(sign)} {words}", tone, badness),
            Cell(look.number(len(partitions)), "", len(partitions)),
            Cell(str(factor), "", factor),
            Cell(look.number(messages), "" if messages else "dim", -1 if messages is None else messages),
            Cell(look.size(size), "" if size else "dim", -1 if size is None else size),
            Cell(look.rate(rates.messages_in), "" if rates.messages_in else "dim", rates.messages_in),
            Cell(look.rate(rates.messages_out), "" if rates.messages_out else "dim", rates.messages_out),
            Cell(look.size_rate(rates.bytes_in), "" if rates.bytes_in else "dim", rates.bytes_in),
            Cell(config_words(facts.configs) if facts is not None else "", "dim"),
        ),
    )


def bare_row(name: str, look: Look) -> Row:
    """A topic of which only the name is known yet."""
    none = Cell(look.sign("none"), "dim", -1)
    return Row(name, (Cell(name, "strong"), none, none, none, none, none, none, none, none, Cell("")))


def config_words(configs: Mapping[str, str]) -> str:
    """`retention.ms=60000 min.insync.replicas=2`."""
    return " ".join(f"{name}={value}" for name, value in sorted(configs.items()))


class TopicTable:
    """The rows of all topics. Visible ones are refreshed at each update, the others in turns."""

    def __init__(self) -> None:
        self.facts: dict[str, TopicFacts] = {}
        self._picture = Picture()
        self._look = Look()
        self._names: list[str] = []
        self._names_of: tuple[object, ...] = ()
        self._rows = SlicedRows(self._make, lambda name: bare_row(name, self._look))

    def rows(self, picture: Picture, look: Look, in_sight: Sequence[str], *, with_internal: bool = False) -> list[Row]:
        """All rows."""
        if picture is not self._picture or look != self._look:
            if picture is not self._picture:
                self.facts.clear()
            self._picture, self._look = picture, look
            self._rows.forget()
        names_of = (id(picture), picture.topics_version, with_internal)
        if names_of != self._names_of:
            self._names, self._names_of = topic_names(picture, with_internal=with_internal), names_of
            self.facts = {name: each for name, each in self.facts.items() if name in picture.topics}
        return self._rows.update(self._names, in_sight)

    def _make(self, name: str) -> Row:
        picture = self._picture
        return topic_row(
            name, picture.topics.get(name, ()), picture.topic_rates(name), self.facts.get(name), self._look
        )

    def stale(self, in_sight: Sequence[str], now_ms: int, older_than_ms: int) -> list[str]:
        """Visible topics with outdated facts, those without facts first."""
        known = [(self.facts[name].told_ms if name in self.facts else -1, name) for name in in_sight]
        return [name for told_ms, name in sorted(known) if told_ms < now_ms - older_than_ms]


def total_words(picture: Picture, look: Look, *, with_internal: bool) -> str:
    """`12 topics, 39 partitions`, the hidden ones, and those with problems."""
    names = list(picture.topics) if with_internal else [name for name in picture.topics if not is_internal(name)]
    partitions = sum(len(picture.topics[name]) for name in names)
    behind = sum(each.is_under_replicated for each in picture.partitions.values())
    words = (
        f"{look.number(len(names))} {'topic' if len(names) == 1 else 'topics'}, {look.number(partitions)} partitions"
    )
    if len(names) < len(picture.topics):
        words += f" ({len(picture.topics) - len(names)} internal: I)"
    return words + (f", {look.number(behind)} under-replicated" if behind else "")
