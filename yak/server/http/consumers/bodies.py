"""Bodies of the consumer group routes: their OpenAPI schemas, which check them, and what handlers read from them.

Names and values are those of kafka-rest (CreateConsumerInstanceRequest.java). Its clients may send numbers and booleans
as strings; null counts as absent; `id` takes precedence over `name`. The last entry for a partition counts (as in Java's
maps).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from starlette.requests import Request

from yak.cluster.image import Image
from yak.errors import PeerError
from yak.groups.consumer import regexes
from yak.ids import TopicPartition
from yak.server.http.bodies import INT64_MAX, fault_of, fault_text, field_of
from yak.server.http.consumers.failures import bad_config, illegal_state, refusal, unprocessable
from yak.server.http.context import HttpLimits
from yak.server.http.route import Body, Schema
from yak.server.http.schemas import PARTITION, TEXT, closed, given, listing

V2: Final = "application/vnd.kafka.v2+json"
JSON: Final = "application/json"
FORMATS: Final = ("binary", "json")
_FORMATS_WITH_A_SCHEMA: Final = ("avro", "jsonschema", "protobuf")
_CURLS_OWN: Final = "application/x-www-form-urlencoded"
"""curl's default content type of a body."""
_HINT: Final = f"send Accept: {V2}, or no Accept header"


def embedded(data_format: str) -> str:
    """The content type of records in a format."""
    return f"application/vnd.kafka.{data_format}.v2+json"


V2_TYPES: Final = (V2, JSON, *map(embedded, FORMATS))
_WITH_A_SCHEMA: Final = tuple(map(embedded, _FORMATS_WITH_A_SCHEMA))
ANSWER_TYPES: Final = (*V2_TYPES, *_WITH_A_SCHEMA)
"""The types of an error, or of an answer without records, if the client accepts them."""


def answer_type(request: Request) -> str:
    """The content type of an answer without records. Raises Problem 406."""
    return _best(request, ANSWER_TYPES)


def records_type(request: Request, data_format: str) -> str:
    """The content type of an answer with records of this format. Raises Problem 406; 40601 for another format."""
    ours = embedded(data_format)
    others = [embedded(each) for each in (*FORMATS, *_FORMATS_WITH_A_SCHEMA) if each != data_format]
    found = _best(request, (ours, V2, JSON, *others))
    if found in others:
        raise refusal(
            406,
            40601,
            "wrong-format",
            f"this instance returns records as {data_format}, the Accept header names another format",
            f"send Accept: {ours}, or create an instance of the other format",
        )
    return found


def check_body_type(request: Request) -> None:
    """Raises Problem 415 for a body whose Content-Type is not JSON."""
    given = request.headers.get("content-type")
    if given is None:
        return
    name = given.partition(";")[0].strip().lower()
    if name not in (*ANSWER_TYPES, _CURLS_OWN, "application/octet-stream"):
        raise refusal(
            415,
            415,
            "wrong-content-type",
            f"content type {name[:64]!r} is not supported",
            f"send JSON with Content-Type: {V2}",
        )


def _best(request: Request, offered: Sequence[str]) -> str:
    """The offered type that the Accept headers prefer; the first of equal ones. Raises Problem 406."""
    ranges: dict[str, float] = {}
    for part in ",".join(request.headers.getlist("accept")).split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        kind, _, subkind = name.partition("/")
        if kind and subkind:
            ranges.setdefault(name, _quality(parameters))

    def quality(media_type: str) -> float:
        """That of the most specific range."""
        names = (media_type, media_type.partition("/")[0] + "/*", "*/*")
        return next((ranges[name] for name in names if name in ranges), 0.0)

    best = max(offered, key=quality) if ranges else offered[0]
    if ranges and not quality(best):
        raise refusal(406, 406, "not-acceptable", "this route supports no type of the Accept header", _HINT)
    return best


def _quality(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return 0.0
            return quality if 0.0 <= quality <= 1.0 else 0.0
    return 1.0


DataFormat: TypeAlias = Literal["binary", "json"]
NAME_LENGTH_MAX: Final = 255
MIN_BYTES_MAX: Final = 10_000_000
TOPICS_MAX: Final = 1_000
PARTITIONS_MAX: Final = 10_000
METADATA_LENGTH_MAX: Final = 4_096
"""Kafka's `offset.metadata.max.bytes`."""
NAME_PATTERN: Final = r"^[^\x00-\x1f\x7f/]+$"
"""Of groups and instances: characters allowed in a path."""
_NUMERAL_PATTERN: Final = "^(-1|[0-9]{1,7})$"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")

# ------------------------------------------------------------------------------------------------------ schemas

NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": NAME_LENGTH_MAX,
    "pattern": NAME_PATTERN,
    "not": {"enum": [".", ".."]},
}
_TOPIC: Final[Schema] = {**NAME, "maxLength": 249, "pattern": "^[a-zA-Z0-9._-]+$"}
_OFFSET: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": INT64_MAX - 1}
"""A commit writes the next offset."""
_METADATA: Final[Schema] = {"type": ["string", "null"], "maxLength": METADATA_LENGTH_MAX, "pattern": r"^[^\x00]*$"}


def _list(items: Schema, count_max: int, *, or_null: bool = False) -> dict[str, Any]:
    return {"type": ["array", "null"] if or_null else "array", "items": items, "maxItems": count_max}


def _number(least: int, most: int) -> Schema:
    """A number, or a string with one; the value of a string is checked in code, which a schema cannot do."""
    return {"type": ["integer", "string", "null"], "minimum": least, "maximum": most, "pattern": _NUMERAL_PATTERN}


_PLACE: Final = {"topic": _TOPIC, "partition": PARTITION}
_MARKS: Final = _list(
    closed({**_PLACE, "offset": _OFFSET, "metadata": _METADATA}, *_PLACE, "offset"), PARTITIONS_MAX, or_null=True
)
_MOMENT: Final = {**_PLACE, "timestamp": {"type": "string", "format": "date-time"}, "metadata": _METADATA}
_MOMENTS: Final = _list(closed(_MOMENT, *_PLACE, "timestamp"), PARTITIONS_MAX, or_null=True)
PARTITIONS: Final = closed({"partitions": _list(closed(_PLACE, *_PLACE), PARTITIONS_MAX)}, "partitions")
TOPICS: Final = closed({"topics": _list(TEXT, PARTITIONS_MAX)}, "topics")
_COMMITTED: Final = {**_PLACE, "offset": _OFFSET, "metadata": TEXT}
COMMITTED: Final = closed({"offsets": _list(closed(_COMMITTED, *_COMMITTED), PARTITIONS_MAX)}, "offsets")
CREATED: Final = closed({"instance_id": TEXT, "base_uri": TEXT}, "instance_id", "base_uri")
_RECORD: Final = {"topic": _TOPIC, "key": {}, "value": {}, "partition": PARTITION, "offset": _OFFSET}
RECORDS: Final = listing(closed(_RECORD, *_RECORD))
NOTHING: Final[Schema] = {"type": "array", "maxItems": 0}

_NUMBERS: Final = {
    "fetch.min.bytes": _number(-1, MIN_BYTES_MAX),
    "consumer.request.timeout.ms": _number(1, HttpLimits().consumer_wait_ms_max),
}
SETTINGS_BODY: Final = Body(
    closed(
        {
            "id": {**NAME, "type": ["string", "null"]},
            "name": {**NAME, "type": ["string", "null"]},
            "format": {"enum": ["binary", "json", "BINARY", "JSON", None]},
            "auto.offset.reset": {"enum": ["latest", "earliest", "none", None]},
            "auto.commit.enable": {"enum": [True, False, "true", "false", None]},
            "isolation.level": {"enum": ["read_uncommitted", "read_committed", None]},
            **_NUMBERS,
            # old names of these two
            "responseMinBytes": _NUMBERS["fetch.min.bytes"],
            "requestWaitMs": _NUMBERS["consumer.request.timeout.ms"],
        }
    ),
    {"name": "me", "format": "json", "auto.offset.reset": "earliest"},
    media_type=V2,
    required=False,
)
SUBSCRIPTION_BODY: Final = Body(
    {
        **closed(
            {
                "topics": _list(_TOPIC, TOPICS_MAX, or_null=True),
                "topic_pattern": {"type": ["string", "null"], "minLength": 1, "maxLength": regexes.LENGTH_MAX},
            }
        ),
        "oneOf": given("topics", "topic_pattern"),
    },
    {"topics": ["orders"]},
    media_type=V2,
)
PARTITIONS_BODY: Final = Body(PARTITIONS, {"partitions": [{"topic": "orders", "partition": 0}]}, media_type=V2)
COMMITTED_BODY: Final = Body(PARTITIONS, PARTITIONS_BODY.example, media_type=V2, required=False)
COMMIT_BODY: Final = Body(
    closed({"offsets": _MARKS}),
    {"offsets": [{"topic": "orders", "partition": 0, "offset": 20}]},
    media_type=V2,
    required=False,
)
POSITIONS_BODY: Final = Body(
    {**closed({"offsets": _MARKS, "timestamps": _MOMENTS}), "anyOf": given("offsets", "timestamps")},
    COMMIT_BODY.example,
    media_type=V2,
)

# ------------------------------------------------------------------------------------------------------ settings


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one instance."""

    name: str | None = None
    data_format: DataFormat = "binary"
    offset_reset: str = "latest"
    auto_commit: bool = True
    isolation: str = "read_uncommitted"
    min_bytes: int | None = None
    """A read answers once it has this many bytes; None: when nothing more arrives at once."""
    wait_ms: int | None = None
    """The longest wait of a read; None: the read's own `timeout`."""


def settings_of(body: Any, wait_ms_max: int) -> Settings:
    """The settings in a body. Raises Problem 422; with the proxy's 42204 for a value that no instance can have."""
    if body is None:
        return Settings()
    fault = fault_of(body, SETTINGS_BODY.schema)
    if fault is not None:
        field = field_of(fault) or "format"
        is_other_type = field in ("id", "name") and not isinstance(body[field], str)
        problem = unprocessable if field == "format" or is_other_type else bad_config
        raise problem(fault_text(fault), hint_of(SETTINGS_BODY))
    name = body.get("name") if body.get("id") is None else body["id"]
    min_bytes = _whole(body, "fetch.min.bytes", "responseMinBytes", MIN_BYTES_MAX)
    return Settings(
        name=name,
        data_format="json" if body.get("format") in ("json", "JSON") else "binary",
        offset_reset=body.get("auto.offset.reset") or "latest",
        auto_commit=body.get("auto.commit.enable") in (None, True, "true"),
        isolation=body.get("isolation.level") or "read_uncommitted",
        min_bytes=None if min_bytes == -1 else min_bytes,
        wait_ms=_whole(body, "consumer.request.timeout.ms", "requestWaitMs", wait_ms_max),
    )


def _whole(body: Mapping[str, Any], field: str, old_name: str, most: int) -> int | None:
    value = body.get(old_name) if body.get(field) is None else body[field]
    if value is None:
        return None
    least = -1 if field == "fetch.min.bytes" else 1
    if not least <= int(value) <= most:
        raise bad_config(f"{field} is {value}", f"it is a whole number from {least} to {most}")
    return int(value)


def check_group(group: str) -> None:
    """Raises Problem 422 for an invalid group name."""
    if not re.fullmatch(NAME_PATTERN, group) or len(group) > NAME_LENGTH_MAX or group in (".", ".."):
        raise bad_config(
            f"the group is {group[:64]!r}",
            f"a name has 1 to {NAME_LENGTH_MAX} characters without / and control characters, and is not . or ..",
        )


# ---------------------------------------------------------------------------- topics, partitions, offsets, times


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


def hint_of(body: Body) -> str:
    """What to send instead of an invalid body."""
    return f"send {json.dumps(body.example)}"


def _fields(value: Any, body: Body) -> Mapping[str, Any]:
    fault = fault_of(value, body.schema)
    if fault is not None:
        raise unprocessable(fault_text(fault), hint_of(body))
    found: Mapping[str, Any] = value
    return found


def subscription_of(body: Any) -> Subscription:
    """`{"topics": [...]}` or `{"topic_pattern": "..."}`. Raises Problem 422; 40903 for both at once."""
    if isinstance(body, dict) and body.get("topics") is not None and body.get("topic_pattern") is not None:
        raise illegal_state("topics and topic_pattern exclude each other", hint_of(SUBSCRIPTION_BODY))
    fields = _fields(body, SUBSCRIPTION_BODY)
    pattern = fields.get("topic_pattern")
    if pattern is None:
        return Subscription(tuple(dict.fromkeys(fields["topics"])), None)
    try:
        regexes.compiled(pattern)
    except PeerError as error:
        raise unprocessable(str(error).partition("` ")[2] or str(error), "expressions are RE2's") from None
    return Subscription((), pattern)


def partitions_of(body: Any) -> list[TopicPartition]:
    """`{"partitions": [{"topic", "partition"}]}`. Raises Problem 422."""
    return list(_by_partition(_fields(body, PARTITIONS_BODY)["partitions"], lambda _item: None))


def offsets_of(body: Any) -> dict[TopicPartition, Mark] | None:
    """`{"offsets": [{"topic", "partition", "offset", "metadata"}]}`; None for all positions. Raises Problem 422."""
    offsets = None if body is None else _fields(body, COMMIT_BODY).get("offsets")
    if offsets is None:
        return None
    return _by_partition(offsets, lambda item: Mark(int(item["offset"]), item.get("metadata") or ""))


def positions_of(body: Any) -> Positions:
    """`{"offsets": [...], "timestamps": [...]}`, at least one of them; a position has no metadata. Raises Problem 422."""
    fields = _fields(body, POSITIONS_BODY)
    return Positions(
        _by_partition(fields.get("offsets") or (), lambda item: int(item["offset"])),
        _by_partition(fields.get("timestamps") or (), lambda item: _time_ms(item["timestamp"])),
    )


def _by_partition(
    items: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], _T]
) -> dict[TopicPartition, _T]:
    return {TopicPartition(item["topic"], int(item["partition"])): read(item) for item in items}


def _time_ms(value: str) -> int:
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\S{1,64}", value, re.ASCII):
            raise ValueError
        moment = datetime.fromisoformat(value)
    except ValueError:
        hint = "send a time in ISO 8601, such as 2026-01-31T12:00:00Z"
        raise unprocessable(f"timestamp is {value[:64]!r}", hint) from None
    if moment.tzinfo is None:
        raise unprocessable("timestamp has no time zone", "end it with Z for UTC, or with +01:00")
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def require_known(wanted: Iterable[TopicPartition], image: Image) -> None:
    """Raises Problem 40401 for a missing topic, 40402 for a partition."""
    for topic, partition in wanted:
        info = image.topics.get(topic)
        if info is None:
            raise refusal(404, 40401, "unknown-topic", f"topic {topic} does not exist", "GET /topics lists all topics")
        count = len(info.partitions)
        if partition >= count:
            message = f"{topic} has no partition {partition}"
            raise refusal(404, 40402, "unknown-partition", message, f"it has partitions 0 to {count - 1}")
