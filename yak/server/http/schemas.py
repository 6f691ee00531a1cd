"""Parts of JSON schemas that several routes share."""

from collections.abc import Mapping
from typing import Any, Final

from yak.protocol.record_fields import INT32_MAX
from yak.server.http.route import Parameter, Schema
from yak.view.partition_state import PartitionState, StateCounts

NODE_ID: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
NUMBER: Final[Schema] = {"type": "integer"}
OFFSET: Final[Schema] = {"type": "integer", "minimum": 0}
OFFSET_OR_NULL: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
NODES: Final[Schema] = {"type": "array", "items": NODE_ID}
TEXT: Final[Schema] = {"type": "string"}
NOT_EMPTY: Final[Schema] = {"type": "string", "minLength": 1}
TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
BOOLEAN: Final[Schema] = {"type": "boolean"}
TOPIC_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 249, "pattern": "^[a-zA-Z0-9._-]+$"}
PARTITION: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}


def or_null(schema: Schema) -> Schema:
    """The schema of an optional field: null counts as absent."""
    kinds = {"type": [schema["type"], "null"]} if isinstance(schema.get("type"), str) else {}
    values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, **kinds, **values}


def given(*names: str) -> list[Schema]:
    """One alternative for each field: it is present and not null. For `oneOf` and `anyOf`."""
    return [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names]


def listing(items: Schema) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": items}


def record(fields: Mapping[str, Schema], *, optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these fields, all required but the optional ones."""
    return {"type": "object", "required": list(fields), "properties": {**fields, **(optional or {})}}


def closed(fields: Mapping[str, Schema], *required: str) -> dict[str, Any]:
    """An object with no other fields than these, some of them required."""
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def flag(name: str, summary: str) -> Parameter:
    """A query parameter that is true or false."""
    return Parameter(name, {"type": "boolean", "default": False}, summary)


STATE_COUNTS: Final[Mapping[str, Schema]] = dict.fromkeys(StateCounts._fields, OFFSET)
"""The number of partitions that fulfil each condition."""
ISR_ROW: Final[Mapping[str, Any]] = {
    "topic_id": TEXT,
    "topic": TEXT,
    "partition": PARTITION,
    "leader": {"type": ["integer", "null"]},
    "leader_epoch": NUMBER,
    "partition_epoch": NUMBER,
    "replicas": NODES,
    "isr": NODES,
    "min_isr": OFFSET,
    "state": {"enum": list(PartitionState)},
    "high_watermark": OFFSET_OR_NULL,
    "log_end_offsets": {"type": "object", "additionalProperties": OFFSET_OR_NULL},
}
"""A partition as in `yak isr -o json`, with its topic's id."""
