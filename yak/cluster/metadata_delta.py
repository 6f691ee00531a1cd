"""Replays metadata records onto an image. Copies each map once and rebuilds each changed topic once."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from yak.cluster.image import (
    REMOVED_TOPICS_MAX,
    BrokerInfo,
    ChainBroken,
    Delta,
    Image,
    PartitionInfo,
    PendingTopic,
    ProducerBlock,
    RemovedTopic,
    TopicInfo,
)
from yak.cluster.records import (
    ACL,
    QUOTA,
    TOKEN,
    USER,
    BrokerChange,
    BrokerState,
    ChangedPartition,
    Cluster,
    Config,
    ControllerChange,
    Kind,
    NewPartition,
    OldExternalBroker,
    PartitionChange,
    Partitions,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    Snapshot,
    Topic,
    UnregisterBroker,
    parse,
)
from yak.cluster.snapshot import read_snapshot
from yak.ids import NodeId
from yak.ports.metadata_store import TailedRecord

CONFIG_MAPS: Final = {
    "group": "group_configs",
    USER: "user_credentials",
    TOKEN: "delegation_tokens",
    QUOTA: "quotas",
    ACL: "acls",
}
"""The maps of an image by the resource type of their records, which replace or remove all configs of a resource."""


class MetadataDelta:
    """The changes of a run of records to an image, as Kafka's MetadataDelta: `replay` each record, then `apply`."""

    def __init__(self, image: Image) -> None:
        self._take(image)
        self._topics_changed: dict[str, None] = {}
        self._partitions_changed: dict[str, dict[int, None]] = {}
        self._topics_removed: list[tuple[str, uuid.UUID]] = []
        self._brokers_changed: dict[NodeId, None] = {}
        self._configs_changed: dict[tuple[str, str], None] = {}
        self._controller_changed = False

    def _take(self, image: Image) -> None:
        self._base = image
        self._set: dict[str, Any] = {}
        self._open: dict[str, list[PartitionInfo]] = {}
        """Partitions of the topics changed so far, by name, as lists that may be written."""
        self._growing: dict[uuid.UUID, dict[int, PartitionInfo]] = {}
        self._offset = image.offset
        self._chain_hash = image.chain_hash
        self._timestamp_ms = image.timestamp_ms

    def replay(self, record: TailedRecord) -> None:
        """Replay one more record. Raises ChainBroken or BadRecord; the delta must then be thrown away."""
        if record.kind != Kind.SNAPSHOT:
            if record.offset != self._offset + 1:
                raise ChainBroken(f"record {record.offset} does not follow {self._offset}")
            if record.previous_hash != self._chain_hash:
                raise ChainBroken(f"record {record.offset} follows another record {self._offset} than the one known")
        content = parse(record)
        self._timestamp_ms = record.timestamp_ms
        if isinstance(content, Snapshot):
            self._load(record)
        else:
            self._HANDLERS[type(content)](self, content)
        self._offset = record.offset
        self._chain_hash = record.chain_hash

    def apply(self) -> tuple[Image, Delta]:
        """The resulting image and the delta."""
        for name in list(self._open):
            self._close_topic(name)
        for topic_id in list(self._growing):
            self._close_growing(topic_id)
        image = replace(
            self._base, offset=self._offset, chain_hash=self._chain_hash, timestamp_ms=self._timestamp_ms, **self._set
        )
        removed = tuple(self._topics_removed)
        changed = tuple(name for name in self._topics_changed if name in image.topics)
        partitions = {
            name: tuple(sorted(self._partitions_changed[name])) for name in changed if name in self._partitions_changed
        }
        delta = Delta(
            changed,
            removed,
            tuple(self._brokers_changed),
            tuple(self._configs_changed),
            self._controller_changed,
            partitions,
        )
        return image, delta

    def _map(self, name: str) -> dict[Any, Any]:
        """A writable copy of one of the image's maps."""
        if name not in self._set:
            self._set[name] = dict(getattr(self._base, name))
        copy: dict[Any, Any] = self._set[name]
        return copy

    def _get(self, name: str) -> Any:
        return self._set[name] if name in self._set else getattr(self._base, name)

    # ------------------------------------------------------------------------------------------------ topics

    def _replay_topic(self, record: Topic) -> None:
        """Start or enlarge a topic."""
        topics = self._get("topics")
        old: TopicInfo | None = topics.get(record.name)
        partitions: dict[int, PartitionInfo] = {}
        configs = record.configs
        if old is not None and old.topic_id == record.topic_id:
            self._close_topic(record.name)
            old = self._get("topics")[record.name]
            partitions = {p.partition: p for p in old.partitions}
            configs = old.configs if configs is None else configs
        elif configs is None and record.topic_id in self._get("pending"):
            configs = self._get("pending")[record.topic_id].configs
        # it may grow again before it is complete
        partitions = self._growing_partitions(record.topic_id) or partitions
        pending = PendingTopic(record.name, record.topic_id, record.partitions, partitions, configs or {})
        self._map("pending")[record.topic_id] = pending
        self._growing[record.topic_id] = partitions

    def _replay_partitions(self, record: Partitions) -> None:
        """Add partitions to an incomplete topic; partitions of any other topic are late slices of a removed one."""
        partitions = self._growing_partitions(record.topic_id)
        if partitions is None:
            return
        pending: PendingTopic = self._get("pending")[record.topic_id]
        for new in record.partitions:
            partitions[new.partition] = _created_partition(new, self._timestamp_ms)
        if len(partitions) >= pending.total:
            self._complete(pending, partitions)

    def _complete(self, pending: PendingTopic, partitions: dict[int, PartitionInfo]) -> None:
        del self._map("pending")[pending.topic_id]
        del self._growing[pending.topic_id]
        # The old partitions may have changed while the topic grew: take their current state.
        self._close_topic(pending.name)
        old: TopicInfo | None = self._get("topics").get(pending.name)
        configs = pending.configs
        present = 0
        if old is not None and old.topic_id == pending.topic_id:
            configs = old.configs
            present = len(old.partitions)
            partitions = partitions | {p.partition: p for p in old.partitions}
        ordered = tuple(partitions[number] for number in sorted(partitions))
        self._map("topics")[pending.name] = TopicInfo(
            pending.name, pending.topic_id, ordered, configs, self._timestamp_ms
        )
        self._map("topic_names")[pending.topic_id] = pending.name
        self._note_partitions(pending.name, range(present, len(ordered)))

    def _replay_remove_topic(self, record: RemoveTopic) -> None:
        removed = self._map("removed_topics")
        removed[record.topic_id] = RemovedTopic(record.name, self._timestamp_ms)
        if len(removed) > REMOVED_TOPICS_MAX:
            del removed[next(iter(removed))]
        if record.topic_id in self._get("pending"):
            del self._map("pending")[record.topic_id]
            self._growing.pop(record.topic_id, None)
        old = self._get("topics").get(record.name)
        if old is None or old.topic_id != record.topic_id:
            return
        self._open.pop(record.name, None)
        self._partitions_changed.pop(record.name, None)
        del self._map("topics")[record.name]
        del self._map("topic_names")[record.topic_id]
        self._topics_removed.append((record.name, record.topic_id))

    def _replay_partition_change(self, record: PartitionChange) -> None:
        names = self._get("topic_names")
        for change in record.changes:
            growing = self._growing_partitions(change.topic_id)
            if growing is not None and change.partition in growing:
                growing[change.partition] = _changed_partition(growing[change.partition], change, self._timestamp_ms)
            name = names.get(change.topic_id)
            if name is None:
                continue
            partitions = self._open.get(name)
            if partitions is None:
                partitions = self._open[name] = list(self._get("topics")[name].partitions)
            if change.partition < len(partitions):
                old = partitions[change.partition]
                partitions[change.partition] = _changed_partition(old, change, self._timestamp_ms)
                self._note_partitions(name, (change.partition,))

    def _note_partitions(self, name: str, numbers: Iterable[int]) -> None:
        self._topics_changed[name] = None
        self._partitions_changed.setdefault(name, {}).update(dict.fromkeys(numbers))

    def _growing_partitions(self, topic_id: uuid.UUID) -> dict[int, PartitionInfo] | None:
        if topic_id in self._growing:
            return self._growing[topic_id]
        pending = self._get("pending").get(topic_id)
        if pending is None:
            return None
        self._growing[topic_id] = dict(pending.partitions)
        return self._growing[topic_id]

    def _close_topic(self, name: str) -> None:
        partitions = self._open.pop(name, None)
        if partitions is not None:
            topics = self._map("topics")
            topics[name] = replace(topics[name], partitions=tuple(partitions))

    def _close_growing(self, topic_id: uuid.UUID) -> None:
        partitions = self._growing.pop(topic_id)
        pending = self._map("pending")
        pending[topic_id] = replace(pending[topic_id], partitions=partitions)

    # -------------------------------------------------------------------------------- brokers and the rest

    def _replay_cluster(self, record: Cluster) -> None:
        self._set["cluster_id"] = record.cluster_id
        self._set["incarnation"] = record.incarnation
        self._set["incarnation_id"] = record.incarnation_id
        self._set["incarnation_ms"] = self._timestamp_ms

    def _replay_register_broker(self, record: RegisterBroker) -> None:
        old: BrokerInfo | None = self._get("brokers").get(record.node_id)
        lossy_epoch = record.broker_epoch if record.lossy else (old.lossy_epoch if old else 0)
        # the disk of a broker that was unregistered may be another machine's
        known: BrokerInfo | None = old or self._get("former").get(record.node_id)
        emptied_epoch = 0 if known is None else known.emptied_epoch
        lacks_directory = known is not None and bool(set(known.directories) - set(record.directories))
        if lacks_directory or (known is None and record.node_id in self._get("unregistered")):
            emptied_epoch = record.broker_epoch
        self._map("brokers")[record.node_id] = BrokerInfo.of(
            record,
            state=BrokerState.FENCED,
            lossy_epoch=lossy_epoch,
            emptied_epoch=emptied_epoch,
            changed_ms=self._timestamp_ms,
        )
        self._brokers_changed[record.node_id] = None
        for name in ("unregistered", "former"):
            if record.node_id in self._get(name):
                del self._map(name)[record.node_id]

    def _replay_unregister_broker(self, record: UnregisterBroker) -> None:
        old: BrokerInfo | None = self._map("brokers").pop(record.node_id, None)
        if old is not None:
            closed = replace(old, state=BrokerState.CLOSED, changed_ms=self._timestamp_ms)
            self._map("former")[record.node_id] = closed
        self._map("unregistered")[record.node_id] = record.broker_epoch
        self._brokers_changed[record.node_id] = None

    def _replay_broker_change(self, record: BrokerChange) -> None:
        """Change a broker's state, unless it has registered again since."""
        old: BrokerInfo | None = self._get("brokers").get(record.node_id)
        if old is not None and old.broker_epoch == record.broker_epoch:
            self._map("brokers")[record.node_id] = replace(
                old,
                state=record.state,
                was_active=old.was_active or record.state is BrokerState.ACTIVE,
                changed_ms=self._timestamp_ms,
            )
            self._brokers_changed[record.node_id] = None

    def _skip_external_broker(self, record: OldExternalBroker) -> None:
        """Change nothing: external brokers have a registry of their own (ADR 0015)."""

    def _replay_config(self, record: Config) -> None:
        if record.resource_type == "topic":
            self._topic_config(record)
        elif record.resource_type in CONFIG_MAPS:
            configs = self._map(CONFIG_MAPS[record.resource_type])
            configs.pop(record.resource_name, None)
            if record.configs:
                configs[record.resource_name] = record.configs
        elif record.resource_name == "":
            self._set["default_broker_configs"] = record.configs
        else:
            self._map("broker_configs")[int(record.resource_name)] = record.configs
        self._configs_changed[record.resource_type, record.resource_name] = None

    def _topic_config(self, record: Config) -> None:
        if record.resource_name in self._get("topics"):
            topics = self._map("topics")
            old = topics[record.resource_name]
            topics[record.resource_name] = replace(old, configs=record.configs, changed_ms=self._timestamp_ms)
            self._topics_changed[record.resource_name] = None
        for pending in [each for each in self._get("pending").values() if each.name == record.resource_name]:
            self._map("pending")[pending.topic_id] = replace(pending, configs=record.configs)

    def _replay_producer_ids(self, record: ProducerIds) -> None:
        self._set["next_producer_id"] = record.next_producer_id
        self._map("producer_blocks")[record.node_id] = ProducerBlock(
            record.node_id, record.broker_epoch, record.first, record.next_producer_id, self._timestamp_ms
        )

    def _replay_controller_change(self, record: ControllerChange) -> None:
        self._set["controller_id"] = record.controller_id
        self._set["controller_epoch"] = record.controller_epoch
        self._set["controller_broker_epoch"] = record.broker_epoch
        self._controller_changed = True

    def _load(self, record: TailedRecord) -> None:
        # Topics that are not in the snapshot were removed in between.
        before_topics, before_brokers = self._get("topics"), self._get("brokers")
        image = read_snapshot(record)
        for name, topic in before_topics.items():
            if image.topics.get(name) is None or image.topics[name].topic_id != topic.topic_id:
                self._topics_removed.append((name, topic.topic_id))
        self._partitions_changed.clear()
        for name, topic in image.topics.items():
            self._note_partitions(name, range(len(topic.partitions)))
        self._brokers_changed |= dict.fromkeys([*before_brokers, *image.brokers])
        self._configs_changed[("broker", "")] = None
        self._configs_changed |= dict.fromkeys(("broker", str(node_id)) for node_id in image.broker_configs)
        self._controller_changed = True
        self._take(image)

    _HANDLERS: Final[Mapping[type, Callable[["MetadataDelta", Any], None]]] = {
        Topic: _replay_topic,
        Partitions: _replay_partitions,
        RemoveTopic: _replay_remove_topic,
        PartitionChange: _replay_partition_change,
        Cluster: _replay_cluster,
        RegisterBroker: _replay_register_broker,
        UnregisterBroker: _replay_unregister_broker,
        BrokerChange: _replay_broker_change,
        OldExternalBroker: _skip_external_broker,
        Config: _replay_config,
        ProducerIds: _replay_producer_ids,
        ControllerChange: _replay_controller_change,
    }


def _created_partition(new: NewPartition, changed_ms: int) -> PartitionInfo:
    epochs = new.leader_epoch, new.partition_epoch
    return PartitionInfo(new.partition, new.replicas, new.isr, (), new.leader, *epochs, changed_ms=changed_ms)


def _changed_partition(old: PartitionInfo, change: ChangedPartition, changed_ms: int) -> PartitionInfo:
    return PartitionInfo(
        old.partition,
        old.replicas if change.replicas is None else change.replicas,
        change.isr,
        change.elr,
        change.leader,
        change.leader_epoch,
        change.partition_epoch,
        change.adding,
        change.removing,
        changed_ms=changed_ms,
    )
