"""A cluster's metadata as plain values: brokers, topics, partitions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from yak.client.connection import base_config
from yak.client.errors import from_exception, kafka_exceptions
from yak.config.listeners import bracketed
from yak.errors import UsageError, YakError, closest
from yak.ids import INTERNAL_TOPICS, NodeId, TopicPartition
from yak.view.partition_state import is_offline


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker and the address it advertises."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """`host:port`, IPv6 in brackets."""
        return f"{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; `leader` is -1 when there is none."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic with its partitions, by number."""

    name: str
    partitions: tuple[Partition, ...]

    @property
    def led(self) -> dict[TopicPartition, NodeId]:
        """The leader of each partition that has one."""
        return {TopicPartition(self.name, each.number): each.leader for each in self.partitions if not is_offline(each)}

    @property
    def is_internal(self) -> bool:
        """Whether the topic holds Kafka's own state."""
        return self.name in INTERNAL_TOPICS or self.name == "__cluster_metadata"

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas of any partition."""
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One answer to a Metadata request."""

    cluster_id: str
    controller_id: int
    brokers: dict[int, Broker]
    topics: dict[str, Topic]

    def require_topic(self, name: str) -> Topic:
        """The topic. Raises YakError (`unknown-topic`), which suggests the closest name."""
        found = self.topics.get(name)
        if found is None:
            raise unknown_topic(name, self.topics)
        return found

    def leaders_of(self, topics: Iterable[Topic]) -> dict[int, str]:
        """Addresses of the brokers that lead these topics' partitions."""
        ids = sorted({p.leader for topic in topics for p in topic.partitions if p.leader in self.brokers})
        return {node_id: self.brokers[node_id].address for node_id in ids}


def unknown_topic(name: str, known: Iterable[str]) -> YakError:
    """The error for an unknown topic."""
    guess = closest(name, known, 0.5)
    why = f'closest: "{guess}"' if guess else "no topic has a name like it"
    error = YakError("unknown-topic", f'topic "{name}" does not exist', why=why, try_=("yak topics list",))
    if guess:
        error.meant = (name, guess)
    return error


def unknown_partition(topic: str, number: int | str, count: int, try_: str = "") -> UsageError:
    """The error for a partition that a topic of `count` partitions does not have."""
    message, why = f"{topic} has no partition {number}", f"it has {count}, from 0"
    return UsageError("unknown-partition", message, why=why, try_=(try_ or f"yak topics describe {topic}",))


def unknown_broker(node_id: NodeId, known: Iterable[NodeId]) -> YakError:
    """The error for a broker that the cluster does not have."""
    why = f"brokers are {', '.join(map(str, known))}"
    return YakError("unknown-broker", f"broker {node_id} is not in the cluster", why=why, try_=("yak brokers list",))


def read_metadata(client: Any, *, timeout_s: float) -> ClusterMetadata:
    """All topics, through any librdkafka handle; never creates one. Raises YakError."""
    try:
        answer = client.list_topics(timeout=timeout_s)
    except kafka_exceptions() as error:
        raise from_exception(error, "the cluster's metadata could not be read") from None
    brokers = {node.id: Broker(node.id, node.host, node.port) for node in answer.brokers.values()}
    topics = {
        topic.topic: Topic(
            topic.topic,
            tuple(
                Partition(each.id, each.leader, tuple(each.replicas), tuple(each.isrs))
                for each in sorted(topic.partitions.values(), key=lambda each: each.id)
            ),
        )
        for topic in answer.topics.values()
        if topic.error is None
    }
    return ClusterMetadata(
        str(answer.cluster_id or ""),
        int(answer.controller_id),
        dict(sorted(brokers.items())),
        dict(sorted(topics.items())),
    )


def topic_names(servers: str, *, timeout_s: float) -> list[str]:
    """Names of all topics except Kafka's internal ones. Raises YakError."""
    from confluent_kafka.admin import AdminClient

    found = read_metadata(AdminClient(base_config(servers)), timeout_s=timeout_s)
    return [name for name, topic in found.topics.items() if not topic.is_internal]
