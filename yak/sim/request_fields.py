"""Plain values for the most frequent requests of simulated clients, and kio's structures and frames from them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from functools import cache
from typing import Any

from yak.sim.wire import nested, request_class, request_frame

Fields = dict[str, Any]
"""A request's fields by their names in kio; a dict stands for each structure."""


def topic_fields(name: str, configs: dict[str, str], partitions: int = 1, replication_factor: int = 1) -> Fields:
    """One topic of CreateTopics v5."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }


def create_fields(name: str, configs: dict[str, str], partitions: int = 1) -> Fields:
    """CreateTopics v5 for one topic."""
    topic = topic_fields(name, configs, partitions)
    return {"topics": [topic], "timeout": dt.timedelta(seconds=5), "validate_only": False}


def init_producer_id_fields(transactional_id: str | None = None, *, timeout_ms: int = 60_000) -> Fields:
    """InitProducerId v4 of a producer without an id."""
    timeout = dt.timedelta(milliseconds=timeout_ms)
    unknown = {"producer_id": -1, "producer_epoch": -1}
    return {"transactional_id": transactional_id, "transaction_timeout": timeout, **unknown}


def produce_fields(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> Fields:
    """Produce v9 for one partition."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": dt.timedelta(seconds=1),
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def partition_fields(partition: int, offset: int, max_bytes: int) -> Fields:
    """One partition of Fetch v12."""
    return {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": max_bytes,
    }


def fetch_fields(
    topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, max_bytes: int = 1 << 20, min_bytes: int = 1
) -> Fields:
    """Fetch v12 for one partition, outside of sessions."""
    return {
        "max_wait": dt.timedelta(milliseconds=max_wait_ms),
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition_fields(partition, offset, max_bytes)]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def list_offsets_fields(topic: str, partition: int, *, timestamp: int = -2, isolation_level: int = 0) -> Fields:
    """ListOffsets v6 for one partition, by default for its log start."""
    fields = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [fields]}]
    return {"replica_id": -1, "isolation_level": isolation_level, "topics": topics}


def frame_of(api_key: int, version: int, correlation_id: int, fields: Fields, client_id: str = "sim") -> bytes:
    """A whole request without its length prefix."""
    return request_frame(api_key, version, correlation_id, build(request_class(api_key, version), fields), client_id)


_LEFT_OUT = {"string": "", "bool": False, "bytes": b"", "records": b"", "float64": 0.0}
_NOT_USED = {"acks": -1, "replica_id": -1, "producer_id": -1, "producer_epoch": -1}
"""By field: -1 says that the client is no replica and has no producer id, and waits for all replicas in sync."""


@cache
def left_out(cls: Any) -> Fields:
    """The values of a kio class that a client sends which does not use them, for fields without a default."""
    return {
        field.name: _left_out(field)
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }


def _left_out(field: Any) -> Any:
    kind, declared = field.metadata.get("kafka_type"), str(field.type)
    if dataclasses.is_dataclass(field.type):
        return build(field.type, {})
    if declared.startswith("tuple["):
        return None if declared.endswith("| None") else ()
    if "None" in declared:
        return None
    if "Timedelta" in declared:
        return dt.timedelta(seconds=5)
    return _NOT_USED.get(field.name, _LEFT_OUT.get(kind, 0))


def build(cls: Any, fields: Fields) -> Any:
    """A kio structure from plain values; a field that is left out has kio's default or that of `left_out`."""
    values = left_out(cls) | fields
    for name, value in fields.items():
        kind = type(value)
        if kind is dict:
            values[name] = build(nested(cls, name), value)
        elif kind is list or kind is tuple:
            values[name] = tuple([build(nested(cls, name), item) if type(item) is dict else item for item in value])
    return cls(**values)
