"""Truncation of a follower's log to where it may match its leader's: by leader epochs, never by a high watermark.

Rules: Kafka's AbstractFetcherThread.getOffsetTruncationState (KIP-101, KIP-279, KIP-595). After several elections one
truncation may not be enough; the next fetch shows it. A log that ends before the leader's log start is dropped, and
begins there (full resync). So is a log that diverges no later than that start: the leader cannot prove any common
record. A replica behind the leader of a compacted log truncates to its oldest open transaction, and copies that again
(`ReplicaFetcher._must_copy_again`); this rule is not Kafka's.

Jobs do the syncs, those of one turn together:

1. If the truncation goes below the recovery point or the high watermark, a job writes the lowered recovery point. After
   a kill no checkpoint counts then, whose offsets are those of the truncated records.
2. A turn truncates the log.
3. A job syncs it.

Meanwhile the follower does not fetch the partition, and does not append the records of an earlier fetch. If the leader
changes before step 2, the truncation is dropped, and the new leader decides; after step 2 the sync is still awaited.
Only a replica that becomes leader and appends before step 3 syncs in the turn (`Log.sync_truncation`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from yak.core.context import Context
from yak.core.jobs import CombinedPlan
from yak.errors import LogDirectoryFailure, ProtocolViolation, directory_failure
from yak.ids import LeaderEpoch, Offset
from yak.protocol.fetch_answer import DivergingEpoch
from yak.replication.flusher import Flusher
from yak.replication.log_failures import TRUNCATION, LogFailures
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.storage.log import Log
from yak.storage.log_store import LogStore
from yak.storage.recovery import DamagedLog
from yak.storage.truncation import find_batch_end_before

TOGETHER_MAX: Final = 50
"""Truncations that one job syncs: of a thousand partitions, the first are fetched again before the last are synced."""


class TruncationKind(Enum):
    """What is truncated."""

    DIVERGED = "diverged"
    """Records that the leader lacks."""
    OF_COPIES = "of copies"
    """Records that the leader has, or has replaced: the high watermark may fall."""
    FULL_RESYNC = "full resync"
    """All records: the log begins again at the offset."""


@dataclass(slots=True, eq=False)
class Truncation:
    """The truncation of one partition's log to `offset`.

    `then` is called when the log may be appended to, if the leader is the same.
    """

    partition: Partition
    log: Log
    offset: Offset
    kind: TruncationKind = TruncationKind.DIVERGED
    then: Callable[[], None] | None = None
    is_lowered: bool = False
    """Whether the lowered recovery point is on the disk."""
    leader_epoch: LeaderEpoch = -1

    @property
    def is_wanted(self) -> bool:
        """Whether the leader and epoch that it is for are still current."""
        partition = self.partition
        return partition.log is self.log and not partition.is_leader and partition.leader_epoch == self.leader_epoch


class Truncations:
    """The truncations under way. One job at a time lowers a directory's recovery points, which are in one file."""

    def __init__(
        self,
        context: Context,
        log_store: LogStore,
        log_failures: LogFailures,
        flusher: Flusher,
        emit: EmitPartitionEvent,
    ) -> None:
        self._context, self._log_store, self._log_failures = context, log_store, log_failures
        self._flusher, self._emit = flusher, emit
        self._to_lower: dict[str, list[Truncation]] = {}
        self._to_sync: dict[str, list[Truncation]] = {}
        self._lowering: dict[str, None] = {}
        self._without_room: dict[Truncation, bool] = {}
        """Truncations that found no room on the disk -> whether their lowered recovery points are still to be written."""

    # ------------------------------------------------------------------------------------------------- decisions

    def truncate_to_divergence(
        self, partition: Partition, log: Log, diverging: DivergingEpoch, leaders_log_start: Offset
    ) -> None:
        """Truncate records that the leader lacks; all of them, where the logs diverge before the leader's log start.

        Raises ProtocolViolation for an offset outside of this log: the leader would repeat it for ever.
        """
        end = log.log_end_offset
        target = min(diverging.end_offset, end)
        epoch, own_end = log.end_offset_for_epoch(diverging.epoch)
        if epoch >= 0:
            target = min(target, own_end)
        if not 0 <= target < end:
            raise ProtocolViolation(
                f"the leader says that the logs diverge at {diverging.end_offset}, this log ends at {end}"
            )
        if log.log_start_offset < leaders_log_start and diverging.end_offset <= leaders_log_start:
            self.resync_fully(partition, log, leaders_log_start)
        else:
            self._begin(Truncation(partition, log, target))

    def copy_again_from_open_transaction(self, partition: Partition, log: Log) -> None:
        """Truncate to the first record of the oldest open transaction: the leader's log may no longer have its marker.

        Its records are gone there with it. The replica must be behind the leader's high watermark, so that nothing counts
        on what it has.
        """
        first_open = log.producers.first_open_offset
        assert first_open is not None
        self._begin(Truncation(partition, log, first_open, TruncationKind.OF_COPIES))

    def resync_fully(self, partition: Partition, log: Log, leaders_log_start: Offset) -> None:
        """Drop the whole log and begin at the leader's log start: the leader has deleted the next records."""
        self._context.notice(
            "warning",
            "replica-fully-truncated",
            partition=str(partition.topic_partition),
            log_end_offset=log.log_end_offset,
            leaders_log_start_offset=leaders_log_start,
        )
        self._begin(Truncation(partition, log, leaders_log_start, TruncationKind.FULL_RESYNC))

    def move_start(self, partition: Partition, log: Log, offset: Offset, then: Callable[[], None]) -> None:
        """Begin an empty log at `offset`, where the leader's batch begins; then call `then`, to append the batch."""
        self._begin(Truncation(partition, log, offset, TruncationKind.FULL_RESYNC, then))

    # ------------------------------------------------------------------------------------------------- execution

    def _repeat(self) -> None:
        """Repeat the truncations that found no room."""
        if self._context.is_closing:
            return
        waiting, self._without_room = self._without_room, {}
        for truncation, must_lower in waiting.items():
            if must_lower and truncation.partition.log is truncation.log:
                # Also one that is not wanted any more: in memory the recovery point is lower than on the disk.
                self._to_lower.setdefault(truncation.log.directory, []).append(truncation)
            else:
                self._resume(truncation)

    def _repeat_later(self, truncation: Truncation, *, must_lower: bool) -> None:
        self._without_room[truncation] = must_lower
        self._context.within(self, TRUNCATION.retry_ms, self._repeat)

    def _begin(self, truncation: Truncation) -> None:
        """Truncate now, or once the lowered recovery point is written."""
        assert truncation.partition.truncation is None
        truncation.partition.truncation, truncation.leader_epoch = truncation, truncation.partition.leader_epoch
        self._resume(truncation)

    def _resume(self, truncation: Truncation) -> None:
        if not truncation.is_wanted:
            self._end(truncation)
            return
        log = truncation.log
        try:
            if truncation.kind is TruncationKind.OF_COPIES:
                # A compaction gap before it is copied again too. A log that ends in a gap needs a segment of its own.
                # Retention may have removed it meanwhile.
                offset = max(truncation.offset, log.log_start_offset)
                with directory_failure(log.directory):
                    truncation.offset = find_batch_end_before(log.segments, offset, log.log_end_offset)
            recovery_point_max = min(truncation.offset, log.log_start_offset)
            if truncation.kind is not TruncationKind.FULL_RESYNC:
                recovery_point_max = log.recovery_point_after_truncation(truncation.offset)
            high_watermark = 0 if truncation.is_lowered else truncation.partition.high_watermark
            if recovery_point_max < max(log.recovery_point, high_watermark):
                log.lower_recovery_point(recovery_point_max)
                self._to_lower.setdefault(log.directory, []).append(truncation)
                return
            self._truncate(truncation)
        except LogDirectoryFailure as failure:
            if self._log_failures.write_failed(TRUNCATION, failure):
                self._repeat_later(truncation, must_lower=False)
            else:
                self._end(truncation)
            return
        except DamagedLog as damaged:
            partition = truncation.partition
            self._context.notice(
                "error", "log-damaged", partition=str(partition.topic_partition), reason=str(damaged), served=False
            )
            self._log_failures.log_damaged(partition, str(damaged))
            self._end(truncation)
            return
        self._to_sync.setdefault(log.directory, []).append(truncation)

    def _truncate(self, truncation: Truncation) -> None:
        partition, log = truncation.partition, truncation.log
        if truncation.kind is TruncationKind.FULL_RESYNC:
            log.truncate_fully_and_start_at(truncation.offset, self._context.clock.now_ms)
            partition.log_was_truncated()
            return
        end, before = log.log_end_offset, partition.high_watermark
        is_of_copies = truncation.kind is TruncationKind.OF_COPIES
        log.truncate_to(truncation.offset, self._context.clock.now_ms)
        if log.log_end_offset < end:
            self._context.notice(
                "info",
                "open-transaction-copied-again" if is_of_copies else "log-truncated",
                partition=str(partition.topic_partition),
                leader_epoch=partition.leader_epoch,
                from_offset=end,
                to_offset=log.log_end_offset,
            )
        if partition.log_was_truncated() and not is_of_copies:
            self._context.notice(
                "error",
                "truncated-below-high-watermark",
                partition=str(partition.topic_partition),
                high_watermark=before,
                to_offset=log.log_end_offset,
            )
        log.epochs.truncate_from_end(log.log_end_offset)

    def start_wanted(self) -> None:
        """Start the jobs of this turn's truncations, at its end."""
        if self._context.is_closing:
            return
        if self._to_lower:
            for directory in [each for each in self._to_lower if each not in self._lowering]:
                self._lower(directory, self._to_lower.pop(directory))
        if not self._to_sync:
            return
        to_sync, self._to_sync = self._to_sync, {}
        for truncations in to_sync.values():
            for first in range(0, len(truncations), TOGETHER_MAX):
                self._sync(truncations[first : first + TOGETHER_MAX])

    def _lower(self, directory: str, truncations: list[Truncation]) -> None:
        def lowered(result: Any, error: BaseException | None) -> None:  # noqa: ARG001
            del self._lowering[directory]
            must_wait = False
            if isinstance(error, LogDirectoryFailure):
                must_wait = self._log_failures.write_failed(TRUNCATION, error)
            elif error is not None:
                raise error
            else:
                log_directory.lowered(plan)
            for truncation in truncations:
                if must_wait:
                    self._repeat_later(truncation, must_lower=True)
                else:
                    truncation.is_lowered = True
                    self._resume(truncation)

        self._lowering[directory] = None
        log_directory = self._log_store.directory(directory)
        plan = log_directory.lowering_plan(
            [(each.log.topic_partition, each.log.recovery_point) for each in truncations]
        )
        self._context.jobs.run("truncate", plan, lowered)

    def _sync(self, truncations: list[Truncation]) -> None:
        plans = [truncation.log.truncation_sync_plan() for truncation in truncations]

        def synced(result: Any, error: BaseException | None) -> None:
            if error is not None:
                raise error
            for truncation, plan, missing in zip(truncations, plans, result, strict=True):
                try:
                    if truncation.partition.log is not truncation.log:
                        self._log_failures.late_sync_ended(missing)
                    elif isinstance(missing, LogDirectoryFailure):
                        raise missing
                    else:
                        truncation.log.truncation_synced(plan, missing)
                except LogDirectoryFailure as failure:
                    self._log_failures.directory_failed(failure)
                self._end(truncation)

        self._context.jobs.run("truncate", CombinedPlan(tuple(plans)), synced)

    def _end(self, truncation: Truncation) -> None:
        partition, log = truncation.partition, truncation.partition.log
        partition.truncation = None
        if log is None:
            return
        if log.unflushed_messages >= log.config.flush_messages:
            # the truncation voided the flush that was under way
            self._flusher.want(partition)
        if truncation.then is not None and truncation.is_wanted:
            truncation.then()
        else:
            self._emit(partition, PartitionEvent.LOG_TRUNCATED)
