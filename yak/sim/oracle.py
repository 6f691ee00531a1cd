"""kio as the oracle of the hand-placed answers: while `kio_encodes` holds, Produce and Fetch answers are kio's own.

A run must have the same trace either way, byte for byte.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_writer

from yak.broker.apis import fetch, produce
from yak.errors import ErrorCode
from yak.protocol.hot import FetchPartitionAnswer, ProducePartitionAnswer
from yak.seams.disk import Buffer
from yak.sim.wire import nested


@contextlib.contextmanager
def kio_encodes() -> Iterator[None]:
    """Replace the hand-placed encoders of both hot answers."""
    replaced: list[tuple[Any, str, Any]] = [
        (produce, "produce_response", _produce_response),
        (fetch, "fetch_response", _fetch_response),
    ]
    by_hand = [getattr(module, name) for module, name, _ in replaced]
    for module, name, encoder in replaced:
        setattr(module, name, encoder)
    try:
        yield
    finally:
        for (module, name, _), encoder in zip(replaced, by_hand, strict=True):
            setattr(module, name, encoder)


def _produce_response(
    version: int, correlation_id: int, topics: Sequence[tuple[Any, Sequence[ProducePartitionAnswer]]]
) -> list[Buffer]:
    cls: Any = load_response_schema(0, version)
    topic_class = nested(cls, "responses")
    partition_class = nested(topic_class, "partition_responses")
    answers = []
    for key, partitions in topics:
        rows = []
        for row in partitions:
            time_ms = row.log_append_time_ms
            fields: dict[str, Any] = {
                "index": row.index,
                "error_code": ErrorCode(row.error_code),
                "base_offset": row.base_offset,
                "log_append_time": None if time_ms < 0 else dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC),
                "log_start_offset": row.log_start_offset,
                "record_errors": (),
                "error_message": row.error_message,
            }
            rows.append(partition_class(**_known(partition_class, fields)))
        name = {"topic_id" if version >= 13 else "name": key}
        answers.append(topic_class(**name, partition_responses=tuple(rows)))
    return _framed(cls(responses=tuple(answers)), correlation_id)


def _fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[FetchPartitionAnswer]]],
) -> list[Buffer]:
    cls: Any = load_response_schema(1, version)
    topic_class = nested(cls, "responses")
    partition_class = nested(topic_class, "partitions")
    answers = []
    for key, partitions in topics:
        rows = []
        for row in partitions:
            fields: dict[str, Any] = {
                "partition_index": row.index,
                "error_code": ErrorCode(row.error_code),
                "high_watermark": row.high_watermark,
                "last_stable_offset": row.last_stable_offset,
                "log_start_offset": row.log_start_offset,
                "aborted_transactions": None,
                "preferred_read_replica": row.preferred_read_replica,
                "records": bytes(row.records),
            }
            if row.diverging_epoch is not None:
                diverging = nested(partition_class, "diverging_epoch")
                fields["diverging_epoch"] = diverging(
                    epoch=row.diverging_epoch.epoch, end_offset=row.diverging_epoch.end_offset
                )
            rows.append(partition_class(**_known(partition_class, fields)))
        name = {"topic_id" if version >= 13 else "topic": key}
        answers.append(topic_class(**name, partitions=tuple(rows)))
    fields = {
        "throttle_time": dt.timedelta(milliseconds=throttle_ms),
        "error_code": ErrorCode(error_code),
        "session_id": session_id,
        "responses": tuple(answers),
    }
    return _framed(cls(**_known(cls, fields)), correlation_id)


def _known(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in cls.__dataclass_fields__}


def _framed(body: Any, correlation_id: int) -> list[Buffer]:
    out = io.BytesIO()
    entity_writer(type(body))(out, body)
    header = struct.pack(">i", correlation_id) + (b"\0" if type(body).__flexible__ else b"")
    return [struct.pack(">i", len(header) + out.tell()) + header + out.getvalue()]
