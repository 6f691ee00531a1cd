"""Offline replicas: this broker leaves their ISRs, and copies lost or damaged logs again from the leader.

A lost or damaged log is created again, empty, once the store has let its replica out of the ISR and the ELR
(`yak.replication.isr.IsrExits`); it is filled from the leader. A log whose end is missing continues there instead. The only
replica, or the last one in sync, stays offline until an operator repairs it; with such a log it is served as far as it goes.

A log that could not be created because its directory was full is created once there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from yak.cluster.changes import BeginChange
from yak.cluster.image import TopicInfo
from yak.config.log_config import LogConfig
from yak.core.context import Context
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.ports.disk import DiskFull
from yak.replication.isr import IsrExits
from yak.replication.log_failures import CREATION, FLUSH, LogFailures
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.storage.log import Log
from yak.storage.log_creation import Created, CreationResult, CreationRunning, LogCreation, NewLog
from yak.storage.log_directory import FolderRemoval
from yak.storage.log_store import LogStore


class OfflineReplicas:
    """The logs that are created again. `exits` leaves the ISRs."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        log_store: LogStore,
        log_failures: LogFailures,
        emit: EmitPartitionEvent,
        begin_change: BeginChange,
    ) -> None:
        self._context, self._partitions, self._log_store = context, partitions, log_store
        self._log_failures, self._emit = log_failures, emit
        self.exits = IsrExits(context, begin_change, self._create_lost, self._serve_short)
        self._without_room: dict[TopicPartition, None] = {}
        """Partitions whose logs are created again later."""

    def not_created(self, topic_partition: TopicPartition, failure: LogDirectoryFailure) -> None:
        """A log was not created. Repeat that if the disk was full, or another creation was under way."""
        if topic_partition not in self._without_room:
            self._context.notice("error", "log-not-created", partition=str(topic_partition), error=str(failure))
        if isinstance(failure.error, (DiskFull, CreationRunning)):
            self._without_room[topic_partition] = None
            self._context.within((self, "create"), CREATION.retry_ms, self._create)
        else:
            self._without_room.pop(topic_partition, None)

    def leave(self, partition: Partition) -> None:
        """Leave the ISR of a partition whose log is offline, and the ELR too if its records are lost."""
        if len(partition.replicas) == 1 and self._serve_short(partition):
            return
        self.exits.leave(partition, is_lost=self._log_store.is_lost(partition.topic_partition))

    def _create(self) -> None:
        """Repeat the creations that found no room."""
        partitions = [self._partitions.get(each) for each in self._without_room]
        wanted = self._new_logs([each for each in partitions if each is not None and each.log is None])
        self._without_room = dict.fromkeys(topic_partition for topic_partition, _topic_id, _config in wanted)
        if wanted and not self._context.is_stopping:
            self.create_logs(wanted, self._take_all)

    def _create_lost(self, partitions: list[Partition]) -> None:
        """Create the logs of replicas that left their ISRs, unless another answer of the store did it before."""
        lost = [
            each
            for each in partitions
            if each.log is None
            and not self._log_store.is_creating(each.topic_partition)
            and not self._serve_short(each, has_left=True)
        ]
        if lost:
            self.create_logs(self._new_logs(lost), self._take_all, replaces_lost=True)

    def _serve_short(self, partition: Partition, *, has_left: bool = False) -> bool:
        """Serve a log whose end is missing as far as it goes, since no other replica is in sync; False without one.

        `has_left`: the replica is out of the ISR and the ELR, and fetches what is missing from the leader.
        """
        where, topic = partition.topic_partition, self._topic_of(partition)
        if self._context.is_stopping or topic is None or (has_left and not self._log_store.lacks_end_only(where)):
            return False
        try:
            short = self._log_store.take_short(where, partition.topic_id)
        except LogDirectoryFailure as failure:
            self._log_failures.directory_failed(failure)
            return False
        log = None if short is None else self.usable(where, short, self.log_config(topic))
        if log is None:
            return False
        fields = {"partition": str(where), "log_end_offset": log.log_end_offset}
        if has_left:
            log.damage_at_load = None
            what = "the replica left the ISR and fetches the missing records from the leader"
            self._context.notice("warning", "short-replica-resigned", **fields, what=what)
        else:
            what = (
                "records of the disk are missing, and no other replica is in sync: the log is served as far as it goes"
            )
            self._context.notice("error", "short-log-served", **fields, what=what)
        partition.begin_again(log, self._log_store.high_watermarks.get(where, 0))
        self._emit(partition, PartitionEvent.LOG_RECREATED)
        return True

    def _topic_of(self, partition: Partition) -> TopicInfo | None:
        """The partition's topic in the image; None if it was deleted, and perhaps created again."""
        topic = self._context.image.topics.get(partition.topic_partition.topic)
        return topic if topic is not None and topic.topic_id == partition.topic_id else None

    def _new_logs(self, partitions: list[Partition]) -> list[NewLog]:
        return [
            (partition.topic_partition, topic.topic_id, self.log_config(topic))
            for partition in partitions
            if (topic := self._topic_of(partition)) is not None
        ]

    def log_config(self, topic: TopicInfo) -> LogConfig:
        """The configuration of a topic's logs on this broker, by the image in force."""
        context = self._context
        return context.image.log_config(topic, self._log_store.node_id, context.config.static)

    def create_logs(
        self, wanted: Sequence[NewLog], then: Callable[[Created], None], *, replaces_lost: bool = False
    ) -> None:
        """Create logs in a job; `then` gets each log, or why it was not created."""
        plan, decided = self._log_store.creation_plan(wanted, replaces_lost=replaces_lost)
        self.run_creation(plan, lambda result: then(decided | self._log_store.adopt_created(plan, result)))

    def run_creation(self, plan: LogCreation, then: Callable[[CreationResult], None]) -> None:
        """Run a plan in a job; a failure, other than a full disk, takes its log directory offline."""

        def created(result: Any, error: BaseException | None) -> None:
            if error is not None:
                raise error
            for failure in result.folders.values():
                if isinstance(failure, LogDirectoryFailure):
                    self._log_failures.write_failed(CREATION, failure)
            then(result)

        self._context.jobs.run("image", plan, created)

    def _take_all(self, created: Created) -> None:
        for topic_partition, log in created.items():
            self._take(topic_partition, log)

    def _take(self, topic_partition: TopicPartition, created: Log | LogDirectoryFailure) -> None:
        partition = self._partitions.get(topic_partition)
        if isinstance(created, Log) and (partition is None or partition.topic_id != created.topic_id):
            # The replica left this broker during the job, or its topic was deleted, and perhaps created again.
            self.delete(created, topic_partition)
            return
        topic = None if partition is None else self._topic_of(partition)
        if partition is None or topic is None or partition.log is not None:
            return
        log = self.usable(topic_partition, created, self.log_config(topic))
        if log is not None:
            self._without_room.pop(topic_partition, None)
            partition.begin_again(log)
            self._context.notice("warning", "replica-resync-started", partition=str(topic_partition))
            self._emit(partition, PartitionEvent.LOG_RECREATED)

    def delete(self, log: Log | UUID, topic_partition: TopicPartition, *, keep: bool = False) -> None:
        """Move a log's folder aside, and delete it in a job, unless `keep`.

        A topic id stands for its log that is damaged, or the second one of its name; nothing is done if there is none.
        """
        store = self._log_store
        try:
            if isinstance(log, Log):
                removal: FolderRemoval | None = store.delete(log, keep=keep)
            else:
                removal = store.delete_unserved(topic_partition, log, keep=keep)
        except LogDirectoryFailure as failure:
            self._log_failures.directory_failed(failure)
            return
        if removal is not None:
            self._context.jobs.run("delete", removal, self._log_failures.files_changed)

    def usable(
        self, topic_partition: TopicPartition, created: Log | LogDirectoryFailure, config: LogConfig
    ) -> Log | None:
        """The log that a job created or found on disk; None when it cannot be used."""
        if isinstance(created, LogDirectoryFailure):
            self.not_created(topic_partition, created)
            return None
        if not self._log_store.settle(created):
            return None
        # the log may be older than this broker's copy of the metadata, or a config changed during the job
        created.update_config(config)
        return self.flushed(created)

    def flushed(self, log: Log) -> Log | None:
        """Flush a recovered log with `flush.messages=1` before it serves, if the disk has room: only flushed records count."""
        if log.config.flush_messages == 1 and log.unflushed_messages:
            plan = log.flush_plan()
            try:
                log.flushed(plan, plan.run(self._log_store.disk))
            except LogDirectoryFailure as failure:
                if not self._log_failures.write_failed(FLUSH, failure):
                    return None
                log.epochs.dirty = log.names_changed = True
        return log
