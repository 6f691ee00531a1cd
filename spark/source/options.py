"""The options of `format("yak")`, by the names of Spark's Kafka source, checked before any request to a broker.

Names and rules are those of `KafkaSourceProvider.scala` in Spark 4 (`validateGeneralOptions`, `validateBatchOptions`,
`validateStreamOptions`). YAK adds `bootstrap`, `isolation`, `client`, `valueFormat` with its options, and
`keepTimestamps`. Option names are compared without case, as in Spark; Spark passes them in lower case.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from yak.ids import TopicPartition
from yak.spark.source.bounds import EARLIEST, LATEST, Bound, read_bound
from yak.spark.source.errors import OPTION, SourceError, bad_option
from yak.spark.source.option_values import flag, one_of, partitions_of, positive, time_string_ms

CLIENT_PREFIX = "kafka."
SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
COLUMNAR = "columnar"
LIBRDKAFKA = "librdkafka"
READ_TIMEOUT_MS = 60_000
MAX_TRIGGER_DELAY_MS = 15 * 60_000
FETCH_ATTEMPTS = 3
FETCH_PAUSE_MS = 10

KNOWN = (
    *SUBSCRIPTIONS,
    "bootstrap",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "isolation",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "client",
    "valueFormat",
    "valueSchema",
    "mode",
    "columnNameOfCorruptRecord",
    "topic",
    "keepTimestamps",
    "batchHeaders",
    "transactional",
    "path",
    "checkpointLocation",
    "queryName",
)
REFUSED_CLIENT_SETTINGS = {
    "auto.offset.reset": 'say where to start with .option("startingOffsets", "earliest")',
    "key.deserializer": "keys come as bytes; cast them in the query",
    "value.deserializer": "values come as bytes; cast them in the query",
    "enable.auto.commit": "the checkpoint says how far the query came",
    "interceptor.classes": "they could change the records",
}
"""Kafka settings that the source sets itself, as in Spark, each with its alternative."""
REFUSED_PRODUCER_SETTINGS = {
    "transactional.id": 'each task needs its own; say .option("transactional", "true")',
    "key.serializer": "keys are written as the bytes they are; cast them in the query",
    "value.serializer": "values are written as the bytes they are; cast them in the query",
}


@dataclass(frozen=True)
class Subscription:
    """The subscribed partitions: topics by name, topics by pattern, or partitions. Exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def covers(self, topic: str) -> bool:
        """Whether the subscription includes a topic of this name, existing or not."""
        if self.pattern:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics or any(each.topic == topic for each in self.partitions)

    def __str__(self) -> str:
        if self.pattern:
            return f"subscribePattern={self.pattern}"
        return ", ".join(self.topics or (str(each) for each in self.partitions))


@dataclass(frozen=True)
class ReadOptions:
    """What to read and how. Times are milliseconds; `client` is None if the user did not choose one."""

    bootstrap: str
    subscription: Subscription
    starting: Bound | None
    ending: Bound | None
    latest_if_no_match: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    isolation: str = "read_uncommitted"
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    timeout_ms: int = READ_TIMEOUT_MS
    fetch_attempts: int = FETCH_ATTEMPTS
    fetch_pause_ms: int = FETCH_PAUSE_MS
    group_id_prefix: str = ""
    client: str | None = None
    client_settings: Mapping[str, str] = field(default_factory=dict)


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """The options by lower-case name. Raises SourceError for a name that is close to a known one."""
    given = {str(name).lower(): str(value) for name, value in options.items()}
    by_lower = {name.lower(): name for name in KNOWN}
    for name in given:
        if name in by_lower or name.startswith(CLIENT_PREFIX):
            continue
        near = difflib.get_close_matches(name, list(by_lower), n=1, cutoff=0.8)
        if near:  # other names are ignored, as by Spark's sources: they may be for another component
            raise SourceError(OPTION, f'there is no option "{name}"', why=f"the closest is {by_lower[near[0]]}")
    return given


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a batch or streaming read. Raises SourceError."""
    given = lowered(options)
    client_settings = _client_settings(given, REFUSED_CLIENT_SETTINGS)
    isolation = given.get("isolation", client_settings.pop("isolation.level", "read_uncommitted"))
    if "kafka.isolation.level" in given and given["kafka.isolation.level"] != isolation:
        raise bad_option("isolation", isolation, f"kafka.isolation.level says {given['kafka.isolation.level']}")
    most = positive(given, "maxOffsetsPerTrigger")
    least = positive(given, "minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise bad_option("minOffsetsPerTrigger", least, f"it is higher than maxOffsetsPerTrigger={most}")
    return ReadOptions(
        bootstrap=bootstrap_of(given),
        subscription=_subscription(given),
        starting=read_bound(given, "starting"),
        ending=read_bound(given, "ending"),
        latest_if_no_match=one_of(given, "startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        fail_on_data_loss=flag(given, "failOnDataLoss", True),
        include_headers=flag(given, "includeHeaders", False),
        isolation=one_of({"isolation": isolation}, "isolation", ("read_uncommitted", "read_committed")),
        min_partitions=positive(given, "minPartitions"),
        max_records_per_partition=positive(given, "maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=time_string_ms(given, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        timeout_ms=positive(given, "kafkaConsumer.pollTimeoutMs") or READ_TIMEOUT_MS,
        fetch_attempts=positive(given, "fetchOffset.numRetries") or FETCH_ATTEMPTS,
        fetch_pause_ms=positive(given, "fetchOffset.retryIntervalMs") or FETCH_PAUSE_MS,
        group_id_prefix=given.get("groupidprefix", ""),
        client=one_of(given, "client", (COLUMNAR, LIBRDKAFKA)) if "client" in given else None,
        client_settings=client_settings,
    )


def check_batch(options: ReadOptions) -> None:
    """Refuse bounds that a batch read cannot have: start at latest, end at earliest. Raises SourceError."""
    starting, ending = options.starting, options.ending
    if starting is not None and (starting == LATEST or -1 in starting.offsets.values()):
        raise bad_option(
            "startingOffsets", "latest", "a batch would have nothing to read", 'startingOffsets="earliest"'
        )
    if ending is not None and (ending == EARLIEST or -2 in ending.offsets.values()):
        raise bad_option("endingOffsets", "earliest", "a batch would have nothing to read", 'endingOffsets="latest"')
    if starting is not None and ending is not None and starting.offsets and ending.offsets:
        _check_pairs(starting, ending)


def _check_pairs(starting: Bound, ending: Bound) -> None:
    if sorted(starting.offsets) != sorted(ending.offsets):
        raise SourceError(OPTION, "startingOffsets and endingOffsets name different partitions", why="each needs both")
    for each, start in starting.offsets.items():
        end = ending.offsets[each]
        if 0 <= end < start:
            raise SourceError(
                OPTION, f"{each} would start at {start} and end at {end}", why="the end is before the start"
            )


def check_stream(options: ReadOptions) -> None:
    """Refuse an end bound: a stream has no end. Raises SourceError."""
    if options.ending is not None:
        raise SourceError(
            OPTION,
            "a streaming query cannot have ending offsets",
            why="it goes on for ever",
            try_=("spark.read instead of spark.readStream", "trigger(availableNow=True) to stop at what is there now"),
        )


def bootstrap_of(given: Mapping[str, str]) -> str:
    """The bootstrap servers. Raises SourceError."""
    kafka, ours = given.get("kafka.bootstrap.servers", "").strip(), given.get("bootstrap", "").strip()
    if kafka and ours and kafka != ours:
        raise bad_option("bootstrap", ours, f"kafka.bootstrap.servers says {kafka}", "give one of the two")
    if not (kafka or ours):
        raise SourceError(
            OPTION,
            "no cluster is named",
            why="option kafka.bootstrap.servers (or bootstrap) is missing",
            try_=('.option("bootstrap", "localhost:9092")',),
        )
    return kafka or ours


def write_client_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The producer settings among the options. Raises SourceError."""
    return _client_settings(given, REFUSED_PRODUCER_SETTINGS)


def _client_settings(given: Mapping[str, str], refused: Mapping[str, str]) -> dict[str, str]:
    settings = {
        name.removeprefix(CLIENT_PREFIX): value
        for name, value in given.items()
        if name.startswith(CLIENT_PREFIX) and name != "kafka.bootstrap.servers"
    }
    for name, value in settings.items():
        if name in refused:
            raise bad_option(CLIENT_PREFIX + name, value, "the source sets it itself", refused[name])
    return settings


def _subscription(given: Mapping[str, str]) -> Subscription:
    there = [name for name in SUBSCRIPTIONS if name.lower() in given]
    if len(there) != 1:
        raise SourceError(
            OPTION,
            "say what to read in exactly one way" if there else "no topic is named",
            why=f"there are {' and '.join(there)}"
            if there
            else "one of subscribe, subscribePattern and assign is needed",
            try_=('.option("subscribe", "orders")',),
        )
    name = there[0]
    value = given[name.lower()].strip()
    if name == "assign":
        return Subscription(partitions=tuple(sorted(set(partitions_of(name, value)))))
    if name == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise bad_option(name, value, f"it is no regular expression: {error}") from None
        if not value:
            raise bad_option(name, value, "the pattern is empty")
        return Subscription(pattern=value)
    topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
    if not topics:
        raise bad_option(name, value, "it names no topic", '.option("subscribe", "orders,payments")')
    return Subscription(topics=topics)
