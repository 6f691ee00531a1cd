"""Plans a partition reassignment or its cancellation: one item of the script `alter_replicas` (KIP-455).

Pure. The script computes the replicas in between and completes changes that need no copying. This module checks the
request, with the codes and messages of Kafka's ReplicationControlManager.alterPartitionReassignment.
"""

from collections.abc import Collection, Sequence

from yak.cluster.image import Image, PartitionInfo, TopicInfo
from yak.cluster.payload import format_nodes
from yak.cluster.placement import shared_machine
from yak.cluster.topic_changes import refuse_full
from yak.errors import ErrorCode, PeerError
from yak.ids import NodeId


def plan_reassignment(
    image: Image,
    topic_name: str,
    partition: int,
    target: Sequence[NodeId] | None,
    *,
    may_change_factor: bool = True,
    full: Collection[NodeId] = (),
) -> dict[str, object] | None:
    """Plan a reassignment to the replicas `target`, or with None cancel the one under way.

    Returns None when nothing would change. `may_change_factor` is false for a client that forbids another replication
    factor (KIP-860). No replica is added on a broker that is `full`.

    Raises PeerError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR,
    NO_REASSIGNMENT_IN_PROGRESS, KAFKA_STORAGE_ERROR for a full broker.
    """
    topic, info = _find(image, topic_name, partition)
    item: dict[str, object] = {
        "topic_id": str(topic.topic_id),
        "partition": partition,
        "partition_epoch": info.partition_epoch,
        "keeps_elr_without_leader": True,
    }
    if target is None:
        _check_cancel(topic_name, info)
        _check_records_stay(image, topic_name, info, ())
        return item | {"replicas": None}
    _check_target(image, target)
    refuse_full([[node_id for node_id in target if node_id not in info.replicas]], full)
    if not may_change_factor:
        factor = len(info.replicas) - len(info.removing_replicas)
        if factor != len(target):
            message = f"The replication factor is changed from {factor} to {len(target)}"
            raise PeerError(ErrorCode.invalid_replication_factor, message)
    if tuple(target) == info.replicas and not is_reassigning(info):
        return None
    _check_records_stay(image, topic_name, info, target)
    return item | {"replicas": format_nodes(tuple(target))}


def is_reassigning(info: PartitionInfo) -> bool:
    """Whether a reassignment of the partition is under way."""
    return bool(info.adding_replicas or info.removing_replicas)


def _find(image: Image, topic_name: str, partition: int) -> tuple[TopicInfo, PartitionInfo]:
    topic = image.topics.get(topic_name)
    if topic is None:
        raise PeerError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {topic_name}.")
    if not 0 <= partition < len(topic.partitions):
        raise PeerError(ErrorCode.unknown_topic_or_partition, f"Unable to find partition {topic_name}:{partition}.")
    return topic, topic.partitions[partition]


def _check_cancel(topic_name: str, info: PartitionInfo) -> None:
    if not is_reassigning(info):
        raise PeerError(ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")
    if not set(info.isr) - set(info.adding_replicas):
        message = (
            f"Unable to revert partition assignment for {topic_name}:{info.partition} because it would require an "
            "unclean leader election."
        )
        raise PeerError(ErrorCode.invalid_replica_assignment, message)


def _check_records_stay(image: Image, topic_name: str, info: PartitionInfo, target: Sequence[NodeId]) -> None:
    """Check that a replica stays that has all committed records, also if the ISR has none and it is only eligible (ELR).

    The replicas of the target before this one are removed at once. Kafka removes them once the reassignment is complete.
    """
    brokers = image.brokers
    having = {
        node_id
        for node_id, broker_epoch in (*info.isr_members, *info.elr_members)
        if node_id in brokers and broker_epoch >= brokers[node_id].lossy_epoch
    }
    if having and having <= set(info.adding_replicas) - set(target):
        message = (
            f"Unable to change the replicas of {topic_name}:{info.partition} because it would require an unclean leader "
            "election."
        )
        raise PeerError(ErrorCode.invalid_replica_assignment, message)


def _check_target(image: Image, target: Sequence[NodeId]) -> None:
    if not target:
        message = "The manual partition assignment includes an empty replica list."
    elif unknown := [node_id for node_id in target if node_id not in image.brokers]:
        message = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
    elif len(set(target)) != len(target):
        twice = next(node_id for node_id in target if target.count(node_id) > 1)
        message = f"The manual partition assignment includes the broker {twice} more than once."
    elif machine := shared_machine(target, image.brokers):
        message = f"The manual partition assignment includes two brokers of {machine}."
    else:
        return
    raise PeerError(ErrorCode.invalid_replica_assignment, message)
