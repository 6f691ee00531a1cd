"""The state of a cluster, read over the Kafka protocol, and the events between two such snapshots.

YAK brokers send this state as events over HTTP. The state of all other brokers is polled, and the events are derived from
the differences. `read_snapshot` blocks on sockets; everything else is pure.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from yak.client.members import Member, list_members
from yak.client.metadata import Broker
from yak.client.quorum import Controller, read_controller
from yak.client.raw_connection import RawConnection
from yak.client.reach import split_address
from yak.client.replica_offsets import ClusterReplicas, read_cluster
from yak.cluster.image import BrokerInfo, Delta, Image, PartitionInfo, TopicInfo
from yak.cluster.records import BrokerState
from yak.ids import NodeId
from yak.tui.source.base import Event
from yak.tui.state.picture import UNKNOWN_STORE
from yak.view.partition_replicas import PartitionReplicas
from yak.views.cluster import registration_json
from yak.views.happenings import of_image

READ_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 2.0
DISKS_EVERY: Final = 10
"""Snapshots per DescribeLogDirs request."""
_ROLE: Final = "broker"
_NO_EPOCH: Final = -1
NO_ID: Final = UUID(int=0)
_ASK_AT_ONCE: Final = 16


class Disk(NamedTuple):
    """The volumes of a broker's log directories together."""

    free_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at one time. `number` counts snapshots and replaces partition epochs, which no Kafka API returns."""

    number: int
    time_ms: int
    image: Image
    partitions: tuple[PartitionReplicas, ...]
    silent: Mapping[NodeId, str] = field(default_factory=dict)
    """Brokers that did not answer in time, with the reason."""
    disks: Mapping[NodeId, Disk] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers that are not fenced."""
        active = (each for each in self.image.brokers.values() if each.state is BrokerState.ACTIVE)
        return ",".join(Broker(each.node_id, each.host, each.port).address for each in active)

    def event(self) -> Event:
        """A `snapshot` event as the brokers of YAK send it."""
        image = self.image
        return {
            "kind": "snapshot",
            "time_ms": self.time_ms,
            "cluster": {
                "cluster_id": image.cluster_id,
                "controller_id": None if image.controller_id < 0 else image.controller_id,
                "controller_epoch": image.controller_epoch,
                "redis": {"state": UNKNOWN_STORE, "lost_ms": None},
                "brokers": [registration_json(each, "http") for each in image.brokers.values()],
            },
            "partitions": self.rows(),
        }

    def rows(self, topic: str | None = None) -> list[dict[str, Any]]:
        """The partitions of all topics or of one, as `GET /api/isr` answers them."""
        return [
            each.as_json() | {"partition_epoch": self.number}
            for each in self.partitions
            if topic is None or each.topic == topic
        ]


# differences


def changes(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    """The events between two snapshots. Their time is that of the second: the change came at most one poll earlier."""
    for happening in of_image(before.image, after.image, _delta(before.image, after.image)):
        event = {"kind": happening.kind, "time_ms": after.time_ms, "message": happening.message, **happening.fields}
        yield event if happening.topic is None else {**event, "topic": happening.topic}


def _delta(before: Image, after: Image) -> Delta:
    nodes = sorted({*before.brokers, *after.brokers})
    changed = {
        name: tuple(
            each.partition
            for each in topic.partitions
            if name not in before.topics or _state_in(before.topics[name], each.partition) != _state(each)
        )
        for name, topic in after.topics.items()
    }
    return Delta(
        topics_changed=tuple(name for name, numbers in changed.items() if numbers),
        topics_removed=tuple((name, NO_ID) for name in before.topics if name not in after.topics),
        brokers_changed=tuple(node for node in nodes if before.brokers.get(node) != after.brokers.get(node)),
        partitions_changed=changed,
    )


def _state_in(topic: TopicInfo, partition: int) -> object:
    return _state(topic.partitions[partition]) if partition < len(topic.partitions) else None


def _state(info: PartitionInfo) -> object:
    return (info.leader, info.leader_epoch, info.replicas, info.isr)


def link_events(before: Snapshot | None, after: Snapshot) -> Iterator[Event]:
    """A `link` event of each broker that answers now and did not before, or the other way round."""
    for node, info in after.image.brokers.items():
        if info.state is not BrokerState.ACTIVE:
            continue
        why = after.silent.get(node)
        known = before is not None and _is_active(before.image, node)
        if not known or before is None or (node in before.silent) != (why is not None):
            state = "up" if why is None else "down"
            yield {"kind": "link", "time_ms": after.time_ms, "node_id": node, "state": state, "why": why or ""}


def _is_active(image: Image, node: NodeId) -> bool:
    info = image.brokers.get(node)
    return info is not None and info.state is BrokerState.ACTIVE


def rate_events(before: Snapshot | None, after: Snapshot) -> Iterator[Event]:
    """A `rates` event of each broker: the records a second by which the high watermarks that it leads rose.

    All other rates are None: no Kafka API returns them.
    """
    if before is None:
        before = after
    known = {(each.topic, each.partition): each.high_watermark for each in before.partitions}
    seconds = max(1, after.time_ms - before.time_ms) / 1000
    risen: dict[NodeId, dict[str, int]] = {node: {} for node in after.image.brokers}
    for each in after.partitions:
        topics = risen.get(each.leader)
        if topics is None:
            continue
        old, new = known.get((each.topic, each.partition)), each.high_watermark
        topics[each.topic] = topics.get(each.topic, 0) + (0 if old is None or new is None else max(0, new - old))
    for node, topics in risen.items():
        disk = after.disks.get(node)
        yield {
            "kind": "rates",
            "time_ms": after.time_ms,
            "node_id": node,
            **_rates(sum(topics.values()) / seconds),
            "topics": [{"topic": topic, **_rates(count / seconds)} for topic, count in topics.items()],
            "process": {
                "memory_bytes": None,
                "cpu_share": None,
                "disk_free_bytes": None if disk is None else disk.free_bytes,
                "disk_size_bytes": None if disk is None else disk.size_bytes,
            },
        }


def _rates(messages_in_per_second: float) -> dict[str, float | None]:
    return {
        "messages_in_per_second": messages_in_per_second,
        "messages_out_per_second": None,
        "bytes_in_per_second": None,
        "bytes_out_per_second": None,
    }


# reading


def read_snapshot(servers: str, before: Snapshot | None) -> Snapshot:
    """Read the state of all brokers. `before` is the previous snapshot.

    Raises Unreachable when no broker answers.
    """
    number = 1 if before is None else before.number + 1
    found = read_cluster(servers, timeout_s=READ_SECONDS)
    answering = [broker for node, broker in found.brokers.items() if node not in found.silent]
    addresses = [broker.address for broker in answering]
    controller = read_controller(addresses, timeout_s=ANSWER_SECONDS) or Controller(found.controller_id, 0)
    image = Image(
        cluster_id=found.cluster_id,
        controller_id=controller.node_id,
        controller_epoch=controller.epoch,
        brokers=_brokers(found, addresses),
        topics=_topics(found, number),
    )
    if before is None or number % DISKS_EVERY == 0:
        disks = _disks(answering)
    else:
        disks = before.disks
    return Snapshot(number, int(time.time() * 1000), image, found.partitions, found.silent, disks)


def _topics(found: ClusterReplicas, number: int) -> dict[str, TopicInfo]:
    by_name: dict[str, list[PartitionInfo]] = {name: [] for name in found.topics}
    for each in found.partitions:
        by_name[each.topic].append(
            PartitionInfo(each.partition, each.replicas, each.isr, (), (), (), each.leader, each.leader_epoch, number)
        )
    return {name: TopicInfo(name, NO_ID, tuple(partitions)) for name, partitions in by_name.items()}


def _brokers(found: ClusterReplicas, addresses: Sequence[str]) -> dict[NodeId, BrokerInfo]:
    """All brokers that are known, with the fenced and the stopped ones."""
    holders = {node for each in found.partitions for node in each.replicas}
    members = list_members(found.brokers, holders, addresses, timeout_s=ANSWER_SECONDS)
    return {node: _info(member) for node, member in members.items()}


def _info(member: Member) -> BrokerInfo:
    host, port = ("", 0) if member.address is None else split_address(member.address)
    state = BrokerState.FENCED if member.state == "DOWN" else BrokerState(member.state)
    return BrokerInfo(member.node_id, _NO_EPOCH, "", (), host, port, member.rack, _ROLE, state)


def _disks(brokers: Sequence[Broker]) -> Mapping[NodeId, Disk]:
    """The disks, from brokers with DescribeLogDirs version 4 (KIP-827)."""
    from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest

    def ask(broker: Broker) -> Disk | None:
        try:
            with RawConnection(broker.address, timeout_s=ANSWER_SECONDS) as connection:
                results = connection.call(DescribeLogDirsRequest(topics=())).results
        except OSError:  # an older broker closes the connection at an unsupported version
            return None
        # directories of one volume all have the volume's figures
        volumes = {(int(each.usable_bytes), int(each.total_bytes)) for each in results if each.total_bytes >= 0}
        return Disk(*map(sum, zip(*volumes, strict=True))) if volumes else None

    with ThreadPoolExecutor(max_workers=max(1, min(_ASK_AT_ONCE, len(brokers)))) as pool:
        disks = zip(brokers, pool.map(ask, brokers), strict=True)
        return {broker.node_id: disk for broker, disk in disks if disk is not None}
