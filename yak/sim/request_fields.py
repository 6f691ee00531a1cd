"""Plain values for the most frequent requests of simulated clients, and kio's structures from them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from yak.sim.wire import nested


def create_fields(name: str, configs: dict[str, str], partitions: int = 1) -> dict[str, Any]:
    """CreateTopics v5 for one topic."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    return {"topics": [topic], "timeout": dt.timedelta(seconds=5), "validate_only": False}


def produce_fields(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    """Produce v9 for one partition."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": dt.timedelta(seconds=1),
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def fetch_fields(
    topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, max_bytes: int = 1 << 20, min_bytes: int = 1
) -> dict[str, Any]:
    """Fetch v12 for one partition, outside of sessions."""
    return {
        "max_wait": dt.timedelta(milliseconds=max_wait_ms),
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": partition,
                        "current_leader_epoch": -1,
                        "fetch_offset": offset,
                        "last_fetched_epoch": -1,
                        "log_start_offset": -1,
                        "partition_max_bytes": max_bytes,
                    }
                ],
            }
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def build(cls: Any, fields: dict[str, Any]) -> Any:
    """A kio structure from plain values."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            values[name] = build(nested(cls, name), value)
        elif isinstance(value, (list, tuple)):
            values[name] = tuple(build(nested(cls, name), item) if isinstance(item, dict) else item for item in value)
        else:
            values[name] = value
    return cls(**values)
