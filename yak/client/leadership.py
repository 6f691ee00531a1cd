"""Moves leaders in order, with two requests; `yak.cluster.leadership_moves` plans the moves.

librdkafka has no call for AlterPartitionReassignments.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yak.client.elections import elect_preferred_leaders
from yak.client.raw_connection import RawConnection
from yak.client.replica_offsets import ClusterReplicas, read_metadata
from yak.cluster.leadership_moves import Move, Plan, plan_moves
from yak.errors import Unreachable
from yak.ids import NodeId, TopicPartition
from yak.view.partition_replicas import NO_LEADER

if TYPE_CHECKING:
    from yak.client.admin import Admin

__all__ = ["Move", "Plan", "carry_out", "plan_moves", "reorder", "wait_until_led"]

POLL_SECONDS: Final = 0.01
REQUEST_PARTITIONS_MAX: Final = 1000


def carry_out(admin: "Admin", moves: Sequence[Move], *, timeout_s: float) -> dict[TopicPartition, str]:
    """Move leaders and wait until the new leaders lead; return the failed ones, with the reason.

    Raises YakError when a request as a whole fails.
    """
    failed = reorder(admin.servers, {each.partition: each.order for each in moves if each.order}, timeout_s=timeout_s)
    wanted = [each for each in moves if each.partition not in failed]
    if not wanted:
        return failed
    keys = [each.partition for each in wanted]
    for partition, reason in elect_preferred_leaders(admin.metadata(), keys, timeout_s=timeout_s).items():
        if reason is not None:
            failed[partition] = reason
    return failed | wait_until_led(
        admin.servers, {each.partition: each.to for each in wanted if each.partition not in failed}, timeout_s=timeout_s
    )


def reorder(
    servers: str, orders: Mapping[TopicPartition, tuple[NodeId, ...]], *, timeout_s: float
) -> dict[TopicPartition, str]:
    """Reorder the replicas of partitions; return the failed ones, with the reason. Raises Unreachable."""
    if not orders:
        return {}
    found = read_metadata(servers, timeout_s=timeout_s)
    failed: dict[TopicPartition, str] = {}
    items = list(orders.items())
    for start in range(0, len(items), REQUEST_PARTITIONS_MAX):
        failed |= _reorder_some(found, dict(items[start : start + REQUEST_PARTITIONS_MAX]), timeout_s)
    return failed


def _reorder_some(
    found: ClusterReplicas, orders: Mapping[TopicPartition, tuple[NodeId, ...]], timeout_s: float
) -> dict[TopicPartition, str]:
    import datetime as dt

    from kio.schema.alter_partition_reassignments.v0.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import i32, i32Timedelta

    by_topic: dict[str, list[ReassignablePartition]] = {}
    for partition, order in orders.items():
        wanted = ReassignablePartition(
            partition_index=i32(partition.partition), replicas=tuple(BrokerId(node) for node in order)
        )
        by_topic.setdefault(partition.topic, []).append(wanted)
    request = AlterPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(dt.timedelta(seconds=timeout_s)),
        topics=tuple(ReassignableTopic(name=TopicName(name), partitions=tuple(of)) for name, of in by_topic.items()),
    )
    # Any broker would forward the request to the controller; sending it there saves a hop.
    broker = found.brokers.get(found.controller_id) or next(iter(found.brokers.values()))
    try:
        with RawConnection(broker.address, timeout_s=timeout_s) as connection:
            answer = connection.call(request)
    except OSError as error:
        raise Unreachable(
            "unreachable", f"broker {broker.node_id} at {broker.address} did not answer", why=str(error)
        ) from None
    if int(answer.error_code):
        reason = answer.error_message or answer.error_code.name
        return dict.fromkeys(orders, reason)
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): each.error_message or each.error_code.name
        for topic in answer.responses
        for each in topic.partitions
        if int(each.error_code)
    }


def wait_until_led(
    servers: str, leaders: Mapping[TopicPartition, NodeId], *, timeout_s: float
) -> dict[TopicPartition, str]:
    """Wait until each partition is led by its broker; on a timeout return the others, with their present leaders."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = read_metadata(servers, timeout_s=timeout_s)
        now = {TopicPartition(each.topic, each.partition): each.leader for each in found.partitions}
        late = {key: now.get(key, NO_LEADER) for key, node in leaders.items() if now.get(key) != node}
        if not late:
            return {}
        if time.monotonic() > deadline:
            return {key: f"{leader} still leads it after {timeout_s:.0f} s" for key, leader in late.items()}
        time.sleep(POLL_SECONDS)
