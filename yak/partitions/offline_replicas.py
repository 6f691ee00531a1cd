"""Full disks and offline replicas: this broker leaves their ISRs, and copies lost or damaged logs again from the leader.

A lost or damaged log is created again, empty, once the store has let its replica out of the ISR and the ELR
(`yak.replication.isr.IsrExits`); it is filled from the leader. The only replica, or the last one in sync, stays offline
until an operator repairs it.

A log that could not be created because its directory was full is created once there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from yak.cluster.changes import BeginChange
from yak.cluster.image import TopicInfo
from yak.config.log_config import LogConfig
from yak.core.context import Context
from yak.core.events import DisksLost
from yak.errors import LogDirectoryFailure
from yak.fail_stop import changes_state
from yak.ids import TopicPartition
from yak.ports.disk import DiskFull
from yak.replication.isr import IsrExits
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.storage.log import Log
from yak.storage.log_creation import Created, CreationResult, CreationRunning, LogCreation, NewLog
from yak.storage.log_store import LogStore

NO_ROOM_PAUSE_MS = 2_000
"""Pause between two attempts to create logs that found no room."""


class OfflineReplicas:
    """The log directories that failed or are full, and the logs that are created again. `exits` leaves the ISRs."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        log_store: LogStore,
        emit: EmitPartitionEvent,
        begin_change: BeginChange,
        report_room: Callable[[], None],
    ) -> None:
        self._context, self._partitions, self._log_store = context, partitions, log_store
        self._emit, self._report_room = emit, report_room
        self.exits = IsrExits(context, begin_change, self._create_lost)
        self._is_stopped = False
        self._without_room: dict[TopicPartition, None] = {}
        self.full_directories: dict[str, None] = {}
        """Online log directories that had no room for their last write."""

    def is_full(self, failure: LogDirectoryFailure) -> bool:
        """Whether a write found a full disk and changed nothing: the directory stays online, and the write may be repeated.

        Only for callers that retry, or whose client does. Logged once for each directory, until an append succeeds there.
        """
        if not isinstance(failure.error, DiskFull):
            return False
        if failure.directory not in self.full_directories:
            self.full_directories[failure.directory] = None
            path = str(failure.error.filename or "")
            self._context.notice("error", "log-directory-full", directory=failure.directory, path=path)
            self._report_room()
        return True

    def retry_creation(self, topic_partition: TopicPartition, created: Log | LogDirectoryFailure) -> None:
        """Schedule another attempt for a creation that failed because the disk was full, or another one was running."""
        if isinstance(created, LogDirectoryFailure) and isinstance(created.error, (DiskFull, CreationRunning)):
            self._without_room[topic_partition] = None
            due_ms = self._context.clock.now_ms + NO_ROOM_PAUSE_MS
            self._context.timers.arm_at_the_latest((self, "create"), due_ms, self._create)

    def stop(self) -> None:
        """Create no more logs: they are about to be closed."""
        self._is_stopped = True

    @changes_state
    def directory_failed(self, failure: LogDirectoryFailure) -> None:
        """Take a log directory offline until restart: its partitions answer KAFKA_STORAGE_ERROR, all others go on."""
        context = self._context
        for log in self._log_store.directory_failed(failure.directory, failure.error):
            partition = self._partitions.get(log.topic_partition)
            if partition is not None and partition.log is log:
                self._close(partition)
                self.exits.leave(partition, is_lost=False)
        context.notice(
            "error",
            "log-directory-offline",
            directory=failure.directory,
            error=str(failure.error.strerror or failure.error),
        )
        if not self._log_store.online():
            context.emit(DisksLost(failure.directory, str(failure.error)))

    def log_damaged(self, partition: Partition, reason: str) -> None:
        """Take one damaged log offline, as a start that finds it damaged does. Other logs of the directory continue.

        It is replicated again once this broker has left the partition's ISR.
        """
        log = partition.log
        assert log is not None
        self._log_store.make_unavailable(log, reason)
        self._close(partition)
        self.exits.leave(partition, is_lost=True)

    def _close(self, partition: Partition) -> None:
        partition.log = None
        self._emit(partition, PartitionEvent.LOG_OFFLINE)

    def _create(self) -> None:
        """Repeat the creations that found no room."""
        waiting, self._without_room = self._without_room, {}
        partitions = [self._partitions.get(each) for each in waiting]
        wanted = self._new_logs([each for each in partitions if each is not None and each.log is None])
        if wanted and not self._is_stopped:
            self.create_logs(wanted, self._take_all)

    def _create_lost(self, partitions: list[Partition]) -> None:
        """Create the logs of replicas that left their ISRs, unless another answer of the store did it before."""
        lost = [
            each for each in partitions if each.log is None and not self._log_store.is_creating(each.topic_partition)
        ]
        if lost:
            self.create_logs(self._new_logs(lost), self._take_all, replaces_lost=True)

    def _new_logs(self, partitions: list[Partition]) -> list[NewLog]:
        wanted = []
        for partition in partitions:
            topic = self._context.image.topics.get(partition.topic_partition.topic)
            if topic is not None and topic.topic_id == partition.topic_id:
                wanted.append((partition.topic_partition, topic.topic_id, self.log_config(topic)))
        return wanted

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
        """Run a plan in a job, and take the directories offline in which a folder could not be moved away."""

        def created(result: Any, error: BaseException | None) -> None:
            if error is not None:
                raise error
            for failure in result.unmovable:
                if not self.is_full(failure):
                    self.directory_failed(failure)
            then(result)

        self._context.jobs.run("image", plan, created)

    def _take_all(self, created: Created) -> None:
        for topic_partition, log in created.items():
            self._take(topic_partition, log)

    def _take(self, topic_partition: TopicPartition, created: Log | LogDirectoryFailure) -> None:
        partition = self._partitions.get(topic_partition)
        topic = self._context.image.topics.get(topic_partition.topic)
        if partition is None or topic is None or topic.topic_id != partition.topic_id or partition.log is not None:
            return
        self.retry_creation(topic_partition, created)
        if topic_partition in self._without_room:
            return
        log = self.usable(topic_partition, created, self.log_config(topic))
        if log is not None:
            partition.log = log
            partition.high_watermark = log.log_start_offset
            self._context.notice("warning", "replica-resync-started", partition=str(topic_partition))
            self._emit(partition, PartitionEvent.LOG_RECREATED)

    def usable(
        self, topic_partition: TopicPartition, created: Log | LogDirectoryFailure, config: LogConfig
    ) -> Log | None:
        """The log that a job created or found on disk; None when it cannot be used."""
        if isinstance(created, LogDirectoryFailure):
            self._context.notice("error", "log-not-created", partition=str(topic_partition), error=str(created))
            return None
        if not self._log_store.settle(created):
            return None
        # the log may be older than this broker's copy of the metadata, or a config changed during the job
        created.update_config(config)
        return self.flushed(created)

    def flushed(self, log: Log) -> Log | None:
        """Flush a recovered log with `flush.messages=1` before it serves: only flushed records count there."""
        if log.config.flush_messages == 1 and log.unflushed_messages:
            plan = log.flush_plan()
            try:
                log.flushed(plan, plan.run(self._log_store.disk), self._context.clock.now_ms)
            except LogDirectoryFailure as failure:
                self.directory_failed(failure)
                return None
        return log
