"""The local replicas of this broker: their logs are created and removed as the image says (Kafka's ReplicaManager).

The generators yield before each partition, so that `yak.partitions.metadata_loader` can divide a large change into turns.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from itertools import islice

from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.cluster.image import Delta, Image, PartitionInfo, TopicInfo
from yak.cluster.records import Kind
from yak.cluster.registration import Identity
from yak.config.log_config import LogConfig
from yak.core.context import Context
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.partitions.offline_replicas import OfflineReplicas
from yak.ports.metadata_store import TailedRecord
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.replication.traffic import Traffic
from yak.storage.log import Log
from yak.storage.log_creation import Created, NewLog
from yak.storage.log_store import LogStore
from yak.storage.names import uncreated_name

RELEASED_A_SLICE = 10
"""Folders of deleted partitions that one turn moves aside: each takes a rename, and a job that removes the files."""
RELEASE_GAP_MS = 2


def _find_lost(
    image: Image, records: Sequence[TailedRecord], identity: Identity
) -> tuple[tuple[str, ...], set[TopicPartition]]:
    """Directories of the last registration that are missing, and the partitions that had their only replica here.

    The last one is that before this incarnation's registration (`records` applied on `image`).

    A broker whose disk was not mounted, or was replaced, finds an empty directory. A new log there would silently serve
    nothing, from offset 0, where there were records. So partitions without another replica stay offline until the
    directory is back, or an operator deletes the topic and accepts the loss. Partitions with other replicas are created
    again and replicated: the store treats an incarnation that lacks one of its directories as one that lost all data.

    Directories are identified by `directory.id` of `meta.properties`, which each registration carries.
    """
    ours = [
        record.offset
        for record in records
        if record.kind == Kind.REGISTER_BROKER and record.payload.get("boot_id") == identity.boot_id
    ]
    known = image.brokers.get(identity.node_id)
    if known is not None and known.boot_id == identity.boot_id:
        return (), set()
    end = ours[0] if ours else records[-1].offset + 1
    before = image.apply_all(record for record in records if record.offset < end)[0]
    known = before.brokers.get(identity.node_id)
    missing = () if known is None else tuple(each for each in known.directories if each not in identity.directories)
    topics = before.topics.values() if missing else ()
    return missing, {
        TopicPartition(topic.name, info.partition)
        for topic in topics
        for info in topic.partitions
        if info.replicas == (identity.node_id,)
    }


class LocalReplicas:
    """Creates, updates and removes local partitions and their logs."""

    def __init__(
        self,
        context: Context,
        lifecycle: BrokerLifecycle,
        partitions: dict[TopicPartition, Partition],
        log_store: LogStore,
        offline_replicas: OfflineReplicas,
        emit: EmitPartitionEvent,
    ) -> None:
        self._context, self._lifecycle = context, lifecycle
        self._node_id = lifecycle.identity.node_id
        self._partitions, self._log_store, self._offline_replicas = partitions, log_store, offline_replicas
        self._emit = emit
        self._released: dict[TopicPartition, tuple[Log | uuid.UUID, bool]] = {}
        """Logs of removed partitions whose folders are still to be moved aside, and whether their files stay; the topic id of
        a log that is not served."""
        self._leftovers: list[tuple[TopicPartition, uuid.UUID]] = []
        """The names and topics of logs that no partition had at the start: a crash came before their removal, or before the
        record of their partition was synced, or their directory was offline."""

    def open_all(self) -> None:
        """At the start, take the partitions of the image that have a replica on this broker."""
        for topic in self._context.image.topics.values():
            for info in topic.partitions:
                if self._node_id in info.replicas:
                    log = self._log_at_start(topic, info)
                    partition = self._assign(topic, info, log)
                    if log is None:
                        self._offline_replicas.leave(partition)
        held = {(where, partition.topic_id) for where, partition in self._partitions.items()}
        self._leftovers = [each for each in self._log_store.stored() if each not in held]
        without_log = (each for each in self._partitions.values() if each.log is None)
        self._log_store.keep_uncreated_marks(
            {uncreated_name(p.topic_id, p.topic_partition.partition) for p in without_log}
        )

    def remove_leftovers(self) -> None:
        """Remove the logs whose removal a crash prevented, once the image is current.

        The log of a topic or partition that the image does not know stays: it may be another cluster's.
        """
        image = self._context.image
        for topic_partition, topic_id in self._leftovers:
            topic = image.topics.get(image.topic_names.get(topic_id, ""))
            if topic is None:
                is_gone = topic_id in image.removed_topics
            else:
                number = topic_partition.partition
                is_gone = number < len(topic.partitions) and self._node_id not in topic.partitions[number].replicas
            if not is_gone:
                continue
            self._context.notice("info", "replica-removed", partition=str(topic_partition))
            log = self._log_store.logs.get(topic_partition)
            self._released[topic_partition] = (log if log is not None and log.topic_id == topic_id else topic_id, False)
        self._leftovers.clear()
        if self._released:
            self._context.after(self, RELEASE_GAP_MS, self.release_slice)

    def missing_logs(
        self, records: Sequence[TailedRecord], image: Image, delta: Delta
    ) -> tuple[list[NewLog], list[NewLog]]:
        """The logs that `records` assign to this broker and that it does not have yet, and those in occupied folders.

        The latter can be created when the logs of deleted topics have left these folders.
        """
        missing = self._without_lost(records, self._assigned(image, delta))
        self.make_room(missing)
        fresh = [new for new in missing if new[0] not in self._partitions]
        return fresh, [new for new in missing if new[0] in self._partitions]

    def _assigned(self, image: Image, delta: Delta) -> list[NewLog]:
        missing = []
        for name in delta.topics_changed:
            topic = image.topics[name]
            config = None
            for info in delta.changed_partitions(topic):
                if self._node_id not in info.replicas:
                    continue
                held = self._partitions.get(TopicPartition(name, info.partition))
                if held is None or held.topic_id != topic.topic_id:
                    config = config or self._offline_replicas.log_config(topic)
                    missing.append((TopicPartition(name, info.partition), topic.topic_id, config))
        return missing

    def _without_lost(self, records: Sequence[TailedRecord], missing: list[NewLog]) -> list[NewLog]:
        """`missing` without the logs that a missing data directory may hold; their partitions stay offline."""
        if not missing:
            return missing
        directory_ids, lost = _find_lost(self._context.image, records, self._lifecycle.identity)
        offline = [new for new in missing if new[0] in lost and new[0] not in self._log_store.logs]
        if not offline:
            return missing
        self._context.notice(
            "error",
            "data-directory-missing",
            directory_ids=", ".join(directory_ids),
            partitions=len(offline),
            what="these partitions stay offline: mount the directory and restart, or delete their topics",
        )
        return [new for new in missing if new not in offline]

    def apply_roles(self, image: Image, delta: Delta, created: Created) -> Iterator[None]:
        """Give the changed partitions of this broker their new roles, and release those that moved away."""
        for name in delta.topics_changed:
            topic, config = image.topics[name], None
            for info in delta.changed_partitions(topic):
                yield
                topic_partition = TopicPartition(name, info.partition)
                held = self._partitions.get(topic_partition)
                if self._node_id in info.replicas:
                    log = None if held is None or held.topic_id != topic.topic_id else held.log
                    if topic_partition in created:
                        config = config or self._offline_replicas.log_config(topic)
                        log = self._offline_replicas.usable(topic_partition, created[topic_partition], config)
                    partition = self._assign(topic, info, log)
                    if partition.log is None and (
                        partition is not held
                        or self._node_id in info.isr
                        or self._offline_replicas.exits.was_last(partition)
                    ):
                        # The log could not be created, or is offline and in the ISR, or was the last one in sync until an
                        # unclean election, and may be copied again now.
                        self._offline_replicas.leave(partition)
                elif held is not None and held.topic_id == topic.topic_id:
                    self._release_moved(topic_partition)

    def _assign(self, topic: TopicInfo, info: PartitionInfo, log: Log | None) -> Partition:
        """Become leader or follower of a local partition as the image says; leader only if elected in this incarnation."""
        topic_partition = TopicPartition(topic.name, info.partition)
        partition = held = self._partitions.get(topic_partition)
        if partition is None or partition.topic_id != topic.topic_id:
            partition = Partition(topic_partition, topic.topic_id, log, Traffic() if held is None else held.traffic)
            if log is not None:
                known = self._log_store.high_watermarks.get(topic_partition, 0)
                partition.high_watermark = max(log.log_start_offset, min(known, log.log_end_offset))
            self._partitions[topic_partition] = partition
            if held is None:
                self._emit(partition, PartitionEvent.ADDED)
        led = partition.is_leader
        may_lead = (self._node_id, self._lifecycle.broker_epoch) in info.isr_members
        if partition.become(self._node_id, info, now_ms=self._context.clock.now_ms, may_lead=may_lead):
            leads_on = led and partition.is_leader
            event = PartitionEvent.LEADER_EPOCH_CHANGED if leads_on else PartitionEvent.LEADER_CHANGED
            self._emit(partition, event)
        elif partition.is_leader and len(info.replicas) > 1:
            self._emit(partition, PartitionEvent.ISR_CHANGED)
        if log is not None and partition.is_leader:
            self._emit(partition, PartitionEvent.OFFSETS_MOVED)
        return partition

    def _log_at_start(self, topic: TopicInfo, info: PartitionInfo) -> Log | None:
        """The log on disk, at start, of a partition in the image; None, and the partition is offline, without a folder.

        A mark, or a folder that belongs to an older topic of that name, means that the topic's log was not created yet.
        """
        topic_partition = TopicPartition(topic.name, info.partition)
        log = self._log_store.logs.get(topic_partition)
        if log is not None and log.topic_id == topic.topic_id:
            return self._offline_replicas.flushed(log)
        is_uncreated = self._log_store.is_uncreated(topic_partition, topic.topic_id)
        if log is None and not self._log_store.may_hold(topic_partition) and not is_uncreated:
            if len(info.replicas) > 1:
                what = "it is copied again from its leader, unless it is the last one in sync"
            else:
                what = "the partition stays offline: restore its folder and restart, or delete the topic"
            self._context.notice("error", "log-missing", partition=str(topic_partition), what=what)
            return None
        try:
            created = self._log_store.create(
                topic_partition, topic.topic_id, self._offline_replicas.log_config(topic), is_new=False
            )
        except LogDirectoryFailure as error:
            self._offline_replicas.not_created(topic_partition, error)
            return None
        return self._offline_replicas.flushed(created)

    def drop_removed(self, before: Image, image: Image, delta: Delta) -> Iterator[None]:
        """Delete the local partitions of topics that the image lacks, and their files, in slices.

        A restored image lacks a topic that no answering broker knew: the logs of such a topic are set aside, not deleted.
        """
        for name, topic_id in delta.topics_removed:
            topic = before.topics.get(name)
            if topic is not None and topic.topic_id == topic_id:
                yield from self._drop(topic, keep=_is_set_aside(before, image, topic_id))

    def deleted_topics(self, before: Image, image: Image, delta: Delta) -> list[str]:
        """The names of deleted topics, without those whose logs are set aside after a restore."""
        return [
            name
            for name, topic_id in delta.topics_removed
            if name in image.topics or not _is_set_aside(before, image, topic_id)
        ]

    def _drop(self, topic: TopicInfo, *, keep: bool) -> Iterator[None]:
        for info in topic.partitions:
            yield
            topic_partition = TopicPartition(topic.name, info.partition)
            partition = self._partitions.get(topic_partition)
            if partition is not None and partition.topic_id == topic.topic_id:
                del self._partitions[topic_partition]
                self._release(partition, PartitionEvent.DELETED, keep=keep)

    def _release_moved(self, topic_partition: TopicPartition) -> None:
        """Remove a local replica, and its files, after a reassignment moved it to another broker."""
        self._context.notice("info", "replica-removed", partition=str(topic_partition))
        self._release(self._partitions.pop(topic_partition), PartitionEvent.REMOVED)

    def _release(self, partition: Partition, event: PartitionEvent, *, keep: bool = False) -> None:
        """Forget a partition that left this broker; a slice moves its log's folder aside, in this turn or soon."""
        log, partition.log, partition.is_leader = partition.log, None, False
        self._emit(partition, event)
        self._released[partition.topic_partition] = (partition.topic_id if log is None else log, keep)

    def release_slice(self, most: int | None = RELEASED_A_SLICE) -> None:
        """Move this many released logs aside; all for None, before a stop: the next start would take them for strays."""
        for topic_partition in list(islice(self._released, most)):
            log, keep = self._released.pop(topic_partition)
            self._offline_replicas.delete(log, topic_partition, keep=keep)
        if self._released:
            self._context.after(self, RELEASE_GAP_MS, self.release_slice)

    def make_room(self, new: Sequence[NewLog]) -> None:
        """Move released logs aside at once where new logs of the same names are about to be created."""
        for topic_partition, _topic_id, _config in new:
            if topic_partition in self._released:
                log, keep = self._released.pop(topic_partition)
                self._offline_replicas.delete(log, topic_partition, keep=keep)

    def apply_configs(self, delta: Delta) -> Iterator[None]:
        """Apply changed configurations to the local logs, in slices."""
        everywhere = any(kind == "broker" for kind, _name in delta.configs_changed)
        names = {name for kind, name in delta.configs_changed if kind == "topic"}
        configs: dict[str, LogConfig] = {}
        for topic_partition, partition in list(self._partitions.items()):
            name = topic_partition.topic
            topic = self._context.image.topics.get(name) if everywhere or name in names else None
            if partition.log is None or topic is None:
                continue
            yield
            log = partition.log
            if log is None:
                continue
            if name not in configs:
                configs[name] = self._offline_replicas.log_config(topic)
            was_compacted = log.config.is_compacted
            log.update_config(configs[name])
            self._emit(partition, PartitionEvent.CONFIG_CHANGED)
            if was_compacted and not log.config.is_compacted:
                # the checkpoint may lack gaps that a round of compaction left, or that a leader's did
                self._emit(partition, PartitionEvent.GAP_FOUND)
            if partition.is_leader and partition.advance_high_watermark():
                # the new configuration may require fewer in-sync replicas, or no flush
                self._emit(partition, PartitionEvent.OFFSETS_MOVED)


def _is_set_aside(before: Image, image: Image, topic_id: uuid.UUID) -> bool:
    is_restored = image.incarnation_id != before.incarnation_id and bool(before.offset)
    return is_restored and topic_id not in image.removed_topics
