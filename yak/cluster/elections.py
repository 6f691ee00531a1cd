"""Which partitions need another leader, and whom: a pure reading of the image.

A leader is in order when it is ACTIVE and in the ISR in its current boot. Otherwise, in the order of the replicas: an ACTIVE
ISR member in its current boot; when no such member is left, an ACTIVE former member (ISR in an older boot, or ELR,
KIP-966) that did not lose anything since; for a partition with one replica that replica even so, marked unclean, since
no other copy exists. When there is nobody, the partition has no leader until one comes back.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from yak.cluster.image import BrokerInfo, Image, PartitionInfo
from yak.cluster.records import NO_LEADER, BrokerState
from yak.ids import NodeId, PartitionEpoch

MAX_PARTITIONS_PER_CALL = 200
"""A script blocks the store while it runs; this many partitions take it about 2 ms."""


@dataclass(slots=True, frozen=True)
class Election:
    """One partition's change of leader; `leader` is -1 for none."""

    topic_id: uuid.UUID
    partition: int
    leader: NodeId
    partition_epoch: PartitionEpoch
    unclean: bool

    def arguments(self) -> dict[str, object]:
        """As the script `elect` takes it."""
        return {
            "topic_id": str(self.topic_id),
            "partition": self.partition,
            "leader": self.leader,
            "partition_epoch": self.partition_epoch,
            "unclean": self.unclean,
        }


def needed_elections(image: Image) -> Iterator[Election]:
    """The elections that the image asks for, topic by topic in the image's order."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if not _leader_in_order(partition, image.brokers):
                leader, unclean = _choose(partition, image.brokers)
                if leader != partition.leader or leader != NO_LEADER:
                    yield Election(
                        topic.topic_id, partition.partition, leader, partition.partition_epoch, unclean=unclean
                    )


def _leader_in_order(partition: PartitionInfo, brokers: Mapping[NodeId, BrokerInfo]) -> bool:
    return partition.leader in _live_members(partition, brokers, (BrokerState.ACTIVE, BrokerState.STOPPING))


def _live_members(
    partition: PartitionInfo, brokers: Mapping[NodeId, BrokerInfo], states: tuple[BrokerState, ...]
) -> list[NodeId]:
    return [
        node_id
        for node_id, epoch in zip(partition.isr, partition.isr_epochs, strict=True)
        if (broker := brokers.get(node_id)) is not None and broker.broker_epoch == epoch and broker.state in states
    ]


def _choose(partition: PartitionInfo, brokers: Mapping[NodeId, BrokerInfo]) -> tuple[NodeId, bool]:
    candidates = _live_members(partition, brokers, (BrokerState.ACTIVE,))
    if not candidates:
        former = [
            *zip(partition.isr, partition.isr_epochs, strict=True),
            *zip(partition.elr, partition.elr_epochs, strict=True),
        ]
        candidates = [
            node_id
            for node_id, epoch in former
            if (broker := brokers.get(node_id)) is not None
            and broker.state is BrokerState.ACTIVE
            and epoch >= broker.lossy_epoch
        ]
    for node_id in partition.replicas:
        if node_id in candidates:
            return node_id, False
    if len(partition.replicas) == 1:
        broker = brokers.get(partition.replicas[0])
        if broker is not None and broker.state is BrokerState.ACTIVE:
            return broker.node_id, True
    return NO_LEADER, False
