"""The options of `format("yak")`, by the names of Spark's Kafka source, checked before any request to a broker.

Names and rules are those of `KafkaSourceProvider.scala` in Spark 4 (`validateGeneralOptions`, `validateBatchOptions`,
`validateStreamOptions`). YAK adds `bootstrap`, `isolation`, `client`, `valueFormat` with its options, and
`keepTimestamps`. Option names are compared without case, as in Spark; Spark passes them in lower case.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yak.client.addresses import parse_addresses
from yak.errors import closest
from yak.ids import TopicPartition
from yak.spark.source.errors import OPTION, SCHEMA, SourceError, bad_option
from yak.spark.source.schema import kafka_schema

PERMISSIVE, DROP_MALFORMED, FAIL_FAST = "permissive", "dropmalformed", "failfast"
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONG_MAX = (1 << 63) - 1


def flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    """`true` or `false`, in any case. Raises SourceError."""
    text = given.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise bad_option(name, text, "it is true or false")
    return text.strip().lower() == "true"


def positive(given: Mapping[str, str], name: str) -> int | None:
    """A positive integer, or None if the option is not set. Raises SourceError."""
    text = given.get(name.lower())
    if text is None:
        return None
    number = _long(text)
    if number is None or number <= 0:
        raise bad_option(name, text, "it is a whole number above 0")
    return number


def whole_number(name: str, text: str) -> int:
    """An integer. Raises SourceError."""
    number = _long(text)
    if number is None:
        raise bad_option(name, text, "it is a whole number: milliseconds since 1970")
    return number


def one_of(given: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    """One of `words`, in any case; the first if the option is not set. Raises SourceError."""
    text = given.get(name.lower(), allowed[0])
    if text.strip().lower() not in allowed:
        raise bad_option(name, text, f"it is one of {', '.join(allowed)}")
    return text.strip().lower()


def time_string_ms(given: Mapping[str, str], name: str, default_ms: int) -> int:
    """A duration in Spark's syntax: `15m`, `30s`, `500ms`. Raises SourceError."""
    text = given.get(name.lower())
    if text is None:
        return default_ms
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise bad_option(name, text, "it is a duration such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * _UNITS_MS[found[2]]


def partitions_of(name: str, text: str) -> list[TopicPartition]:
    """Partitions from `{"orders":[0,1]}`. Raises SourceError."""
    shape = 'partitions are written {"orders":[0,1],"payments":[0]}'
    found: list[TopicPartition] = []
    for topic, numbers in _json_object(name, text, shape).items():
        if not isinstance(numbers, list) or not all(_is_partition(number) for number in numbers):
            raise bad_option(name, text, shape)
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise bad_option(name, text, "it names no partition", shape)
    return found


def numbers_by_partition(name: str, text: str) -> dict[TopicPartition, int]:
    """Numbers by partition from `{"orders":{"0":23,"1":-1}}`. Raises SourceError."""
    shape = 'each partition is named: {"orders":{"0":23,"1":-2}}'
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(name, text, shape).items():
        if not isinstance(numbers, dict):
            raise bad_option(name, text, shape)
        for partition, number in numbers.items():
            if not partition.isdecimal() or not isinstance(number, int) or isinstance(number, bool):
                raise bad_option(name, text, shape)
            if abs(number) > _LONG_MAX or not _is_partition(int(partition)):
                raise bad_option(name, text, f"{topic} has a number that no offset or partition can be")
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise bad_option(name, text, "it names no partition", shape)
    return found


def _json_object(name: str, text: str, shape: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deep"
        raise bad_option(name, text, f"it is no JSON ({reason})", shape) from None
    if not isinstance(found, dict):
        raise bad_option(name, text, shape)
    return found


def _is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 31


def _long(text: str) -> int | None:
    stripped = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", stripped):
        return None
    number = int(stripped)
    return number if abs(number) <= _LONG_MAX else None


LATEST_OFFSET = -1
EARLIEST_OFFSET = -2


@dataclass(frozen=True)
class Bound:
    """`kind` is earliest, latest, offsets (by partition; -1 and -2 as in Spark), time (one, ms) or times (by partition, ms)."""

    kind: str
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int = 0


EARLIEST = Bound("earliest")
LATEST = Bound("latest")


def read_bound(given: Mapping[str, str], side: str) -> Bound | None:
    """The bound of `side` (starting, ending) among lower-case options; None if no option sets it.

    Precedence is `…Timestamp`, `…OffsetsByTimestamp`, `…Offsets`, as in Spark (`getKafkaOffsetRangeLimit`). Raises
    SourceError.
    """
    time, times, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if time.lower() in given:
        return Bound("time", time_ms=whole_number(time, given[time.lower()]))
    if times.lower() in given:
        return Bound("times", times=numbers_by_partition(times, given[times.lower()]))
    text = given.get(offsets.lower())
    if text is None:
        return None
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    if not text.strip().startswith("{"):
        raise bad_option(offsets, text, 'it is earliest, latest, or JSON such as {"orders":{"0":23,"1":-2}}')
    found = numbers_by_partition(offsets, text)
    if any(number < EARLIEST_OFFSET for number in found.values()):
        raise bad_option(offsets, text, "below 0 there are only -1 (latest) and -2 (earliest)")
    return Bound("offsets", offsets=found)


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
            return re.search(self.pattern, topic) is not None  # as in Spark: SubscribePatternStrategy finds it anywhere
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
        near = closest(name, by_lower, 0.8)
        if near:  # other names are ignored, as by Spark's sources: they may be for another component
            raise SourceError(OPTION, f'there is no option "{name}"', why=f"the closest is {by_lower[near]}")
    return given


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a batch or streaming read. Raises SourceError."""
    given = lowered(options)
    client_settings = kafka_settings(given, REFUSED_CLIENT_SETTINGS)
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
    try:  # Java's clients and librdkafka take SSL://HOST:PORT too
        return parse_addresses(",".join(part.strip().rpartition("://")[2] for part in (kafka or ours).split(",")))
    except ValueError as error:
        name = "kafka.bootstrap.servers" if kafka else "bootstrap"
        raise bad_option(name, kafka or ours, str(error), f'.option("{name}", "localhost:9092")') from None


def kafka_settings(given: Mapping[str, str], refused: Mapping[str, str]) -> dict[str, str]:
    """The settings of Kafka's clients among the options. Raises SourceError for a refused one."""
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


@dataclass(frozen=True)
class JsonOptions:
    """The JSON options. `value_schema` is DDL; None if the columns come from `.schema(…)`."""

    value_schema: str | None
    mode: str
    corrupt_column: str


def json_options(given: Mapping[str, str]) -> JsonOptions | None:
    """Parse lower-case options; None if values stay bytes. Raises SourceError."""
    if one_of(given, "valueFormat", ("binary", "json")) == "binary":
        for name in ("valueSchema", "mode", "columnNameOfCorruptRecord"):
            if name.lower() in given and name != "mode":
                raise SourceError(OPTION, f"option {name} is for JSON", why='valueFormat is not "json"')
        return None
    return JsonOptions(
        given.get("valueschema"),
        one_of(given, "mode", (PERMISSIVE, DROP_MALFORMED, FAIL_FAST)),
        given.get("columnnameofcorruptrecord", "_corrupt_record"),
    )


def nested_schema(options: JsonOptions, include_headers: bool) -> str:
    """The columns as DDL, with the value as a struct; Spark parses it. Raises SourceError if there is no schema."""
    if options.value_schema is None or not options.value_schema.strip():
        raise SourceError(
            SCHEMA,
            "values are JSON and no schema says what is in them",
            why="columns need names and types before a record is read",
            try_=('.option("valueSchema", "cpu double, host string")', '.schema("cpu double, host string")'),
        )
    struct = f"STRUCT<{options.value_schema}\n>"  # a comment at the DDL's end must not hide the bracket
    columns = [
        f"{each.name} {struct if each.name == 'value' else each.dataType.simpleString()}"
        for each in kafka_schema(include_headers).fields
    ]
    return ", ".join(columns)
