"""The cluster's metadata as JSON, with the field names of KRaft's records and times in seconds.

Pure: an image is immutable, so this may run in any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from yak.cluster.image import REMOVED_TOPICS_MAX, BrokerInfo, Image, PartitionInfo, ProducerBlock, TopicInfo
from yak.cluster.records import BrokerState
from yak.ids import BrokerEpoch, NodeId

FULL_AFTER_MS: Final = 10 * 60 * 1000
"""A request for the changes since a time this long ago, or longer, gets everything."""
CLOCKS_MS: Final = 5_000
"""Clock skew between brokers, metadata store and clients at which a client still misses no change."""
PLAINTEXT: Final = "PLAINTEXT"
"""The security protocol of YAK brokers."""
HIDDEN: Final = "(hidden)"
"""The value in place of a secret."""
STATUS: Final = {
    BrokerState.ACTIVE: "ALIVE",
    BrokerState.STOPPING: "ALIVE",
    BrokerState.FENCED: "FENCED",
    BrokerState.CLOSED: "CLOSED",
}
"""A stopping broker still serves. A fenced one is dead or not yet unfenced: it may come back, so it is not CLOSED."""

Json = dict[str, Any]


@dataclass(slots=True, frozen=True)
class ExternalBroker:
    """Other software, registered over HTTP to be listed: ACTIVE or CLOSED. `boot_id` names the registration, a UUID."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    boot_id: str
    host: str
    port: int
    rack: str | None
    security_protocol: str
    state: BrokerState
    changed_ms: int = field(default=0, compare=False)


def seconds(time_ms: int) -> float:
    """A time in seconds, as the metadata service gives it."""
    return time_ms / 1000


def broker_json(broker: BrokerInfo | ExternalBroker) -> Json:
    """A YAK or external broker. `internalUUID` names its incarnation, or the external broker's registration."""
    return {
        "brokerId": broker.node_id,
        "brokerHost": broker.host,
        "brokerPort": broker.port,
        "securityProtocol": broker.security_protocol if isinstance(broker, ExternalBroker) else PLAINTEXT,
        "brokerStatus": STATUS[broker.state],
        "state": broker.state.value,
        "rackId": broker.rack,
        "epoch": broker.broker_epoch,
        "internalUUID": broker.boot_id,
        "guest": isinstance(broker, ExternalBroker),
        "timestamp": seconds(broker.changed_ms),
    }


def brokers_of(image: Image, external: Iterable[ExternalBroker]) -> list[BrokerInfo | ExternalBroker]:
    """All brokers that are or were registered, by id; unregistered ones are CLOSED."""
    return sorted([*image.brokers.values(), *image.former.values(), *external], key=lambda broker: broker.node_id)


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
    """A broker's block of producer ids: from `producerId`, below `nextProducerId`."""
    return {
        "brokerId": block.node_id,
        "brokerEpoch": block.broker_epoch,
        "producerId": block.first,
        "nextProducerId": block.next_producer_id,
        "timestamp": seconds(block.changed_ms),
    }


def cluster_json(image: Image, external: Iterable[ExternalBroker] = ()) -> Json:
    """The whole image, and external brokers."""
    return {
        "offset": image.offset,
        "timestamp": seconds(image.timestamp_ms),
        **_controller(image),
        **_for_clients(image, external, 0),
        **_for_brokers(image, 0),
    }


def changes_json(
    image: Image, external: Iterable[ExternalBroker], since_ms: int, now_ms: int, until_ms: int, *, for_brokers: bool
) -> Json:
    """The changes since `since_ms`, or everything if `is_full`.

    The answer is complete up to `until_ms`, its `timestamp`, from which the next request should start. A change may be
    repeated in that next answer; none is left out. Clients get brokers, topics and partitions; brokers get everything.
    """
    full = is_full(image, since_ms, now_ms)
    least_ms = 0 if full else since_ms
    answer: Json = {"full": full, "offset": image.offset, "timestamp": seconds(until_ms)}
    if for_brokers:
        answer |= _controller(image)
    answer |= _for_clients(image, external, least_ms)
    answer["removedTopics"] = [] if full else list(_removed(image, least_ms))
    if for_brokers:
        answer |= _for_brokers(image, least_ms)
    return answer


def is_full(image: Image, since_ms: int, now_ms: int) -> bool:
    """Whether only a full answer is complete: `since_ms` is at least ten minutes ago, a restore came after it, or so
    many topics were removed since that the first removals are forgotten."""
    if now_ms - since_ms >= FULL_AFTER_MS or image.incarnation_ms >= since_ms:
        return True
    removed = image.removed_topics
    return len(removed) >= REMOVED_TOPICS_MAX and all(each.changed_ms >= since_ms for each in removed.values())


def known_up_to_ms(image: Image, now_ms: int, *, is_current: bool) -> int:
    """The time up to which a broker knows all changes: about now while it follows the metadata log (`is_current`)."""
    return max(image.timestamp_ms, now_ms - CLOCKS_MS) if is_current else image.timestamp_ms


def _for_clients(image: Image, external: Iterable[ExternalBroker], least_ms: int) -> Json:
    topics = [image.topics[name] for name in sorted(image.topics)]
    return {
        "brokers": [broker_json(broker) for broker in brokers_of(image, external) if broker.changed_ms >= least_ms],
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
        "groupConfigs": {group_id: dict(configs) for group_id, configs in sorted(image.group_configs.items())},
        "quotas": {entity: dict(quotas) for entity, quotas in sorted(image.quotas.items())},
        "acls": {pattern: sorted(entries) for pattern, entries in sorted(image.acls.items())},
    }


def _controller(image: Image) -> Json:
    return {
        "clusterId": image.cluster_id,
        "incarnation": image.incarnation,
        "controllerId": image.controller_id,
        "controllerEpoch": image.controller_epoch,
    }


def _removed(image: Image, least_ms: int) -> Iterator[Json]:
    for topic_id, removed in image.removed_topics.items():
        if removed.changed_ms >= least_ms:
            yield {"name": removed.name, "topicUUID": str(topic_id), "timestamp": seconds(removed.changed_ms)}
