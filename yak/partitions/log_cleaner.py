"""Schedules log compaction: one log at a time, the dirtiest first, piece by piece in jobs.

A log is considered `log.cleaner.backoff.ms` after one of its segments was closed and flushed, and when time alone makes more
of it cleanable. Each replica compacts its own log. Between two pieces the event loop has the processor to itself: a thread
that computes without pauses would delay every request by milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from yak.core.context import Context
from yak.core.events import Notice
from yak.errors import LogDirectoryFailure
from yak.ids import Offset
from yak.replication.damaged_replicas import DamagedReplicas
from yak.replication.log_failures import COMPACTION, LogFailures
from yak.replication.partition import Partition
from yak.storage.compaction import (
    Cleanable,
    Compaction,
    CompactionDiscard,
    CompactionPiece,
    CompactionResult,
    NoRoom,
    Replacement,
    Uncleanable,
    Unreadable,
    cleanable,
)
from yak.storage.log import Log
from yak.storage.segment import FilesRemoval

PIECE_GAP_MS = 1
"""Pause after each piece of the cleaner. A piece takes about half as long, so the cleaner has a third of a core."""
UNREADABLE_PAUSE_MS = 300_000
"""Long, since a round may read a whole log before it meets the unreadable batch again."""


class _Round:
    """A compaction under way."""

    def __init__(self, partition: Partition, log: Log, compaction: Compaction, now_ms: int) -> None:
        self.partition, self.log, self.compaction = partition, log, compaction
        self.began_ms = now_ms

    def is_over(self) -> bool:
        """Whether the partition has lost or replaced this log, the log was truncated or moves, or its topic is compacted no
        more (LogManager.updateTopicConfig aborts the cleaning).
        """
        log, partition = self.log, self.partition
        return (
            partition.log is not log
            or partition.is_handed_over
            or not log.config.is_compacted
            or self.compaction.is_void(log)
        )


class LogCleaner:
    """The logs that may be worth compacting, and the one that is being compacted (Kafka's LogCleaner)."""

    def __init__(
        self,
        context: Context,
        log_failures: LogFailures,
        damaged_replicas: DamagedReplicas,
        delete_later: Callable[[FilesRemoval, int], None],
        checkpoint_soon: Callable[[], None],
    ) -> None:
        self._context, self._log_failures, self._damaged_replicas = context, log_failures, damaged_replicas
        self._delete_later, self._checkpoint_soon = delete_later, checkpoint_soon
        self._due: dict[Partition, int] = {}
        self._round: _Round | None = None
        self._uncleanable: WeakKeyDictionary[Log, tuple[int, Offset]] = WeakKeyDictionary()
        """Logs that cannot be compacted -> what they held then. Weak references, so that a deleted log is freed."""
        self._postponed: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
        """Logs -> the earliest time of their next attempt, in ms."""

        self.removed_bytes = 0
        """What compaction made smaller since the start."""

    @property
    def uncleanable_logs(self) -> int:
        """Logs that are not compacted until what the cleaner found there is gone (Kafka's uncleanable-partitions-count)."""
        return sum(map(self._is_uncleanable, self._uncleanable))

    def _is_uncleanable(self, log: Log) -> bool:
        """Whether the log was not truncated since, nor were its oldest segments removed."""
        return self._uncleanable.get(log) == _content(log)

    def consider(self, partition: Partition) -> None:
        """A segment was closed and flushed, or the configuration changed: examine the log after the backoff."""
        log, config = partition.log, self._context.config
        if log is None or not log.config.is_compacted or not config.log_cleaner_enable:
            return
        self._schedule(partition, self._context.clock.now_ms + config.log_cleaner_backoff_ms)

    def forget(self, partition: Partition) -> None:
        """Drop a deleted partition."""
        self._due.pop(partition, None)

    # ----------------------------------------------------------------------------------------------------- choosing

    def _schedule(self, partition: Partition, due_ms: int) -> None:
        due_ms = self._due[partition] = min(due_ms, self._due.get(partition, due_ms))
        if self._round is None:
            self._context.timers.arm_at_the_latest(self, due_ms, self._begin)

    def _begin(self) -> None:
        """Start a round on the dirtiest of the logs whose examination is due."""
        if self._context.is_stopping:
            return
        now_ms = self._context.clock.now_ms
        best: tuple[Partition, Cleanable] | None = None
        for partition in [partition for partition, due_ms in self._due.items() if due_ms <= now_ms]:
            scope = self._cleanable(partition, now_ms)
            if best is not None and best[0].log is None:
                best = None  # the examination of this log took the directory of both offline
            if scope is not None and (best is None or _dirt(scope) > _dirt(best[1])):
                best = partition, scope
        if best is None:
            self._end_round()
            return
        partition, scope = best
        del self._due[partition]
        log = partition.log
        assert log is not None
        compaction = Compaction(
            log, scope, self._context.config.log_cleaner_dedupe_buffer_size, self._context.clock.wall_ms
        )
        self._round = _Round(partition, log, compaction, now_ms)
        # examining the others armed it for the next examination, which waits for the end of this round
        self._context.timers.disarm(self)
        self._run_piece(self._round)

    def _end_round(self) -> None:
        """No round is under way: arm the timer for the next examination."""
        self._round = None
        if self._due:
            self._context.timers.arm(self, min(self._due.values()), self._begin)

    def _cleanable(self, partition: Partition, now_ms: int) -> Cleanable | None:
        """The range to clean of a partition; None when it is not worth it yet, after scheduling the next examination."""
        del self._due[partition]
        log = partition.log
        if log is None or self._is_uncleanable(log) or not log.config.is_compacted or partition.is_handed_over:
            return None
        if (until_ms := self._postponed.pop(log, 0)) > now_ms:
            self._wait(partition, log, until_ms)
            return None
        try:
            scope = cleanable(log, partition.last_stable_offset, self._context.clock.wall_ms)
        except LogDirectoryFailure as failure:
            self._log_failures.directory_failed(failure)
            return None
        if scope.is_worth(log.config):
            self._due[partition] = now_ms
            return scope
        again_ms = now_ms + max(1, self._context.config.log_cleaner_backoff_ms)
        if scope.due_ms is not None:
            # by the wall clock, as the timestamps of records are
            self._schedule(partition, max(again_ms, scope.due_ms - self._context.clock.ahead_ms))
        elif scope.end_offset < min(log.recovery_point, log.active.base_offset):
            # it waits for the last stable offset, whose advance is not reported here
            self._schedule(partition, again_ms)
        return None

    def _wait(self, partition: Partition, log: Log, until_ms: int) -> None:
        self._postponed[log] = until_ms
        self._schedule(partition, until_ms)

    # ----------------------------------------------------------------------------------------------------- a round

    def _run_piece(self, round_: _Round) -> None:
        if self._context.is_stopping:
            return
        if round_.is_over():
            self._give_up(round_, None)
        else:
            self._context.jobs.run("compact", CompactionPiece(round_.compaction), self._piece_done)

    def _piece_done(self, done: Any, error: BaseException | None) -> None:
        round_ = self._round
        assert round_ is not None
        if error is not None:
            self._end_round()
            self._failed(round_, error)
        elif round_.is_over() or self._context.is_stopping:
            self._give_up(round_, done)
        elif isinstance(done, CompactionResult):
            self._end_round()
            self._finished(round_, done)
        elif isinstance(done, Replacement) and not self._put_in_place(round_, done):
            self._give_up(round_, done)
        else:
            self._context.after(self, PIECE_GAP_MS, partial(self._run_piece, round_))

    def _put_in_place(self, round_: _Round, ready: Replacement) -> bool:
        """Replace the old segments by the new one; False when the log no longer has the old ones or the directory fails."""
        log = round_.log
        if not log.holds_segments(ready.replaced):
            return False
        try:
            removal = log.replace_segments(ready.replaced, ready.cleaned)
        except LogDirectoryFailure as failure:
            self._log_failures.directory_failed(failure)
            return False
        self._delete_later(removal, log.config.file_delete_delay_ms)
        return True

    def _give_up(self, round_: _Round, done: Any) -> None:
        """Discard the round's files: the log was truncated, deleted or lost meanwhile, or the broker stops.

        The next round begins after that: its files may have the same names.
        """
        self.consider(round_.partition)
        replacement = done if isinstance(done, Replacement) else None
        self._context.jobs.run("delete", CompactionDiscard(round_.compaction, replacement), self._cleaned_up)

    def _cleaned_up(self, result: object, error: BaseException | None) -> None:
        self._end_round()
        self._log_failures.files_changed(result, error)

    def _finished(self, round_: _Round, result: CompactionResult) -> None:
        context, log = self._context, round_.log
        now_ms = context.clock.now_ms
        log.cleaned_offset = result.end_offset
        self.removed_bytes += result.bytes_before - result.bytes_after
        self._checkpoint_soon()
        # another round may be due
        self._schedule(round_.partition, now_ms)
        context.notice(
            "info",
            "log-compacted",
            partition=str(round_.partition.topic_partition),
            up_to_offset=result.end_offset,
            keys=result.keys,
            dropped_records=result.dropped_records,
            segments_before=result.segments_before,
            segments_after=result.segments_after,
            bytes_before=result.bytes_before,
            bytes_after=result.bytes_after,
            took_ms=now_ms - round_.began_ms,
        )
        if result.unreadable_batches:
            context.notice(
                "error",
                "log-damaged",
                partition=str(round_.partition.topic_partition),
                reason=f"{result.unreadable_batches} batches cannot be decompressed or decoded; compaction kept them unchanged",
                served=True,
            )

    def _failed(self, round_: _Round, error: BaseException) -> None:
        context, partition, name = self._context, round_.partition, str(round_.partition.topic_partition)
        is_deleted = isinstance(error, FileNotFoundError) and round_.compaction.has_lost_segments(round_.log)
        if is_deleted or round_.is_over():
            self.consider(partition)
        elif isinstance(error, OSError):
            failure = LogDirectoryFailure(round_.log.directory, error)
            if isinstance(error, NoRoom) or self._log_failures.write_failed(COMPACTION, failure):
                self._wait(partition, round_.log, context.clock.now_ms + COMPACTION.retry_ms)
                context.notice("warning", "compaction-delayed", partition=name, reason=f"the disk is full: {error}")
        elif isinstance(error, Unreadable):
            self._wait(partition, round_.log, context.clock.now_ms + UNREADABLE_PAUSE_MS)
            if partition.log is round_.log:
                self._damaged_replicas.found(partition, error.offset, error.batch)
        else:
            # other errors are bugs in YAK; the log is unchanged, and only this log is skipped (Kafka's
            # LogCleanerManager.uncleanablePartitions)
            self._uncleanable[round_.log] = _content(round_.log)
            assert isinstance(error, Exception)
            fields: dict[str, object] = {"partition": name, "reason": str(error)}
            bug = None if isinstance(error, Uncleanable) else error
            context.emit(Notice("error", "log-not-compacted", fields, error=bug))


def _content(log: Log) -> tuple[int, Offset]:
    """Changes when a truncation or retention removes what the cleaner found."""
    return log.generation, log.segments[0].base_offset


def _dirt(scope: Cleanable) -> tuple[bool, float]:
    return scope.is_overdue, scope.dirty_ratio
