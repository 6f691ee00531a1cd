"""Partition reassignments: AlterPartitionReassignments (key 45), ListPartitionReassignments (key 46) (KIP-455).

Raw requests, since librdkafka has no call for them.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from yak.client.metadata import Broker
from yak.client.raw_connection import RawConnection
from yak.errors import Unreachable, YakError
from yak.ids import NodeId, TopicPartition

REQUEST_PARTITIONS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress: the replicas that it adds and removes."""

    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]


def reassign(
    broker: Broker,
    targets: Mapping[TopicPartition, tuple[NodeId, ...]],
    *,
    timeout_s: float,
    keeps_factor: bool = False,
) -> dict[TopicPartition, str]:
    """Begin to move partitions to these replicas, the first of them preferred as leader; return the failed ones, with
    the reason.

    Any broker takes the request; the controller saves a hop. With `keeps_factor` the broker refuses another replication
    factor (KIP-860, Kafka 4.1). Raises Unreachable.
    """
    failed: dict[TopicPartition, str] = {}
    items = list(targets.items())
    for start in range(0, len(items), REQUEST_PARTITIONS_MAX):
        failed |= _reassign_some(broker, dict(items[start : start + REQUEST_PARTITIONS_MAX]), timeout_s, keeps_factor)
    return failed


def _reassign_some(
    broker: Broker, targets: Mapping[TopicPartition, tuple[NodeId, ...]], timeout_s: float, keeps_factor: bool
) -> dict[TopicPartition, str]:
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import i32, i32Timedelta

    v: Any = import_module(f"kio.schema.alter_partition_reassignments.v{int(keeps_factor)}.request")
    by_topic: dict[str, list[Any]] = {}
    for partition, replicas in targets.items():
        wanted = v.ReassignablePartition(
            partition_index=i32(partition.partition), replicas=tuple(BrokerId(node) for node in replicas)
        )
        by_topic.setdefault(partition.topic, []).append(wanted)
    request = v.AlterPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(dt.timedelta(seconds=timeout_s)),
        **({"allow_replication_factor_change": False} if keeps_factor else {}),
        topics=tuple(v.ReassignableTopic(name=TopicName(name), partitions=tuple(of)) for name, of in by_topic.items()),
    )
    answer = _ask(broker, request, timeout_s)
    if int(answer.error_code):
        reason = answer.error_message or answer.error_code.name
        return dict.fromkeys(targets, reason)
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): each.error_message or each.error_code.name
        for topic in answer.responses
        for each in topic.partitions
        if int(each.error_code)
    }


def list_reassignments(broker: Broker, *, timeout_s: float) -> dict[TopicPartition, Reassignment]:
    """All reassignments in progress. Raises Unreachable, YakError (`not-authorized`, `kafka-error`)."""
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
    from kio.static.primitive import i32Timedelta

    timeout = i32Timedelta.parse(dt.timedelta(seconds=timeout_s))
    answer = _ask(broker, ListPartitionReassignmentsRequest(timeout=timeout, topics=None), timeout_s)
    if int(answer.error_code):
        slug = "not-authorized" if "authorization" in answer.error_code.name else "kafka-error"
        why = answer.error_message or answer.error_code.name
        raise YakError(slug, "the partition reassignments could not be read", why=why, try_=(f"yak help {slug}",))
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): Reassignment(
            tuple(map(int, each.adding_replicas)), tuple(map(int, each.removing_replicas))
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def _ask(broker: Broker, request: Any, timeout_s: float) -> Any:
    try:
        with RawConnection(broker.address, timeout_s=timeout_s) as connection:
            return connection.call(request)
    except OSError as error:
        raise Unreachable(
            "unreachable", f"broker {broker.node_id} at {broker.address} did not answer", why=str(error)
        ) from None
