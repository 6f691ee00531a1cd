"""One broker of the rig made to believe that there are others: what it tells clients of leaders and replicas."""

from __future__ import annotations

from dataclasses import replace

from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.ids import TopicPartition
from yak.replication.partition import Partition
from yak.sim.rig import Rig


def add_broker(
    rig: Rig, node_id: int, *, rack: str | None = None, state: BrokerState = BrokerState.ACTIVE, role: str = "leader"
) -> None:
    """One more broker in the image; it does not exist."""
    metadata = rig.node.broker.metadata
    info = BrokerInfo(
        node_id=node_id,
        broker_epoch=100 + node_id,
        boot_id=f"boot-{node_id}",
        directories=(),
        host=f"host-{node_id}",
        port=9000 + node_id,
        rack=rack,
        role=role,
        state=state,
    )
    metadata.image = replace(metadata.image, brokers={**metadata.image.brokers, node_id: info})


def set_partition(rig: Rig, topic: str, *, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> Partition:
    """Give partition 0 another leader, replicas and ISR, one leader epoch on: in the image and in the broker."""
    broker = rig.node.broker
    image = broker.metadata.image
    described = image.topics[topic]
    epochs = tuple(image.brokers[node].broker_epoch if node in image.brokers else 0 for node in isr)
    info = replace(
        described.partitions[0],
        leader=leader,
        leader_epoch=described.partitions[0].leader_epoch + 1,
        partition_epoch=described.partitions[0].partition_epoch + 1,
        replicas=replicas,
        isr=isr,
        isr_epochs=epochs,
    )
    changed = replace(described, partitions=(info, *described.partitions[1:]))
    broker.metadata.image = replace(image, topics={**image.topics, topic: changed})
    partition = broker.partitions[TopicPartition(topic, 0)]
    if partition.become(
        node_id=broker.node_id,
        leader_id=leader,
        leader_epoch=info.leader_epoch,
        partition_epoch=info.partition_epoch,
        replicas=replicas,
        isr=isr,
        isr_epochs=epochs,
        now_ms=rig.world.now_ms,
    ):
        broker.leadership_changed(partition)
    return partition
