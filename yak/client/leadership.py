"""Moving leaderships in order: which partition to whom (pure), and the two requests that do it.

A leadership goes to a partition's preferred leader, its first replica, by ElectLeaders (key 43). To give it to another
replica that one is made the first: AlterPartitionReassignments (key 45) with the same replicas in another order, which
moves no data, and then ElectLeaders. librdkafka has no call for the former.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yak.client.elections import elect_preferred_leaders
from yak.client.raw_connection import RawConnection
from yak.client.replica_offsets import ClusterReplicas, read_metadata
from yak.client.replication import NO_LEADER, PartitionReplicas
from yak.errors import Unreachable
from yak.ids import NodeId, TopicPartition

if TYPE_CHECKING:
    from yak.client.admin import Admin

POLL_SECONDS: Final = 0.01
REQUEST_PARTITIONS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Move:
    """One leadership to move; `order` is the new order of its replicas, None when `to` comes first already."""

    partition: TopicPartition
    leader: NodeId
    to: NodeId
    order: tuple[NodeId, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to move, and what stays with the reason. `refused` stays against the caller's wish."""

    moves: tuple[Move, ...]
    stays: Mapping[TopicPartition, str]
    refused: Mapping[TopicPartition, str]


def plan_moves(
    partitions: Iterable[PartitionReplicas], *, to: NodeId | None = None, only_preferred: bool = False
) -> Plan:
    """Whom each partition gets as its leader: `to`; else its preferred leader or, where that one leads, the in-sync
    replica that got fewest in this plan. With `only_preferred` those that their preferred leader leads stay.
    """
    moves: list[Move] = []
    stays: dict[TopicPartition, str] = {}
    refused: dict[TopicPartition, str] = {}
    given: Counter[NodeId] = Counter()
    for each in partitions:
        key = TopicPartition(each.topic, each.partition)
        if each.leader == NO_LEADER:
            refused[key] = "it has no leader to take it from"
            continue
        chosen = (
            _successor(each, given) if to is None and not only_preferred else (each.replicas[0] if to is None else to)
        )
        if chosen is None:
            refused[key] = f"no other replica is in sync: ISR {','.join(map(str, each.isr))}"
        elif chosen == each.leader:
            stays[key] = f"{chosen} leads it already"
        elif chosen not in each.replicas:
            refused[key] = f"{chosen} has no replica of it: replicas {','.join(map(str, each.replicas))}"
        elif chosen not in each.isr:
            refused[key] = f"{chosen} is out of sync: ISR {','.join(map(str, each.isr))}"
        else:
            given[chosen] += 1
            order = (chosen, *(node for node in each.replicas if node != chosen))
            moves.append(Move(key, each.leader, chosen, None if order == each.replicas else order))
    return Plan(tuple(moves), stays, refused)


def _successor(partition: PartitionReplicas, given: Counter[NodeId]) -> NodeId | None:
    preferred = partition.replicas[0]
    if preferred != partition.leader and preferred in partition.isr:
        return preferred
    others = [node for node in partition.replicas if node in partition.isr and node != partition.leader]
    return min(others, key=lambda node: given[node], default=None)


def carry_out(admin: "Admin", moves: Sequence[Move], *, timeout_s: float) -> dict[TopicPartition, str]:
    """Move them and wait until the brokers say that the new leaders lead; what failed, with the reason.

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
    """Give partitions their replicas in another order; what failed, with the reason. Raises Unreachable."""
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
    # Kafka's brokers pass it on to the controller; asking that one at once spares the way.
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
    """Wait until each partition is led by its broker; those that are not in time, with who leads them."""
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
