"""kio as the oracle of the hand-written encoders for Produce and Fetch responses and the followers' Fetch requests.

While `kio_encodes` is active, kio encodes them. A run must have the same trace either way, byte for byte.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import struct
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_writer

from yak.broker import fetches
from yak.broker.apis import produce
from yak.errors import ErrorCode
from yak.ports.disk import Buffer
from yak.protocol.fetch_answer import AbortedTransaction
from yak.protocol.hot import FetchPartitionAnswer, ProducePartitionAnswer
from yak.protocol.hot_pieces import NodeEndpoint
from yak.protocol.replica_fetch import VERSION, WantedPartition
from yak.replication import replica_fetcher
from yak.sim.wire import nested, request_class, request_frame

FETCH = 1


@contextlib.contextmanager
def kio_encodes() -> Iterator[None]:
    """Replace the hand-written encoders."""
    replaced: list[tuple[Any, str, Any]] = [
        (produce, "produce_response", _produce_response),
        (fetches, "fetch_response", _fetch_response),
        (replica_fetcher, "replica_fetch_request", _replica_fetch_request),
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
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[ProducePartitionAnswer]]],
    node_endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
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
            fields |= _structure(partition_class, "current_leader", row.current_leader)
            rows.append(partition_class(**_known(partition_class, fields)))
        name = {"topic_id" if version >= 13 else "name": key}
        answers.append(topic_class(**name, partition_responses=tuple(rows)))
    fields = {"responses": tuple(answers), "throttle_time": dt.timedelta(milliseconds=throttle_ms)}
    fields |= _endpoints(cls, node_endpoints)
    return _framed(cls(**_known(cls, fields)), correlation_id)


def _fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[FetchPartitionAnswer]]],
    node_endpoints: Sequence[NodeEndpoint] = (),
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
                "aborted_transactions": _aborted(partition_class, row.aborted_transactions),
                "preferred_read_replica": row.preferred_read_replica,
                "records": bytes(row.records),
            }
            fields |= _structure(partition_class, "diverging_epoch", row.diverging_epoch)
            fields |= _structure(partition_class, "current_leader", row.current_leader)
            rows.append(partition_class(**_known(partition_class, fields)))
        name = {"topic_id" if version >= 13 else "topic": uuid.UUID(bytes=key) if type(key) is bytes else key}
        answers.append(topic_class(**name, partitions=tuple(rows)))
    fields = {
        "throttle_time": dt.timedelta(milliseconds=throttle_ms),
        "error_code": ErrorCode(error_code),
        "session_id": session_id,
        "responses": tuple(answers),
    }
    fields |= _endpoints(cls, node_endpoints)
    return _framed(cls(**_known(cls, fields)), correlation_id)


def _aborted(partition_class: Any, transactions: Sequence[AbortedTransaction] | None) -> tuple[Any, ...] | None:
    if transactions is None:
        return None
    cls = nested(partition_class, "aborted_transactions")
    return tuple(cls(producer_id=each.producer_id, first_offset=each.first_offset) for each in transactions)


def _replica_fetch_request(
    correlation_id: int,
    client_id: str,
    *,
    cluster_id: str,
    replica_id: int,
    replica_epoch: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session_id: int,
    session_epoch: int,
    topics: Sequence[tuple[bytes, Sequence[WantedPartition]]],
    forgotten: Sequence[tuple[bytes, Sequence[int]]],
) -> bytes:
    cls = request_class(FETCH, VERSION)
    topic_class = nested(cls, "topics")
    partition_class = nested(topic_class, "partitions")
    forgotten_class = nested(cls, "forgotten_topics_data")
    body = cls(
        cluster_id=cluster_id,
        replica_state=nested(cls, "replica_state")(replica_id=replica_id, replica_epoch=replica_epoch),
        max_wait=dt.timedelta(milliseconds=max_wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=tuple(
            topic_class(
                topic_id=uuid.UUID(bytes=topic_id),
                partitions=tuple(_wanted(partition_class, each) for each in wanted),
            )
            for topic_id, wanted in topics
        ),
        forgotten_topics_data=tuple(
            forgotten_class(topic_id=uuid.UUID(bytes=topic_id), partitions=tuple(indexes))
            for topic_id, indexes in forgotten
        ),
        rack_id="",
    )
    frame = request_frame(FETCH, VERSION, correlation_id, body, client_id)
    return struct.pack(">i", len(frame)) + frame


def _wanted(partition_class: Any, wanted: WantedPartition) -> Any:
    return partition_class(
        partition=wanted.index,
        current_leader_epoch=wanted.current_leader_epoch,
        fetch_offset=wanted.fetch_offset,
        last_fetched_epoch=wanted.last_fetched_epoch,
        log_start_offset=wanted.log_start_offset,
        partition_max_bytes=wanted.max_bytes,
    )


def _structure(cls: Any, name: str, value: Any) -> dict[str, Any]:
    """A tagged structure from a named tuple with the same field names; empty if it is absent or the version has none."""
    if value is None or name not in cls.__dataclass_fields__:
        return {}
    return {name: nested(cls, name)(**value._asdict())}


def _endpoints(cls: Any, node_endpoints: Sequence[NodeEndpoint]) -> dict[str, Any]:
    if not node_endpoints or "node_endpoints" not in cls.__dataclass_fields__:
        return {}
    endpoint_class = nested(cls, "node_endpoints")
    return {"node_endpoints": tuple(endpoint_class(**endpoint._asdict()) for endpoint in node_endpoints)}


def _known(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in cls.__dataclass_fields__}


def _framed(body: Any, correlation_id: int) -> list[Buffer]:
    out = io.BytesIO()
    entity_writer(type(body))(out, body)
    header = struct.pack(">i", correlation_id) + (b"\0" if type(body).__flexible__ else b"")
    return [struct.pack(">i", len(header) + out.tell()) + header + out.getvalue()]
