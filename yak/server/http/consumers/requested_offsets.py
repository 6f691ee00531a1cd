"""Bodies that name topics, partitions, offsets and times; the last entry for a partition counts (as in Java's maps)."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

from yak.errors import PeerError
from yak.groups.consumer import regexes
from yak.ids import TopicPartition
from yak.protocol.topic_names import is_valid_topic_name
from yak.server.http.bodies import INT64_MAX, kind_of
from yak.server.http.consumers.failures import illegal_state, refusal, unprocessable
from yak.server.http.consumers.settings import whole

TOPICS_MAX: Final = 1_000
PATTERN_LENGTH_MAX: Final = regexes.LENGTH_MAX
PARTITIONS_MAX: Final = 10_000
PARTITION_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = INT64_MAX - 1
"""A commit writes the next offset."""
METADATA_LENGTH_MAX: Final = 4_096
"""Kafka's `offset.metadata.max.bytes`."""
PARTITIONS_HINT: Final = 'send {"partitions": [{"topic": "t", "partition": 0}]}'
OFFSETS_HINT: Final = 'send {"offsets": [{"topic": "t", "partition": 0, "offset": 20}]}'
SUBSCRIPTION_HINT: Final = 'send {"topics": ["t"]} or {"topic_pattern": "t-.*"}'
POSITIONS_HINT: Final = (
    OFFSETS_HINT + ', or {"timestamps": [{"topic": "t", "partition": 0, "timestamp": "2026-01-31T12:00:00Z"}]}'
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


class Subscription(NamedTuple):
    """Topics by name, or a pattern of names."""

    topics: tuple[str, ...]
    pattern: str | None


class Mark(NamedTuple):
    """An offset and the client's metadata for it."""

    offset: int
    metadata: str


class Positions(NamedTuple):
    """Where to continue: at offsets, or at the first record of a time (ms since 1970)."""

    offsets: dict[TopicPartition, int]
    times_ms: dict[TopicPartition, int]


def subscription_of(body: Any) -> Subscription:
    """`{"topics": [...]}` or `{"topic_pattern": "..."}`. Raises Problem 422; 40903 for both at once."""
    fields = _object(body, ("topics", "topic_pattern"), SUBSCRIPTION_HINT)
    topics, pattern = fields.get("topics"), fields.get("topic_pattern")
    if topics is not None and pattern is not None:
        raise illegal_state("topics and topic_pattern exclude each other", SUBSCRIPTION_HINT)
    if pattern is not None:
        if not isinstance(pattern, str) or not 1 <= len(pattern) <= PATTERN_LENGTH_MAX:
            raise unprocessable(
                f"topic_pattern must be a string of 1 to {PATTERN_LENGTH_MAX} characters", SUBSCRIPTION_HINT
            )
        try:
            regexes.compiled(pattern)
        except PeerError as error:
            raise unprocessable(str(error).partition("` ")[2] or str(error), "expressions are RE2's") from None
        return Subscription((), pattern)
    if topics is None:
        raise unprocessable("topics is missing", SUBSCRIPTION_HINT)
    names = _list(topics, "topics", TOPICS_MAX, SUBSCRIPTION_HINT)
    return Subscription(tuple(dict.fromkeys(_topic(name, SUBSCRIPTION_HINT) for name in names)), None)


def partitions_of(body: Any) -> list[TopicPartition]:
    """`{"partitions": [{"topic", "partition"}]}`. Raises Problem 422."""
    fields = _object(body, ("partitions",), PARTITIONS_HINT)
    if fields.get("partitions") is None:
        raise unprocessable("partitions is missing", PARTITIONS_HINT)
    return list(_by_partition(fields["partitions"], "partitions", (), PARTITIONS_HINT, lambda _item: None))


def offsets_of(body: Any) -> dict[TopicPartition, Mark] | None:
    """`{"offsets": [{"topic", "partition", "offset", "metadata"}]}`; None for all positions. Raises Problem 422."""
    if body is None:
        return None
    fields = _object(body, ("offsets",), OFFSETS_HINT)
    if fields.get("offsets") is None:
        return None
    return _by_partition(
        fields["offsets"],
        "offsets",
        ("offset", "metadata"),
        OFFSETS_HINT,
        lambda item: Mark(_offset(item, OFFSETS_HINT), _metadata(item, OFFSETS_HINT)),
    )


def positions_of(body: Any) -> Positions:
    """`{"offsets": [...], "timestamps": [...]}`, at least one of them. Raises Problem 422."""
    fields = _object(body, ("offsets", "timestamps"), POSITIONS_HINT)
    offsets, times = fields.get("offsets"), fields.get("timestamps")
    if offsets is None and times is None:
        raise unprocessable("offsets is missing", POSITIONS_HINT)
    return Positions(
        {} if offsets is None else _by_partition(offsets, "offsets", ("offset", "metadata"), POSITIONS_HINT, _sought),
        {} if times is None else _by_partition(times, "timestamps", ("timestamp", "metadata"), POSITIONS_HINT, _time),
    )


def require_known(wanted: Iterable[TopicPartition], partitions_in: Callable[[str], int | None]) -> None:
    """Raises Problem 40401 for a missing topic, 40402 for a partition; `partitions_in` returns a topic's count."""
    for topic, partition in wanted:
        count = partitions_in(topic)
        if count is None:
            raise refusal(404, 40401, "unknown-topic", f"topic {topic} does not exist", "GET /topics lists all topics")
        if partition >= count:
            raise refusal(
                404,
                40402,
                "unknown-partition",
                f"{topic} has no partition {partition}",
                f"it has partitions 0 to {count - 1}",
            )


def _sought(item: Mapping[str, Any]) -> int:
    _metadata(item, POSITIONS_HINT)  # checked but unused, like in the proxy: a Kafka position has no metadata
    return _offset(item, POSITIONS_HINT)


def _time(item: Mapping[str, Any]) -> int:
    _metadata(item, POSITIONS_HINT)
    value = item.get("timestamp")
    try:
        if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\S{1,64}", value, re.ASCII):
            raise ValueError
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise unprocessable(
            "timestamp must be a time in ISO 8601, such as 2026-01-31T12:00:00Z", POSITIONS_HINT
        ) from None
    if moment.tzinfo is None:
        raise unprocessable("timestamp has no time zone", "end it with Z for UTC, or with +01:00")
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def _object(value: Any, known: tuple[str, ...], hint: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise unprocessable(f"{kind_of(value)} is not an object", hint)
    for field in value:
        if field not in known:
            raise unprocessable(f"unknown field {field[:64]!r}", hint)
    return value


def _list(value: Any, name: str, length_max: int, hint: str) -> list[Any]:
    if not isinstance(value, list):
        raise unprocessable(f"{name} is {kind_of(value)}, not a list", hint)
    if len(value) > length_max:
        raise unprocessable(f"{name} has {len(value)} elements, over {length_max}", "send fewer at once")
    return value


def _by_partition(
    value: Any, name: str, more: tuple[str, ...], hint: str, read: Callable[[Mapping[str, Any]], _T]
) -> dict[TopicPartition, _T]:
    found: dict[TopicPartition, _T] = {}
    for each in _list(value, name, PARTITIONS_MAX, hint):
        item = _object(each, ("topic", "partition", *more), hint)
        partition = whole(item.get("partition"))
        if partition is None or not 0 <= partition <= PARTITION_MAX:
            raise unprocessable("partition must be a whole number from 0", hint)
        found[TopicPartition(_topic(item.get("topic"), hint), partition)] = read(item)
    return found


def _topic(value: Any, hint: str) -> str:
    if not isinstance(value, str) or not is_valid_topic_name(value):
        raise unprocessable(f"{str(value)[:64]!r} is not a topic name", hint)
    return value


def _offset(item: Mapping[str, Any], hint: str) -> int:
    offset = whole(item.get("offset"))
    if offset is None or not 0 <= offset <= OFFSET_MAX:
        raise unprocessable("offset must be a whole number from 0", hint)
    return offset


def _metadata(item: Mapping[str, Any], hint: str) -> str:
    value = item.get("metadata")
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > METADATA_LENGTH_MAX or "\0" in value:
        raise unprocessable(f"metadata must be a text of at most {METADATA_LENGTH_MAX} characters", hint)
    return value
