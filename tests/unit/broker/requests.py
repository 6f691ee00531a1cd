"""Requests to a rig's broker in few words: batches, fetches that wait, offsets by time, deletions, and configs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.cluster_rig import ClusterRig
from tests.rig import Client, Pending, Rig, fetch_fields, produce_fields
from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_walk import walk_records
from yak.sim.wire import nested, record_batch, request_class

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def restart(rig: Rig) -> None:
    """Kill the broker and start it again, and let its coordinators load."""
    rig.restart()
    rig.run_for(100)


def begin_produce(
    rig: Rig, topic: str, *values: bytes, client: Client | None = None, partition: int = 0, acks: int = -1, **batch: int
) -> Pending:
    """Produce v9 of one batch."""
    records = record_batch(values, rig.world.now_ms, **batch)
    return rig.begin(0, 9, client=client, **produce_fields(topic, records, partition=partition, acks=acks))


def produced(pending: Pending) -> Any:
    """The answer of the first partition."""
    return pending.answer.responses[0].partition_responses[0]


def begin_fetch(rig: Rig, topic: str, offset: int, *, client: Client | None = None, **fields: Any) -> Pending:
    """Fetch v12: the fields are those of `fetch_fields`, and the request's own."""
    words = {
        name: fields.pop(name) for name in ("partition", "max_wait_ms", "max_bytes", "min_bytes") if name in fields
    }
    return rig.begin(1, 12, client=client, **fetch_fields(topic, offset, **words) | fields)


def fetched(pending: Pending) -> Any:
    """The answer of the first partition."""
    return pending.answer.responses[0].partitions[0]


def values_of(partition: Any) -> list[bytes | None]:
    """The values of the records in a partition's answer."""
    data = bytes(partition.records or b"")
    batches = [data[place : place + header.size_bytes] for place, header in iterate_headers(data)]
    return [record.value for batch in batches for record in walk_records(batch)]


def _asked(rig: Rig | ClusterRig, node_id: int | None) -> Callable[..., Any]:
    """The rig's `ask`; in a cluster this broker is asked, or any that is alive."""
    return rig.ask if isinstance(rig, Rig) else partial(rig.ask, node_id or rig.alive().node_id)


def list_offset(
    rig: Rig | ClusterRig,
    timestamp: int = -1,
    *,
    topic: str = "orders",
    partition: int = 0,
    node_id: int | None = None,
    version: int = 7,
    **fields: Any,
) -> Any:
    """ListOffsets of one partition: its answer."""
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}]
    return _asked(rig, node_id)(2, version, topics=topics, **fields).topics[0].partitions[0]


def delete_topic(rig: Rig | ClusterRig, name: str, *, node_id: int | None = None) -> None:
    """DeleteTopics of one topic, which succeeds."""
    (answer,) = _asked(rig, node_id)(20, 5, topic_names=[name]).responses
    assert answer.error_code == 0, answer


def delete_records(
    rig: Rig | ClusterRig, topic: str, offset: int, *, partition: int = 0, node_id: int | None = None
) -> Any:
    """DeleteRecords of one partition: its answer."""
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
    return _asked(rig, node_id)(21, 2, topics=topics).topics[0].partitions[0]


def alter(
    rig: Rig | ClusterRig,
    kind: int,
    name: str,
    configs: dict[str, str | None],
    operation: int | None = None,
    *,
    node_id: int | None = None,
    validate_only: bool = False,
) -> Any:
    """IncrementalAlterConfigs of one resource: its answer. Without an operation a value is set, and None deletes."""
    changes = [
        {
            "name": key,
            "config_operation": (SET if value else DELETE) if operation is None else operation,
            "value": value,
        }
        for key, value in configs.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": changes}
    return _asked(rig, node_id)(44, 1, resources=[resource], validate_only=validate_only).responses[0]


def describe(
    rig: Rig | ClusterRig,
    kind: int,
    name: str,
    names: list[str] | None = None,
    *,
    node_id: int | None = None,
    version: int = 4,
) -> Any:
    """DescribeConfigs of one resource: its answer, with synonyms and documentation."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": names}
    more = {"include_documentation": True} if version >= 3 else {}
    return _asked(rig, node_id)(32, version, resources=[resource], include_synonyms=True, **more).results[0]


def rows_of(described: Any) -> dict[str, Any]:
    """The configs of a resource by their names."""
    return {row.name: row for row in described.configs}


def fitted(api_key: int, version: int, **fields: Any) -> dict[str, Any]:
    """These fields without those that the version lacks."""
    return _fitted(request_class(api_key, version), fields)


def _fitted(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name in [field.name for field in dataclasses.fields(cls) if field.name in fields]:
        value = fields[name]
        if isinstance(value, list):
            value = [_fitted(nested(cls, name), each) if isinstance(each, dict) else each for each in value]
        found[name] = value
    return found
