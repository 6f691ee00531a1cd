"""OpenAPI schemas of the consumer group routes; `settings` and `requested_offsets` enforce the same rules."""

from typing import Any, Final

from yak.server.http.bodies import INT64_MAX
from yak.server.http.consumers.content_types import V2
from yak.server.http.consumers.requested_offsets import (
    METADATA_LENGTH_MAX,
    OFFSET_MAX,
    PARTITION_MAX,
    PARTITIONS_MAX,
    PATTERN_LENGTH_MAX,
    TOPICS_MAX,
)
from yak.server.http.consumers.settings import MIN_BYTES_MAX, NAME_LENGTH_MAX, NAME_PATTERN, NUMERAL_PATTERN
from yak.server.http.route import Body, Parameter, Schema
from yak.server.http.schemas import given

_NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": NAME_LENGTH_MAX,
    "pattern": NAME_PATTERN,
    "not": {"enum": [".", ".."]},
}
_TOPIC: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 249,
    "pattern": "^[a-zA-Z0-9._-]+$",
    "not": {"enum": [".", ".."]},
}
_PARTITION: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": PARTITION_MAX}
_OFFSET: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX}
_METADATA: Final[Schema] = {"type": ["string", "null"], "maxLength": METADATA_LENGTH_MAX, "pattern": r"^[^\x00]*$"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}


def _object(properties: dict[str, Schema], required: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _list(items: Schema, count_max: int, *, or_null: bool = False) -> dict[str, Any]:
    return {"type": ["array", "null"] if or_null else "array", "items": items, "maxItems": count_max}


def _number(least: int, most: int) -> Schema:
    """A number, or a string with one; the value of a string is checked in code, which a schema cannot do."""
    return {"type": ["integer", "string", "null"], "minimum": least, "maximum": most, "pattern": NUMERAL_PATTERN}


_PLACE: Final = _object({"topic": _TOPIC, "partition": _PARTITION}, ("topic", "partition"))
_MARK: Final = _object(
    {"topic": _TOPIC, "partition": _PARTITION, "offset": _OFFSET, "metadata": _METADATA},
    ("topic", "partition", "offset"),
)
_MOMENT: Final = _object(
    {"topic": _TOPIC, "partition": _PARTITION, "timestamp": _TIME, "metadata": _METADATA},
    ("topic", "partition", "timestamp"),
)
PARTITIONS: Final = _object({"partitions": _list(_PLACE, PARTITIONS_MAX)}, ("partitions",))
TOPICS: Final = _object({"topics": _list({"type": "string"}, PARTITIONS_MAX)}, ("topics",))
COMMITTED: Final = _object(
    {
        "offsets": _list(
            _object(
                {"topic": _TOPIC, "partition": _PARTITION, "offset": _OFFSET, "metadata": {"type": "string"}},
                ("topic", "partition", "offset", "metadata"),
            ),
            PARTITIONS_MAX,
        )
    },
    ("offsets",),
)
CREATED: Final = _object(
    {"instance_id": {"type": "string"}, "base_uri": {"type": "string"}}, ("instance_id", "base_uri")
)
RECORDS: Final[Schema] = {
    "type": "array",
    "items": _object(
        {"topic": _TOPIC, "key": {}, "value": {}, "partition": _PARTITION, "offset": _OFFSET},
        ("topic", "key", "value", "partition", "offset"),
    ),
}
NOTHING: Final[Schema] = {"type": "array", "maxItems": 0}

GROUP: Final = Parameter("group", _NAME, "The consumer group", required=True, where="path")
INSTANCE: Final = Parameter("instance", _NAME, "The instance's name, its `instance_id`", required=True, where="path")
_ANY_INT64: Final[Schema] = {"type": "integer", "minimum": -INT64_MAX - 1, "maximum": INT64_MAX}
TIMEOUT: Final = Parameter(
    "timeout", _ANY_INT64, "Longest wait in ms; missing or below 1: `consumer.request.timeout.ms`"
)
MAX_BYTES: Final = Parameter(
    "max_bytes", _ANY_INT64, "Largest size of keys and values in the response; missing or below 1: no limit of its own"
)
ASYNC: Final = Parameter("async", {"enum": ["true", "false"]}, "Whether to answer before the commit is done")


def settings_body(wait_ms_max: int) -> Body:
    """The body of `POST /consumers/{group}`."""
    name: Schema = {**_NAME, "type": ["string", "null"]}
    numbers = {"fetch.min.bytes": _number(-1, MIN_BYTES_MAX), "consumer.request.timeout.ms": _number(1, wait_ms_max)}
    properties = {
        "id": name,
        "name": name,
        "format": {"enum": ["binary", "json", "BINARY", "JSON", None]},
        "auto.offset.reset": {"enum": ["latest", "earliest", "none", None]},
        "auto.commit.enable": {"enum": [True, False, "true", "false", None]},
        "isolation.level": {"enum": ["read_uncommitted", "read_committed", None]},
        **numbers,
        "responseMinBytes": numbers["fetch.min.bytes"],
        "requestWaitMs": numbers["consumer.request.timeout.ms"],
    }
    schema = _object(properties, ())
    example = {"name": "me", "format": "json", "auto.offset.reset": "earliest"}
    return Body(schema, example, media_type=V2, required=False)


SUBSCRIPTION_BODY: Final = Body(
    {
        **_object(
            {
                "topics": _list(_TOPIC, TOPICS_MAX, or_null=True),
                "topic_pattern": {"type": ["string", "null"], "minLength": 1, "maxLength": PATTERN_LENGTH_MAX},
            },
            (),
        ),
        "oneOf": given("topics", "topic_pattern"),
    },
    {"topics": ["orders"]},
    media_type=V2,
)
PARTITIONS_BODY: Final = Body(PARTITIONS, {"partitions": [{"topic": "orders", "partition": 0}]}, media_type=V2)
LOOK_BODY: Final = Body(PARTITIONS, PARTITIONS_BODY.example, media_type=V2, required=False)
COMMIT_BODY: Final = Body(
    _object({"offsets": _list(_MARK, PARTITIONS_MAX, or_null=True)}, ()),
    {"offsets": [{"topic": "orders", "partition": 0, "offset": 20}]},
    media_type=V2,
    required=False,
)
POSITIONS_BODY: Final = Body(
    _object(
        {
            "offsets": _list(_MARK, PARTITIONS_MAX, or_null=True),
            "timestamps": _list(_MOMENT, PARTITIONS_MAX, or_null=True),
        },
        (),
    )
    | {"anyOf": given("offsets", "timestamps")},
    {"offsets": [{"topic": "orders", "partition": 0, "offset": 20}]},
    media_type=V2,
)
