"""Requests of every API that name one of everything: the topic orders, partition 1, and 1 for every other number."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from yak.protocol.schema_fields import SchemaField, schema_fields
from yak.sim.wire import request_class

BETWEEN_BROKERS = {52, 53, 54, 58, 59, 82}
TOPIC_ID = uuid.UUID(int=77)
_VALUES = {
    "string": "orders",
    "bytes": b"x",
    "records": None,
    "bool": False,
    "uuid": TOPIC_ID,
    "float64": 1.0,
    "timedelta_i32": dt.timedelta(seconds=1),
    "timedelta_i64": dt.timedelta(seconds=1),
    "datetime_i64": dt.datetime.fromtimestamp(0, dt.UTC),
}


def sample_request(api_key: int, version: int) -> Any:
    """kio's request."""
    return _sample(request_class(api_key, version))


def _sample(entity: Any) -> Any:
    return entity(**{field.name: _sampled(field) for field in schema_fields(entity)})


def _sampled(field: SchemaField) -> Any:
    value = _VALUES.get(field.kind, 1) if field.struct is None else _sample(field.struct)
    return (value,) if field.is_array else value
