"""The local replicas of this broker: their logs are created and removed as the image says (Kafka's ReplicaManager).

`create_all`, `create_again` and `mark_directories` run in jobs; the rest belongs to the step.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.cluster.image import Delta, Image, PartitionInfo, TopicInfo
from yak.cluster.records import Kind
from yak.cluster.registration import Identity
from yak.cluster.restore_offer import LogEnd
from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.replication.partition import Partition
from yak.replication.partition_events import PartitionEvent
from yak.seams.metadata_store import TailedRecord
from yak.storage.log import Log
from yak.storage.log_store import LogStore

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.metadata import Metadata

FEW_LOGS = 8
"""For more new logs than this, one sync of the file system makes all of them durable, instead of three syncs for each."""
RELEASED_A_SLICE = 10
"""Folders of deleted partitions that one turn moves aside: each takes a rename, and a job that removes the files."""
RELEASE_GAP_MS = 2
NewLog: TypeAlias = tuple[TopicPartition, uuid.UUID, Any]
"""Partition, topic id and configuration of a log to create."""
Created: TypeAlias = dict[TopicPartition, Log | OSError | LogDirectoryFailure]


@dataclass(slots=True, frozen=True)
class LostDirectories:
    """Directories of the last registration that are missing, and the partitions that had their only replica here.

    A broker whose disk was not mounted, or was replaced, finds an empty directory. A new log there would silently serve
    nothing, from offset 0, where there were records. So partitions without another replica stay offline until the
    directory is back, or an operator deletes the topic and accepts the loss. Partitions with other replicas are created
    again and replicated: the store treats an incarnation that lacks one of its directories as one that lost all data.

    Directories are identified by `directory.id` of `meta.properties`, which each registration carries.
    """

    missing_ids: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()


def find_lost(image: Image, records: Sequence[TailedRecord], identity: Identity) -> LostDirectories:
    """The losses, from the metadata before this incarnation's registration (`records` applied on `image`)."""
    ours = [
        record.offset
        for record in records
        if record.kind == Kind.REGISTER_BROKER and record.payload.get("boot_id") == identity.boot_id
    ]
    known = image.brokers.get(identity.node_id)
    if known is not None and known.boot_id == identity.boot_id:
        return LostDirectories()
    end = ours[0] if ours else records[-1].offset + 1
    before = image.apply_all(record for record in records if record.offset < end)[0]
    known = before.brokers.get(identity.node_id)
    missing = () if known is None else tuple(each for each in known.directories if each not in identity.directories)
    if not missing:
        return LostDirectories()
    held = (
        TopicPartition(topic.name, info.partition)
        for topic in before.topics.values()
        for info in topic.partitions
        if info.replicas == (identity.node_id,)
    )
    return LostDirectories(missing, frozenset(held))


class LocalReplicas:
    """Creates, updates and removes local partitions and their logs, on behalf of `Metadata`."""

    def __init__(self, broker: Broker, metadata: Metadata, log_store: LogStore) -> None:
        self._broker = broker
        self._metadata = metadata
        self._log_store = log_store
        self._count_by_topic: dict[str, int] = {}
        """Number of local partitions of each topic."""
        self._released: dict[TopicPartition, tuple[Log, bool]] = {}
        """Logs of removed partitions whose folders are still to be moved aside, and whether their files are kept."""

    def missing_logs(self, image: Image, delta: Delta) -> list[NewLog]:
        """The logs that `image` assigns to this broker and that it does not have yet."""
        missing = []
        for name in delta.topics_changed:
            topic = image.topics[name]
            config = None
            for info in delta.changed_partitions(topic):
                if self._broker.node_id not in info.replicas:
                    continue
                held = self._broker.partitions.get(TopicPartition(name, info.partition))
                if held is None or held.topic_id != topic.topic_id:
                    config = config or self._metadata.log_config(topic)
                    missing.append((TopicPartition(name, info.partition), topic.topic_id, config))
        return missing

    def without_lost(self, records: Sequence[TailedRecord], missing: list[NewLog]) -> list[NewLog]:
        """`missing` without the logs that a missing data directory may hold; their partitions stay offline."""
        lost = find_lost(self._broker.image, records, self._broker.identity) if missing else LostDirectories()
        offline = [new for new in missing if new[0] in lost.partitions and new[0] not in self._log_store.logs]
        if not offline:
            return missing
        self._broker.notice(
            "error",
            "data-directory-missing",
            directory_ids=", ".join(lost.missing_ids),
            partitions=len(offline),
            what="these partitions stay offline: mount the directory and restart, or delete their topics",
        )
        return [new for new in missing if new not in offline]

    def create_all(self, missing: Sequence[NewLog]) -> Created:
        """Create these logs, or find them on disk; waits for the device, only once for many logs."""
        is_durable = len(missing) <= FEW_LOGS
        created = {tp: self._create(tp, topic_id, config, is_durable=is_durable) for tp, topic_id, config in missing}
        for failure in [] if is_durable else self._log_store.sync_created():
            for topic_partition, log in created.items():
                if isinstance(log, Log) and log.directory == failure.directory:
                    created[topic_partition] = failure
        return created

    def create_again(self, wanted: Sequence[NewLog]) -> Created:
        """Replace lost or damaged logs with empty ones; waits for the device."""
        for topic_partition, _topic_id, _config in wanted:
            self._log_store.set_aside(topic_partition)
        return self.create_all(wanted)

    def _create(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        config: Any,
        *,
        is_new: bool = True,
        is_durable: bool = True,
    ) -> Log | OSError | LogDirectoryFailure:
        try:
            return self._log_store.create(topic_partition, topic_id, config, is_new=is_new, is_durable=is_durable)
        except (OSError, LogDirectoryFailure) as error:
            return error

    def mark_directories(self, cluster_id: str) -> LogDirectoryFailure | None:
        """Write the cluster's id to the directories that lack it; returns the first failure, after which it stops."""
        if cluster_id and self._log_store.lacks_cluster_id():
            try:
                self._log_store.set_cluster_id(cluster_id)
            except LogDirectoryFailure as failure:
                return failure
        return None

    def assign(self, topic: TopicInfo, info: PartitionInfo, log: Log | None) -> None:
        """Become leader or follower of a local partition as the image says; leader only if elected in this incarnation."""
        broker = self._broker
        topic_partition = TopicPartition(topic.name, info.partition)
        partition = broker.partitions.get(topic_partition)
        if partition is None or partition.topic_id != topic.topic_id:
            partition = Partition(topic_partition, topic.topic_id, log, broker.counters.topic(topic.name))
            if log is not None:
                known = self._log_store.high_watermarks.get(topic_partition, 0)
                partition.high_watermark = max(log.log_start_offset, min(known, log.log_end_offset))
            if topic_partition not in broker.partitions:
                self._count_by_topic[topic.name] = self._count_by_topic.get(topic.name, 0) + 1
            broker.partitions[topic_partition] = partition
        led = partition.is_leader
        if partition.become(
            node_id=broker.node_id,
            leader_id=info.leader,
            leader_epoch=info.leader_epoch,
            partition_epoch=info.partition_epoch,
            replicas=info.replicas,
            isr=info.isr,
            isr_epochs=info.isr_epochs,
            elr=info.elr,
            now_ms=broker.now_ms,
            may_lead=(broker.node_id, self._metadata.lifecycle.broker_epoch)
            in zip(info.isr, info.isr_epochs, strict=True),
        ):
            leads_on = led and partition.is_leader
            event = PartitionEvent.LEADER_EPOCH_CHANGED if leads_on else PartitionEvent.LEADER_CHANGED
            broker.partition_changed(partition, event)
        elif partition.is_leader and len(info.replicas) > 1:
            broker.partition_changed(partition, PartitionEvent.ISR_CHANGED)
        if log is not None and partition.is_leader:
            broker.partition_changed(partition, PartitionEvent.HIGH_WATERMARK_ADVANCED)

    def log_at_start(self, topic: TopicInfo, info: PartitionInfo) -> Log | None:
        """The log on disk, at start, of a partition in the image; None, and the partition is offline, without a folder.

        A folder that belongs to an older topic of that name means that the new topic's log was not created yet.
        """
        topic_partition = TopicPartition(topic.name, info.partition)
        log = self._log_store.logs.get(topic_partition)
        if log is not None and log.topic_id == topic.topic_id:
            return self._flushed(log)
        if log is None and topic_partition not in self._log_store.unavailable:
            if len(info.replicas) > 1:
                what = "it is copied again from its leader, unless it is the last one in sync"
            else:
                what = "the partition stays offline: restore its folder and restart, or delete the topic"
            self._broker.notice("error", "log-missing", partition=str(topic_partition), what=what)
            return None
        created = self._create(topic_partition, topic.topic_id, self._metadata.log_config(topic), is_new=False)
        if isinstance(created, (OSError, LogDirectoryFailure)):
            self._broker.notice("error", "log-not-created", partition=str(topic_partition), error=str(created))
            self._broker.offline_replicas.lacks_room(topic_partition, created)
            return None
        return self._flushed(created)

    def is_lost(self, topic_partition: TopicPartition) -> bool:
        """Whether an unusable log is lost or damaged, not merely in a directory that is offline."""
        held = self._log_store.unavailable.get(topic_partition)
        return held is None or any(held.directory == directory.path for directory in self._log_store.online())

    def taken(self, topic_partition: TopicPartition, created: Any, config: LogConfig) -> Log | None:
        """The log that a job created or found on disk; None when it cannot be used."""
        broker = self._broker
        if isinstance(created, (OSError, LogDirectoryFailure)):
            broker.notice("error", "log-not-created", partition=str(topic_partition), error=str(created))
            return None
        log: Log = created
        if not self._log_store.settle(log):
            return None
        # the log may be older than this broker's copy of the metadata, or a config changed during the job
        log.update_config(config)
        return self._flushed(log) if log.log_end_offset else log

    def _flushed(self, log: Log) -> Log | None:
        """Flush a recovered log with `flush.messages=1` before it serves: only flushed records count there."""
        if log.config.flush_messages == 1 and log.unflushed_messages:
            plan = log.flush_plan()
            try:
                plan.run()
            except LogDirectoryFailure as failure:
                self._broker.offline_replicas.directory_failed(failure)
                return None
            log.flushed(plan, self._broker.now_ms)
        return log

    def log_ends(self) -> dict[tuple[uuid.UUID, int], LogEnd]:
        """The end of every local log that is online, for a restore of the metadata store."""
        return {
            (partition.topic_id, place.partition): LogEnd(
                partition.log.epochs.latest, partition.log.log_end_offset, partition.is_leader
            )
            for place, partition in self._broker.partitions.items()
            if partition.log is not None
        }

    def drop_removed(self, before: Image, image: Image, delta: Delta) -> Iterator[None]:
        """Delete the local partitions of topics that the image lacks, and their files, in slices.

        A restored image lacks a topic that no answering broker knew: the logs of such a topic are set aside, not deleted.
        """
        for name, topic_id in delta.topics_removed:
            topic = before.topics.get(name)
            if topic is not None and topic.topic_id == topic_id:
                yield from self._drop(topic, keep=_is_kept(before, image, topic_id))

    def deleted_topics(self, before: Image, image: Image, delta: Delta) -> list[str]:
        """The names of deleted topics, without those whose logs are set aside after a restore."""
        return [
            name
            for name, topic_id in delta.topics_removed
            if name in image.topics or not _is_kept(before, image, topic_id)
        ]

    def _drop(self, topic: TopicInfo, *, keep: bool) -> Iterator[None]:
        broker = self._broker
        for info in topic.partitions:
            if self._metadata.is_slice_full():
                yield
            topic_partition = TopicPartition(topic.name, info.partition)
            partition = broker.partitions.get(topic_partition)
            if partition is None or partition.topic_id != topic.topic_id:
                continue
            del broker.partitions[topic_partition]
            self._release(partition, PartitionEvent.DELETED, keep=keep)

    def release(self, topic_partition: TopicPartition) -> None:
        """Remove a local replica, and its files, after a reassignment moved it to another broker."""
        self._broker.notice("info", "replica-removed", partition=str(topic_partition))
        self._release(self._broker.partitions.pop(topic_partition), PartitionEvent.REMOVED)

    def _release(self, partition: Partition, event: PartitionEvent, *, keep: bool = False) -> None:
        """Forget a partition that left this broker; a slice moves its log's folder aside, in this turn or soon."""
        log, partition.log, partition.is_leader = partition.log, None, False
        self._broker.partition_changed(partition, event)
        name = partition.topic_partition.topic
        self._count_by_topic[name] -= 1
        if not self._count_by_topic[name]:
            del self._count_by_topic[name]
            self._broker.counters.retire(name)
        if log is not None:
            self._released[partition.topic_partition] = (log, keep)

    def release_slice(self, most: int | None = RELEASED_A_SLICE) -> None:
        """Move this many released logs aside; all for None, before a stop: the next start would take them for strays."""
        for topic_partition in list(islice(self._released, most)):
            self._move_aside(*self._released.pop(topic_partition))
        if self._released:
            self._broker.timers.arm(self, self._broker.now_ms + RELEASE_GAP_MS, self.release_slice)

    def make_room(self, new: Sequence[NewLog]) -> None:
        """Move released logs aside at once where new logs of the same names are about to be created."""
        for topic_partition, _topic_id, _config in new:
            released = self._released.pop(topic_partition, None)
            if released is not None:
                self._move_aside(*released)

    def _move_aside(self, log: Log, keep: bool) -> None:
        broker = self._broker
        try:
            remove = self._log_store.delete(log, keep=keep)
        except LogDirectoryFailure as failure:
            broker.offline_replicas.directory_failed(failure)
            return
        broker.jobs.run("delete", remove, self._deleted)

    def _deleted(self, result: Any, error: BaseException | None) -> None:  # noqa: ARG002
        if error is not None:
            self._broker.notice("warning", "files-not-deleted", error=str(error))

    def apply_configs(self, delta: Delta) -> Iterator[None]:
        """Apply changed configurations to the local logs, in slices."""
        broker, metadata = self._broker, self._metadata
        everywhere = any(kind == "broker" for kind, _name in delta.configs_changed)
        names = {name for kind, name in delta.configs_changed if kind == "topic"}
        configs: dict[str, LogConfig] = {}
        for topic_partition, partition in list(broker.partitions.items()):
            name = topic_partition.topic
            topic = broker.image.topics.get(name) if everywhere or name in names else None
            if partition.log is None or topic is None:
                continue
            if metadata.is_slice_full():
                yield
            if partition.log is None:
                continue
            if name not in configs:
                configs[name] = metadata.log_config(topic)
            partition.log.update_config(configs[name])
            broker.partition_changed(partition, PartitionEvent.CONFIG_CHANGED)
            if partition.is_leader and partition.advance_high_watermark():
                # the new configuration may require fewer in-sync replicas, or no flush
                broker.partition_changed(partition, PartitionEvent.HIGH_WATERMARK_ADVANCED)
        broker.replication.configs_changed()


def _is_kept(before: Image, image: Image, topic_id: uuid.UUID) -> bool:
    is_restored = image.incarnation_id != before.incarnation_id and bool(before.offset)
    return is_restored and topic_id not in image.removed_topics
