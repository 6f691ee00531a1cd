"""The kinds of record in the metadata log, and how their JSON payloads are read.

A payload carries `version`; a reader refuses a newer version than it knows, so that an old broker stops instead of
misreading. Lists of nodes are text, as in the store's hashes: `replicas` is `1,2,3`, `isr` is `1@17,2@40` (node id at
broker epoch). Unknown fields are ignored, so that versions can add some.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from yak.cluster.payload import BadRecord, Fields, IsrMember
from yak.config.listeners import Listener, read_endpoints
from yak.ids import BrokerEpoch, ControllerEpoch, LeaderEpoch, NodeId, PartitionEpoch, ProducerId
from yak.ports.metadata_store import TailedRecord

RECORD_VERSION = 1
"""The newest payload version this code reads. A record is written in the oldest version that can express it."""
NO_LEADER = -1
USER = "user"
"""The resource type of a user's credentials, which no view shows."""
TOKEN = "token"  # noqa: S105 - a kind, no secret
"""The resource type of a delegation token (`yak.security.delegation_tokens`): its SCRAM credentials stay secret."""
QUOTA = "quota"
"""The resource type of the quotas of clients, by entity (`yak.quotas.entity`)."""
ACL = "acl"
"""The resource type of ACLs, by resource pattern (`yak.acls.bindings`)."""


class Kind(StrEnum):
    """Names of the record kinds, as stored."""

    CLUSTER = "Cluster"
    REGISTER_BROKER = "RegisterBroker"
    UNREGISTER_BROKER = "UnregisterBroker"
    BROKER_CHANGE = "BrokerChange"
    TOPIC = "Topic"
    REMOVE_TOPIC = "RemoveTopic"
    PARTITION = "Partition"
    PARTITION_CHANGE = "PartitionChange"
    CONFIG = "Config"
    PRODUCER_IDS = "ProducerIds"
    CONTROLLER_CHANGE = "ControllerChange"
    SNAPSHOT = "Snapshot"


class BrokerState(StrEnum):
    """A registered broker's state. Only ACTIVE brokers are elected or join an ISR."""

    ACTIVE = "ACTIVE"
    FENCED = "FENCED"
    STOPPING = "STOPPING"
    CLOSED = "CLOSED"


@dataclass(slots=True, frozen=True)
class Cluster:
    """The first record of an incarnation of the cluster."""

    cluster_id: str
    incarnation: int
    incarnation_id: str


@dataclass(slots=True, frozen=True)
class RegisterBroker:
    """A registration: a broker's start, or its return after a fencing. Its offset is the broker epoch.

    The broker starts FENCED. `lossy` says that the store decided that acknowledged data may be gone. `http_port` is 0
    without HTTP. `host` and `port` are for other brokers; `endpoints` are all advertised listeners, and empty for a
    broker whose only listener is PLAINTEXT, as in records of an older YAK.
    """

    node_id: NodeId
    broker_epoch: BrokerEpoch
    boot_id: str
    directories: tuple[str, ...]
    host: str
    port: int
    rack: str | None
    role: str
    lossy: bool
    http_port: int = 0
    endpoints: tuple[Listener, ...] = ()


@dataclass(slots=True, frozen=True)
class UnregisterBroker:
    """The removal of a broker that will not come back."""

    node_id: NodeId
    broker_epoch: BrokerEpoch


@dataclass(slots=True, frozen=True)
class BrokerChange:
    """A new state of a registered broker."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    state: BrokerState


@dataclass(slots=True, frozen=True)
class OldExternalBroker:
    """A `RegisterBroker` or `BrokerChange` with `guest` set, as YAK wrote them before external brokers had a registry.

    Nothing is made of it (ADR 0015).
    """

    node_id: NodeId


@dataclass(slots=True, frozen=True)
class Topic:
    """A new topic, or (same id again) one that grows; it appears once all its partitions are in the log.

    `configs` is None in a record that only raises the number of partitions.
    """

    name: str
    topic_id: uuid.UUID
    partitions: int
    configs: Mapping[str, str] | None


@dataclass(slots=True, frozen=True)
class RemoveTopic:
    """The topic is deleted; its data may be removed."""

    name: str
    topic_id: uuid.UUID


@dataclass(slots=True, frozen=True)
class NewPartition:
    """A partition as it is created."""

    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[IsrMember, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


@dataclass(slots=True, frozen=True)
class Partitions:
    """New partitions of one topic, at most 200."""

    topic_id: uuid.UUID
    partitions: tuple[NewPartition, ...]


@dataclass(slots=True, frozen=True)
class ChangedPartition:
    """A partition's new leader, ISR, epochs and replicas; None in old records means unchanged replicas."""

    topic_id: uuid.UUID
    partition: int
    isr: tuple[IsrMember, ...]
    elr: tuple[IsrMember, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    unclean: bool
    replicas: tuple[NodeId, ...] | None = None
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


@dataclass(slots=True, frozen=True)
class PartitionChange:
    """Changes of partitions, of any topics, at most 200."""

    changes: tuple[ChangedPartition, ...]


@dataclass(slots=True, frozen=True)
class Config:
    """All configs now set on a resource: a topic by name, a broker by id, `` for the default of all brokers, a group, a user.

    A user's are its SCRAM credentials by mechanism, as in Kafka's ZooKeeper mode. Those of an entity are its quotas, those of
    a resource pattern its ACLs, whose values are empty, and those of a delegation token its owner, times and credentials.
    """

    resource_type: str
    resource_name: str
    configs: Mapping[str, str]


@dataclass(slots=True, frozen=True)
class ProducerIds:
    """A block of producer ids given to a broker; `next_producer_id` is the first one still free."""

    node_id: NodeId
    first: ProducerId
    next_producer_id: ProducerId
    broker_epoch: BrokerEpoch = 0


@dataclass(slots=True, frozen=True)
class ControllerChange:
    """A broker became the controller."""

    controller_id: NodeId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch


@dataclass(slots=True, frozen=True)
class Snapshot:
    """Everything up to this record's offset, as `yak.cluster.snapshot` writes it."""

    content: Mapping[str, object]


Record: TypeAlias = (
    Cluster
    | RegisterBroker
    | UnregisterBroker
    | BrokerChange
    | OldExternalBroker
    | Topic
    | RemoveTopic
    | Partitions
    | PartitionChange
    | Config
    | ProducerIds
    | ControllerChange
    | Snapshot
)


def parse(record: TailedRecord) -> Record:
    """The typed content of a record. Raises BadRecord with the offset and the problem."""
    where = f"metadata record {record.offset} ({record.kind})"
    fields = Fields(record.payload, where)
    version = fields.integer("version")
    if version > RECORD_VERSION:
        raise BadRecord(f"{where}: version {version} is newer than {RECORD_VERSION}, the newest this YAK reads")
    if record.kind == Kind.SNAPSHOT:
        return Snapshot(record.payload)
    parser = _PARSERS.get(record.kind)
    if parser is None:
        raise BadRecord(f"{where}: this version of YAK does not know the kind")
    return parser(fields)


def _cluster(f: Fields) -> Record:
    return Cluster(f.text("cluster_id"), f.integer("incarnation", minimum=1), f.text("incarnation_id"))


def register_broker(f: Fields) -> RegisterBroker:
    """The registration in a payload."""
    directories = f.text("directories")
    return RegisterBroker(
        node_id=f.integer("node_id"),
        broker_epoch=f.integer("broker_epoch"),
        boot_id=f.text("boot_id"),
        directories=tuple(directories.split(",")) if directories else (),
        host=f.text("host"),
        port=f.integer("port"),
        rack=f.optional_text("rack"),
        role=f.text("role"),
        lossy=f.flag("lossy"),
        http_port=f.integer("http_port") if f.has("http_port") else 0,
        endpoints=_endpoints(f),
    )


def _endpoints(f: Fields) -> tuple[Listener, ...]:
    try:
        return read_endpoints(f.text("endpoints")) if f.has("endpoints") else ()
    except ValueError as error:
        raise BadRecord(str(error)) from None


def _of_a_broker(parser: Callable[[Fields], Record]) -> Callable[[Fields], Record]:
    """The parser of records on brokers, which recognizes those on external brokers."""
    return lambda f: OldExternalBroker(f.integer("node_id")) if f.flag("guest") else parser(f)


def broker_state(f: Fields) -> BrokerState:
    """The field `state`."""
    try:
        return BrokerState(f.text("state"))
    except ValueError as error:
        raise BadRecord(f"unknown broker state {f.text('state')!r}") from error


def _producer_ids(f: Fields) -> Record:
    broker_epoch = f.integer("broker_epoch") if f.has("broker_epoch") else 0
    return ProducerIds(f.integer("node_id"), f.integer("first"), f.integer("next"), broker_epoch)


def _topic(f: Fields) -> Record:
    configs = f.texts("configs") if f.has("configs") else None
    return Topic(f.text("name"), f.id("topic_id"), f.integer("partitions", minimum=1), configs)


def _partitions(f: Fields) -> Record:
    new = tuple(
        NewPartition(
            partition=p.integer("partition"),
            replicas=p.nodes("replicas"),
            isr=p.isr("isr"),
            leader=p.integer("leader", minimum=NO_LEADER),
            leader_epoch=p.integer("leader_epoch"),
            partition_epoch=p.integer("partition_epoch"),
        )
        for p in f.items("partitions")
    )
    return Partitions(f.id("topic_id"), new)


def _partition_change(f: Fields) -> Record:
    changes = tuple(
        ChangedPartition(
            topic_id=p.id("topic_id"),
            partition=p.integer("partition"),
            isr=p.isr("isr"),
            elr=p.isr("elr"),
            leader=p.integer("leader", minimum=NO_LEADER),
            leader_epoch=p.integer("leader_epoch"),
            partition_epoch=p.integer("partition_epoch"),
            unclean=p.flag("unclean"),
            replicas=p.nodes("replicas") if p.has("replicas") else None,
            adding=p.nodes("adding"),
            removing=p.nodes("removing"),
        )
        for p in f.items("changes")
    )
    return PartitionChange(changes)


def _config(f: Fields) -> Record:
    return Config(f.text("resource_type"), f.text("resource_name"), f.texts("configs"))


_PARSERS: dict[str, Callable[[Fields], Record]] = {
    Kind.CLUSTER: _cluster,
    Kind.REGISTER_BROKER: _of_a_broker(register_broker),
    Kind.UNREGISTER_BROKER: lambda f: UnregisterBroker(f.integer("node_id"), f.integer("broker_epoch")),
    Kind.BROKER_CHANGE: _of_a_broker(
        lambda f: BrokerChange(f.integer("node_id"), f.integer("broker_epoch"), broker_state(f))
    ),
    Kind.TOPIC: _topic,
    Kind.REMOVE_TOPIC: lambda f: RemoveTopic(f.text("name"), f.id("topic_id")),
    Kind.PARTITION: _partitions,
    Kind.PARTITION_CHANGE: _partition_change,
    Kind.CONFIG: _config,
    Kind.PRODUCER_IDS: _producer_ids,
    Kind.CONTROLLER_CHANGE: lambda f: ControllerChange(
        f.integer("controller_id"), f.integer("controller_epoch"), f.integer("broker_epoch")
    ),
}
