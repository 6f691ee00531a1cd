"""The cluster's metadata as JSON, its fields named as KRaft's records name them; times in seconds.

Pure: of an image, which is immutable, so this may run in any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from yak.cluster.image import (
    REMOVED_TOPICS_MAX,
    BrokerInfo,
    GuestInfo,
    Image,
    PartitionInfo,
    ProducerBlock,
    RemovedTopic,
    TopicInfo,
)
from yak.cluster.records import BrokerState

FULL_AFTER_MS: Final = 10 * 60 * 1000
"""Who asks for the changes since an earlier time than this gets everything."""
CLOCKS_MS: Final = 5_000
"""How far the clocks of brokers, store and clients may be apart, without a client missing a change."""
PLAINTEXT: Final = "PLAINTEXT"
"""What YAK brokers speak."""
STATUS: Final = {
    BrokerState.ACTIVE: "ALIVE",
    BrokerState.STOPPING: "ALIVE",
    BrokerState.FENCED: "FENCED",
    BrokerState.CLOSED: "CLOSED",
}
"""A broker that stops still serves. A fenced one is dead, or not yet let in: it may come back, so it is not closed."""

Json = dict[str, Any]


def seconds(time_ms: int) -> float:
    """A time as the service tells it."""
    return time_ms / 1000


def broker_json(broker: BrokerInfo | GuestInfo) -> Json:
    """A broker, YAK or guest. `internalUUID` names the boot, or the guest's registration."""
    is_guest = isinstance(broker, GuestInfo)
    return {
        "brokerId": broker.node_id,
        "brokerHost": broker.host,
        "brokerPort": broker.port,
        "securityProtocol": broker.security_protocol if isinstance(broker, GuestInfo) else PLAINTEXT,
        "brokerStatus": STATUS[broker.state],
        "rackId": broker.rack,
        "epoch": broker.broker_epoch,
        "internalUUID": broker.boot_id,
        "guest": is_guest,
        "timestamp": seconds(broker.changed_ms),
    }


def brokers_of(image: Image) -> list[BrokerInfo | GuestInfo]:
    """All that are or were registered, by id: those that were unregistered too, which are CLOSED."""
    return sorted(
        [*image.brokers.values(), *image.former.values(), *image.guests.values()], key=lambda broker: broker.node_id
    )


def topic_json(topic: TopicInfo) -> Json:
    """A topic without its partitions."""
    return {
        "name": topic.name,
        "topicUUID": str(topic.topic_id),
        "numPartitions": len(topic.partitions),
        "configs": dict(topic.configs),
        "timestamp": seconds(topic.changed_ms),
    }


def partition_json(topic: TopicInfo, partition: PartitionInfo) -> Json:
    """A partition; `leader` is -1 when there is none, as in KRaft."""
    return {
        "partitionId": partition.partition,
        "topicUUID": str(topic.topic_id),
        "topicName": topic.name,
        "replicas": list(partition.replicas),
        "ISR": list(partition.isr),
        "addingReplicas": list(partition.adding_replicas),
        "removingReplicas": list(partition.removing_replicas),
        "leader": partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
        "timestamp": seconds(partition.changed_ms),
    }


def producer_json(block: ProducerBlock) -> Json:
    """The block of producer ids that a broker gives out: from `producerId` on, below `nextProducerId`."""
    return {
        "brokerId": block.node_id,
        "brokerEpoch": block.broker_epoch,
        "producerId": block.first,
        "nextProducerId": block.next_producer_id,
        "timestamp": seconds(block.changed_ms),
    }


def _removed_json(topic_id: UUID, removed: RemovedTopic) -> Json:
    return {"name": removed.name, "topicUUID": str(topic_id), "timestamp": seconds(removed.changed_ms)}


def cluster_json(image: Image) -> Json:
    """All of an image."""
    return {
        "offset": image.offset,
        "timestamp": seconds(image.timestamp_ms),
        **_office(image),
        **_for_clients(image, 0),
        **_for_brokers(image, 0),
    }


def changes_json(image: Image, since_ms: int, now_ms: int, told_ms: int, *, for_brokers: bool) -> Json:
    """What changed since a time, or everything when that is long ago or cannot be told.

    `told_ms` is the time to ask from next: what is told up to then is complete. What changed just before `since_ms` may be
    told once more, nothing is left out. Clients are told brokers, topics and partitions, brokers all that there is.
    """
    full = is_full(image, since_ms, now_ms)
    least_ms = 0 if full else since_ms
    answer: Json = {"full": full, "offset": image.offset, "timestamp": seconds(told_ms)}
    if for_brokers:
        answer |= _office(image)
    answer |= _for_clients(image, least_ms)
    answer["removedTopics"] = [] if full else list(_removed(image, least_ms))
    if for_brokers:
        answer |= _for_brokers(image, least_ms)
    return answer


def is_full(image: Image, since_ms: int, now_ms: int) -> bool:
    """Whether the changes since a time cannot be told by themselves: it is ten minutes ago or more, a restore came in
    between, or so many topics were removed that the first are forgotten."""
    if now_ms - since_ms >= FULL_AFTER_MS or image.incarnation_ms >= since_ms:
        return True
    removed = image.removed_topics
    return len(removed) >= REMOVED_TOPICS_MAX and all(each.changed_ms >= since_ms for each in removed.values())


def told_up_to_ms(image: Image, now_ms: int, *, is_current: bool) -> int:
    """Up to when a broker knows all that happened: about now while it follows the log (`is_current`)."""
    return max(image.timestamp_ms, now_ms - CLOCKS_MS) if is_current else image.timestamp_ms


def _for_clients(image: Image, least_ms: int) -> Json:
    topics = [image.topics[name] for name in sorted(image.topics)]
    return {
        "brokers": [broker_json(broker) for broker in brokers_of(image) if broker.changed_ms >= least_ms],
        "topics": [topic_json(topic) for topic in topics if topic.changed_ms >= least_ms],
        "partitions": [
            partition_json(topic, partition)
            for topic in topics
            for partition in topic.partitions
            if partition.changed_ms >= least_ms
        ],
    }


def _for_brokers(image: Image, least_ms: int) -> Json:
    blocks = (image.producer_blocks[node_id] for node_id in sorted(image.producer_blocks))
    return {
        "producers": [producer_json(block) for block in blocks if block.changed_ms >= least_ms],
        "brokerConfigs": {
            "": dict(image.default_broker_configs),
            **{str(node_id): dict(configs) for node_id, configs in sorted(image.broker_configs.items())},
        },
    }


def _office(image: Image) -> Json:
    return {
        "clusterId": image.cluster_id,
        "incarnation": image.incarnation,
        "controllerId": image.controller_id,
        "controllerEpoch": image.controller_epoch,
    }


def _removed(image: Image, least_ms: int) -> Iterator[Json]:
    for topic_id, removed in image.removed_topics.items():
        if removed.changed_ms >= least_ms:
            yield _removed_json(topic_id, removed)
