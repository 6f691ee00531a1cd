"""Resolves a subscription on the cluster: its current partitions, and the offsets of its bounds."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from yak.attempts import attempts
from yak.client.admin import EARLIEST as ADMIN_EARLIEST
from yak.client.admin import LATEST as ADMIN_LATEST
from yak.client.admin import Admin
from yak.client.metadata import unknown_topic
from yak.errors import YakError
from yak.ids import INTERNAL_TOPICS, TopicPartition
from yak.spark.source.client_settings import for_librdkafka
from yak.spark.source.errors import OFFSET_RANGE, OPTION, SourceError, data_loss, in_one_line
from yak.spark.source.options import EARLIEST_OFFSET, LATEST_OFFSET, Bound, ReadOptions
from yak.spark.source.stream_offsets import Offsets, TopicIds

_T = TypeVar("_T")
_NAMES_MAX = 6
SETTLE_S = 2.0
SETTLE_PAUSE_S = 0.1
_PASSING = ("timed-out", "no-leader", "not-leader", "unreachable", "unknown-topic", "unknown-partition")
_OFFSET_NOT_AVAILABLE = 78
"""OFFSET_NOT_AVAILABLE: a new leader does not know the high watermark yet (KIP-207)."""


class Topics:
    """One query's view of the cluster. It connects on first use; every method raises SourceError."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._admin: Admin | None = None
        self._brokers: tuple[str, ...] = ()

    def assigned(self) -> list[TopicPartition]:
        """The existing partitions, sorted. A topic or partition that was named and does not exist raises an error."""
        names = self._all_partitions()
        wanted = self.options.subscription
        with in_one_line():
            for topic in (*wanted.topics, *(each.topic for each in wanted.partitions)):
                if topic not in names:
                    raise unknown_topic(topic, names)
        for each in wanted.partitions:
            if each.partition not in names[each.topic]:
                raise SourceError(
                    "unknown-partition",
                    f"there is no partition {each}",
                    why=f'topic "{each.topic}" has {len(names[each.topic])}, numbered from 0',
                )
        return self._matching(names)

    def there(self) -> list[TopicPartition]:
        """The existing partitions, sorted, without an error for missing ones."""
        return self._matching(self._all_partitions())

    def ids(self, names: Iterable[str]) -> TopicIds:
        """The ids of these topics, without those that do not exist. A broker before Kafka 2.8 has none."""
        wanted = sorted(names)
        return self._retried(lambda admin: admin.topic_ids(wanted)) if wanted else {}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The log start offset of each partition."""
        return self._offsets(dict.fromkeys(partitions, ADMIN_EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The end offset of each partition: the high watermark, or the last stable offset for `read_committed`."""
        return self._offsets(dict.fromkeys(partitions, ADMIN_LATEST))

    def settled_ends(self, known: Mapping[TopicPartition, int]) -> Offsets:
        """The end offsets of the existing partitions; retried for a while if one is below its offset in `known`.

        A new leader learns the high watermark with a delay, so its end offset may briefly be below what was read.
        `fetchLatestOffsets` of Spark's `KafkaOffsetReader` retries for the same reason.
        """
        for _ in attempts(SETTLE_S, SETTLE_PAUSE_S):
            found = self.latest(self.there())
            is_settled = all(offset >= known.get(each, 0) for each, offset in found.items())
            if is_settled and not any(each not in found for each in known):
                break
        return found

    def at_times(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first offset with a time at or after the given one (ms); -1 if there is none."""
        return self._offsets({each: max(time_ms, 0) for each, time_ms in times.items()})

    def resolve(self, bound: Bound, partitions: list[TopicPartition], *, side: str) -> Offsets:
        """The offsets of a bound; `side` is starting or ending."""
        if bound.kind == "earliest":
            return self.earliest(partitions)
        if bound.kind == "latest":
            return self.latest(partitions)
        if bound.kind == "offsets":
            self._check_named(bound.offsets, partitions, f"{side}Offsets")
            return self._explicit(bound.offsets, side)
        if bound.kind == "times":
            self._check_named(bound.times, partitions, f"{side}OffsetsByTimestamp")
            return self._by_time(bound.times, side)
        return self._by_time(dict.fromkeys(partitions, bound.time_ms), side)

    @property
    def servers(self) -> str:
        """Bootstrap list and known brokers: a task must find the cluster when all listed brokers are down."""
        named = self.options.bootstrap.split(",")
        return ",".join(dict.fromkeys((*(each.strip() for each in named), *self._brokers)))

    def _by_time(self, times: Mapping[TopicPartition, int], side: str) -> Offsets:
        found = self.at_times(times)
        missing = [each for each, offset in found.items() if offset < 0]
        if missing and side == "starting" and not self.options.latest_if_no_match:
            raise SourceError(
                OFFSET_RANGE,
                f"no record of {names_of(missing)} is as late as {times[missing[0]]} ms",
                why="a starting time must have a record at or after it in each partition",
                try_=('.option("startingOffsetsByTimestampStrategy", "latest")',),
            )
        return found | self.latest(missing)

    def _explicit(self, wanted: Mapping[TopicPartition, int], side: str) -> Offsets:
        first, end = self.earliest(wanted), self.latest(wanted)
        found: Offsets = {}
        for each, offset in wanted.items():
            if offset in (LATEST_OFFSET, EARLIEST_OFFSET):
                found[each] = end[each] if offset == LATEST_OFFSET else first[each]
            elif first[each] <= offset <= end[each]:
                found[each] = offset
            elif self.options.fail_on_data_loss:
                raise SourceError(
                    OFFSET_RANGE,
                    f"{side}Offsets has {offset} for {each}",
                    why=f"its log has the offsets {first[each]} to {end[each]}",
                    try_=("-2 for the earliest, -1 for the latest", '.option("failOnDataLoss", "false")'),
                )
            else:
                found[each] = min(max(offset, first[each]), end[each])
        return found

    def _check_named(self, named: Mapping[TopicPartition, int], there: list[TopicPartition], option: str) -> None:
        unnamed, unknown = sorted(set(there) - set(named)), sorted(set(named) - set(there))
        if unnamed or unknown:
            parts = [f"it does not name {names_of(unnamed)}"] if unnamed else []
            parts += [f"{names_of(unknown)} is not read by this query"] if unknown else []
            raise SourceError(
                OPTION,
                f"{option} does not fit the partitions that are read",
                why="; ".join(parts),
                try_=("name every partition; -2 is the earliest, -1 the latest",),
            )

    def _matching(self, names: Mapping[str, frozenset[int]]) -> list[TopicPartition]:
        wanted = self.options.subscription
        if wanted.partitions:
            return [each for each in wanted.partitions if each.partition in names.get(each.topic, ())]
        topics = wanted.topics
        if wanted.pattern:
            pattern = re.compile(wanted.pattern)
            topics = tuple(name for name in names if name not in INTERNAL_TOPICS and pattern.search(name))
        return sorted(TopicPartition(topic, number) for topic in topics for number in names.get(topic, ()))

    def _all_partitions(self) -> dict[str, frozenset[int]]:
        found = self._retried(lambda admin: admin.metadata())
        self._brokers = tuple(each.address for each in found.brokers.values())
        return {name: frozenset(each.number for each in topic.partitions) for name, topic in found.topics.items()}

    def _offsets(self, wanted: Mapping[TopicPartition, str | int]) -> Offsets:
        if not wanted:
            return {}
        committed = self.options.isolation == "read_committed"
        found = self._retried(lambda admin: admin.offsets(wanted, read_committed=committed))
        return {each: offset.offset for each, offset in found.items()}

    def _retried(self, ask: Callable[[Admin], _T]) -> _T:
        """Retry a request on transient errors: `fetchOffset.numRetries` times, and at least for a short while."""
        deadline = time.monotonic() + SETTLE_S
        attempt = 1
        while True:
            try:
                return ask(self._connected())
            except YakError as error:  # keep the connection: it knows brokers that the bootstrap list may not have
                passes = error.code in _PASSING or error.kafka_code == _OFFSET_NOT_AVAILABLE
                is_over = attempt >= self.options.fetch_attempts and time.monotonic() >= deadline
                if is_over and error.code in ("unknown-topic", "unknown-partition") and self.options.fail_on_data_loss:
                    raise data_loss(f"a partition of {self.options.subscription} went away", [error.why]) from None
                if is_over or not passes:
                    with in_one_line():
                        raise
            attempt += 1
            time.sleep(max(self.options.fetch_pause_ms / 1000, SETTLE_PAUSE_S))

    def _connected(self) -> Admin:
        if self._admin is None:
            with in_one_line():
                self._admin = Admin(
                    self.options.bootstrap,
                    timeout_ms=min(self.options.timeout_ms, 30_000),
                    extra=for_librdkafka(self.options.client_settings),
                )
        return self._admin


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """The first few partitions, for an error text."""
    names = [str(each) for each in sorted(partitions)]
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more
