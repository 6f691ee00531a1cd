"""What happens when a disk is full, or fails.

A write that finds a full disk changes nothing (`DiskFull`), and its log directory stays online. The kinds of writes below
say what becomes of the write: it is refused, the broker repeats it, or a later one replaces it.

Any other failure of a read, write or sync takes the log directory offline until a restart; a failed sync does so even on a
full disk, because its data may be gone. The broker leaves the ISRs of the directory's partitions
(`OfflineReplicas.leave`), and halts with its last directory (Kafka's ReplicaManager.handleLogDirFailure).

A node of the metadata quorum halts if it cannot write its vote or sync its log, or if its disk fails
(`yak/quorum/election_state.py`). A leader of the quorum without room to append resigns, and a snapshot of the quorum is written
later.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from yak.core.context import Context
from yak.core.events import DisksLost
from yak.errors import LogDirectoryFailure
from yak.fail_stop import changes_state
from yak.ids import TopicPartition
from yak.ports.disk import DiskFull
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.storage.log_store import LogStore


@dataclass(frozen=True, slots=True)
class WriteKind:
    """A kind of write, and what a full disk means for it."""

    when_full: str
    """What becomes of the write, as the log event says it."""
    retry_ms: int = 0
    """Pause before the broker repeats the write; 0 if it repeats none."""
    event: str = "log-directory-full"


APPEND: Final = WriteKind("appends are refused with KAFKA_STORAGE_ERROR, which clients retry")
"""A leader's, or the roll before it. The producer's later batches are refused until it comes again, to keep their order."""
REPLICATION: Final = WriteKind("the follower fetches the records again")
"""A follower's append. Meanwhile it leaves the ISR, after `replica.lag.time.max.ms`."""
FLUSH: Final = WriteKind("the leader epoch file is written by another flush", 1_000)
"""The records are synced by then, but without that file they do not count as flushed."""
TRUNCATION: Final = WriteKind("the follower's truncation is repeated, before it fetches on", 1_000)
CREATION: Final = WriteKind("the log is created when there is room; until then its partition is offline here", 2_000)
RETENTION: Final = WriteKind("the next round of retention removes the segment")
"""The active segment, in whose place a new one must be created."""
COMPACTION: Final = WriteKind("the log is compacted later", 60_000)
CHECKPOINT: Final = WriteKind("the next checkpoint has these offsets too")
MOVE: Final = WriteKind("the move ends: the replica stays in its log directory")
CLUSTER_ID: Final = WriteKind("meta.properties is written with the next metadata records")
METADATA_LOG: Final = WriteKind("metadata changes wait until the disk has room", 1_000, "metadata-log-full")
"""This broker's copy of the metadata log. After any other failure of it (`metadata-log-failed`) a broker beside others halts;
alone it makes no more metadata changes until a restart, and no log directory goes offline. A snapshot that fails, for any
reason, is written later."""


class LogFailures:
    """Handles the failures of log directories and logs: one decision for every write of this broker."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        log_store: LogStore,
        emit: EmitPartitionEvent,
        report_room: Callable[[], None],
    ) -> None:
        self._context, self._partitions, self._log_store = context, partitions, log_store
        self._emit, self.report_room = emit, report_room
        """`report_room` reports to the controller whether this broker has room for another log."""
        self.full_directories: dict[str, None] = {}
        """Directories that had no room for their last write."""

    def write_failed(self, kind: WriteKind, failure: LogDirectoryFailure) -> bool:
        """Handle a write that failed; returns whether it found a full disk, and `kind` says what becomes of it.

        A full directory is logged once, until an append succeeds there.
        """
        if not isinstance(failure.error, DiskFull):
            if kind is not METADATA_LOG:
                self.directory_failed(failure)
            return False
        if failure.directory not in self.full_directories:
            self.full_directories[failure.directory] = None
            path = str(failure.error.filename or "")
            self._context.notice("error", kind.event, directory=failure.directory, path=path, what=kind.when_full)
            self.report_room()
        return True

    def write_succeeded(self, directory: str) -> None:
        """The directory has room again. Called only while there are full directories: appends have no time for more."""
        if directory in self.full_directories:
            del self.full_directories[directory]
            self._context.notice("info", "log-directory-freed", directory=directory)

    @changes_state
    def directory_failed(self, failure: LogDirectoryFailure) -> None:
        """Take a log directory offline until restart: its partitions answer KAFKA_STORAGE_ERROR, all others go on.

        Does nothing for one that is offline: one job may report the failures of many logs.
        """
        if all(online.path != failure.directory for online in self._log_store.online()):
            return
        for log in self._log_store.directory_failed(failure.directory, failure.error):
            partition = self._partitions.get(log.topic_partition)
            if partition is not None and partition.log is log:
                self._close(partition)
        error = str(failure.error.strerror or failure.error)
        self._context.notice("error", "log-directory-offline", directory=failure.directory, error=error)
        if not self._log_store.online():
            self._context.emit(DisksLost(failure.directory, str(failure.error)))

    def log_damaged(self, partition: Partition, reason: str) -> None:
        """Take one damaged log offline, as a start that finds it damaged does. Other logs of the directory continue.

        It is replicated again once this broker has left the partition's ISR.
        """
        log = partition.log
        assert log is not None
        # it may be below that of the last stop
        self._log_store.high_watermarks[log.topic_partition] = partition.high_watermark
        self._log_store.make_unavailable(log, reason)
        self._close(partition)

    def files_changed(self, _result: object, error: BaseException | None) -> None:
        """A job that deletes files without readers, or syncs names, ended. What it left, the next start deletes.

        A sync that failed may have lost the name of a new log too, and no later sync reports that.
        """
        if isinstance(error, LogDirectoryFailure):
            self.directory_failed(error)
        elif error is not None:
            self._context.notice("warning", "files-not-deleted", error=str(error))

    def late_sync_ended(self, error: object) -> None:
        """A sync of a log that has left this broker ended. Its folder may be gone, or be that of another log by now."""
        if isinstance(error, LogDirectoryFailure) and error.error.errno != errno.ENOENT:
            self.write_failed(FLUSH, error)

    def _close(self, partition: Partition) -> None:
        partition.log = None
        self._emit(partition, PartitionEvent.LOG_OFFLINE)
