"""The image: the content of the metadata log as one immutable object.

`Image.apply_all(records)` returns a new image and a `Delta` that names the changes; unchanged parts are the same
objects in both. The hash chain must be unbroken: each record follows the image's offset and hash, else `ChainBroken` is
raised. The maps are plain dicts for speed and are never changed once they are in an image.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from yak.cluster.payload import IsrMember, nodes_of
from yak.cluster.records import BrokerState, RegisterBroker
from yak.config.broker_configs import dynamic_value
from yak.config.definitions import Value
from yak.config.listeners import PLAINTEXT_LISTENER, Listener
from yak.config.log_config import LogConfig
from yak.config.topic_configs import resolve_log_config
from yak.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    NodeId,
    PartitionEpoch,
    ProducerId,
    TopicPartition,
)
from yak.ports.metadata_store import TailedRecord

REMOVED_TOPICS_MAX = 1_000
"""After more deletions than this, a reader of changes since a time gets a full answer."""


class ChainBroken(Exception):
    """A record does not follow the image: a gap, or another history."""


@dataclass(slots=True, frozen=True)
class BrokerInfo:
    """A registered broker.

    `lossy_epoch` is its last epoch that may have begun with the loss of acknowledged data, else 0. `emptied_epoch` is
    its last epoch that began without a data directory it had before, also before it was unregistered, else 0.
    `was_active` says that it was unfenced under this epoch: if it is FENCED now, it was fenced, and registers again.
    """

    node_id: NodeId
    broker_epoch: BrokerEpoch
    boot_id: str
    directories: tuple[str, ...]
    host: str
    port: int
    rack: str | None
    role: str
    state: BrokerState
    lossy_epoch: BrokerEpoch = 0
    emptied_epoch: BrokerEpoch = 0
    was_active: bool = False
    http_port: int = 0
    endpoints: tuple[Listener, ...] = ()
    """The advertised listeners; empty: PLAINTEXT at `host` and `port`."""
    changed_ms: int = field(default=0, compare=False)
    """Timestamp of the record that set this state, by the store's clock; also in the classes below."""

    @classmethod
    def of(cls, registered: RegisterBroker, **state: Any) -> "BrokerInfo":
        """A broker as it registered, in this state."""
        names = (each.name for each in fields(registered) if each.name != "lossy")
        return cls(**{name: getattr(registered, name) for name in names}, **state)

    def endpoint(self, name: str) -> Listener | None:
        """The address for clients of the listener with this name, None without that listener (KIP-103)."""
        if not self.endpoints:
            plain = PLAINTEXT_LISTENER
            return replace(plain, host=self.host, port=self.port) if name == plain.name else None
        return next((each for each in self.endpoints if each.name == name), None)

    def endpoint_for(self, broker_listener: Listener) -> tuple[str, int]:
        """Where a broker connects that uses `broker_listener` between brokers: this broker's listener of that name.

        A broker without it is reached at its own inter-broker listener (`lacks` says why that may fail).
        """
        found = self.endpoint(broker_listener.name)
        return (self.host, self.port) if found is None else (found.host, found.port)

    def lacks(self, broker_listener: Listener) -> str:
        """Why a broker that uses `broker_listener` between brokers may not reach this one; empty when it can."""
        name, found = broker_listener.name, self.endpoint(broker_listener.name)
        if found is None:
            return f"it advertises no listener {name}"
        if found.security_protocol is not broker_listener.security_protocol:
            return f"its listener {name} is {found.security_protocol}, not {broker_listener.security_protocol}"
        return ""

    @property
    def must_register_again(self) -> bool:
        """Whether the broker was unfenced and then fenced: others may have decided on its operations in flight."""
        return self.was_active and self.state is BrokerState.FENCED


@dataclass(slots=True, frozen=True)
class ProducerBlock:
    """The newest block of producer ids of a broker: from `first`, below `next_producer_id`."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    first: ProducerId
    next_producer_id: ProducerId
    changed_ms: int = field(default=0, compare=False)


@dataclass(slots=True, frozen=True)
class RemovedTopic:
    """A deleted topic; `name` is empty where only its id is known."""

    name: str
    changed_ms: int = field(default=0, compare=False)


@dataclass(slots=True, frozen=True)
class PartitionInfo:
    """A partition's state. `leader` is -1 when there is none.

    The ELR are the eligible leaders that left the ISR when it was too small to commit anything after (KIP-966). During a
    reassignment `replicas` are the target followed by the replicas to remove (KIP-455).
    """

    partition: int
    replicas: tuple[NodeId, ...]
    isr_members: tuple[IsrMember, ...]
    elr_members: tuple[IsrMember, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    changed_ms: int = field(default=0, compare=False)
    isr: tuple[NodeId, ...] = field(init=False, compare=False)
    """The node ids of `isr_members`."""
    elr: tuple[NodeId, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "isr", nodes_of(self.isr_members))
        object.__setattr__(self, "elr", nodes_of(self.elr_members))


@dataclass(slots=True, frozen=True)
class TopicInfo:
    """A topic with all its partitions, by number, and the configs set on it."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionInfo, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    changed_ms: int = field(default=0, compare=False)
    """When the topic was created, grew, or got other configs."""


@dataclass(slots=True, frozen=True)
class PendingTopic:
    """A new or growing topic of which some partitions are still missing. `total` is the number it will have."""

    name: str
    topic_id: uuid.UUID
    total: int
    partitions: Mapping[int, PartitionInfo]
    configs: Mapping[str, str]


@dataclass(slots=True, frozen=True)
class Delta:
    """The changes that a run of records made.

    `topics_changed` are the topics that appeared or changed in any way. `partitions_changed` has the numbers of the
    partitions that appeared or changed, in order, by topic. A topic of which only the configs changed is not in it.
    """

    topics_changed: tuple[str, ...] = ()
    topics_removed: tuple[tuple[str, uuid.UUID], ...] = ()
    brokers_changed: tuple[NodeId, ...] = ()
    configs_changed: tuple[tuple[str, str], ...] = ()
    controller_changed: bool = False
    partitions_changed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def changes_logs(self) -> bool:
        """Whether configs of brokers or topics changed, from which logs have theirs; users, quotas and ACLs are configs too."""
        return any(kind in ("broker", "topic") for kind, _name in self.configs_changed)

    def changed_partitions(self, topic: TopicInfo) -> Iterator[PartitionInfo]:
        """The partitions of a topic that appeared or changed."""
        return (topic.partitions[number] for number in self.partitions_changed.get(topic.name, ()))


@dataclass(slots=True, frozen=True)
class Image:
    """The cluster's metadata as of `offset`."""

    cluster_id: str = ""
    incarnation: int = 0
    incarnation_id: str = ""
    controller_id: NodeId = -1
    controller_epoch: ControllerEpoch = 0
    controller_broker_epoch: BrokerEpoch = 0
    brokers: Mapping[NodeId, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    topic_names: Mapping[uuid.UUID, str] = field(default_factory=dict)
    pending: Mapping[uuid.UUID, PendingTopic] = field(default_factory=dict)
    broker_configs: Mapping[NodeId, Mapping[str, str]] = field(default_factory=dict)
    default_broker_configs: Mapping[str, str] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The configs of the groups that have their own, by group id."""
    user_credentials: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """The SCRAM credentials of the users, by name and mechanism (`ScramCredential.to_text`): secrets that no view shows."""
    delegation_tokens: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """The delegation tokens by id (`DelegationToken.to_configs`), with secrets like those of users."""
    quotas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The quotas of clients: the value of each quota, by entity (`yak.quotas.entity`)."""
    acls: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The ACLs: the entries of each resource pattern as texts (`yak.acls.bindings`), with empty values."""
    next_producer_id: ProducerId = 0
    parents: tuple[str, ...] = ()
    """The incarnations of the cluster from which restores led to this one."""
    removed_topics: Mapping[uuid.UUID, RemovedTopic] = field(default_factory=dict)
    """The newest deletions, oldest first, `REMOVED_TOPICS_MAX` at most.

    A restored image that lacks a topic without naming it here does not delete the topic's logs.
    """
    unregistered: Mapping[NodeId, BrokerEpoch] = field(default_factory=dict)
    """Brokers that were unregistered and have not registered since, each with its last epoch."""
    former: Mapping[NodeId, BrokerInfo] = field(default_factory=dict)
    """Their last `BrokerInfo`, CLOSED."""
    producer_blocks: Mapping[NodeId, ProducerBlock] = field(default_factory=dict)
    incarnation_ms: int = field(default=0, compare=False)
    """When this incarnation of the cluster began: a restore may have dropped content."""
    offset: MetadataOffset = 0
    chain_hash: str = ""
    timestamp_ms: int = 0

    def apply(self, record: TailedRecord) -> "Image":
        """The image after one record. Raises ChainBroken, or BadRecord when the record is unreadable."""
        return self.apply_all((record,))[0]

    def apply_all(self, records: Iterable[TailedRecord]) -> tuple["Image", Delta]:
        """The image after these records, and the delta; each map is copied at most once for all of them.

        Raises ChainBroken, or BadRecord when a record is unreadable; the image itself is untouched then.
        """
        from yak.cluster.metadata_delta import MetadataDelta

        delta = MetadataDelta(self)
        for record in records:
            delta.replay(record)
        return delta.apply()

    def log_config(self, topic: TopicInfo | None, node_id: NodeId, static: Mapping[str, str]) -> LogConfig:
        """The configuration of a topic's logs on this broker, which has these static configs."""
        return resolve_log_config(
            {} if topic is None else topic.configs,
            self.broker_configs.get(node_id, {}),
            self.default_broker_configs,
            static,
        )

    def broker_config(self, name: str, node_id: NodeId, static: Mapping[str, str]) -> Value:
        """The value in force of a config of this broker, which has these static configs."""
        return dynamic_value(name, self.broker_configs.get(node_id, {}), self.default_broker_configs, static)

    def topic_by_id(self, topic_id: uuid.UUID | None) -> TopicInfo | None:
        """The topic of that id, or None."""
        name = None if topic_id is None else self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """The partition, or None if it does not exist."""
        topic, number = self.topics.get(topic_partition.topic), topic_partition.partition
        return None if topic is None or not 0 <= number < len(topic.partitions) else topic.partitions[number]

    def is_replicated(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition, as far as it is known, has more than one replica."""
        info = self.partition(topic_partition)
        return info is not None and len(info.replicas) > 1

    def active_brokers(self) -> list[BrokerInfo]:
        """The brokers that may lead and hold replicas, by node id."""
        return [self.brokers[n] for n in sorted(self.brokers) if self.brokers[n].state is BrokerState.ACTIVE]

    def without_position(self) -> "Image":
        """The same content without a position, to compare two histories."""
        return replace(self, offset=0, chain_hash="", timestamp_ms=0)
