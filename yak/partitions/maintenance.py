"""Periodic work: retention, checkpoints, producer expiry.

No timer visits all partitions at once: a round of retention is divided into slices, one for each timer tick, and a tick
removes one segment. So ten thousand partitions never delay a request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from yak.core.context import Context
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.replication.log_failures import CHECKPOINT, RETENTION, LogFailures
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.storage.log import Log
from yak.storage.log_directory import CheckpointResult, FolderRemoval
from yak.storage.log_store import CheckpointPlan, LogStore
from yak.storage.segment import FilesRemoval

SLICE_PARTITIONS = 100
"""Partitions that one step visits for retention, a checkpoint, or the expiry of producers."""
PRODUCERS_A_PARTITION = 100
"""Producers whose expiry takes as long as the rest of a partition's visit."""
SLICE_GAP_MS = 10
MARKS_A_SLICE = 20
"""Marks of new logs that one step removes."""
REMOVAL_GAP_MS = 1
"""Pause after the removal of one segment."""


class Maintenance:
    """The periodic work on all logs."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        log_store: LogStore,
        log_failures: LogFailures,
        emit: EmitPartitionEvent,
    ) -> None:
        self._context, self._partitions, self._log_store = context, partitions, log_store
        self._log_failures, self._emit = log_failures, emit
        config = context.config
        self._checkpoint_interval_ms = config.log_flush_offset_checkpoint_interval_ms
        delay_ms = config.log_initial_task_delay_ms
        interval_ms, expiry_ms = config.log_retention_check_interval_ms, config.producer_id_expiration_check_interval_ms
        self._begin_rounds("retention", min(delay_ms, interval_ms), interval_ms, self.retain)
        context.after((self, "checkpoint"), min(delay_ms, self._checkpoint_interval_ms), self._checkpoint)
        self._begin_rounds("producers", expiry_ms, expiry_ms, self._expire_producers)
        self._expired: dict[Partition, None] = {}
        """Partitions with segments to remove."""
        self._checkpoint_running = False
        self._checkpoint_round: deque[TopicPartition] = deque()
        """Logs that the checkpoint under way does not have yet."""
        self.logs_a_slice = SLICE_PARTITIONS

    def delete_later(self, removal: FilesRemoval | FolderRemoval, delay_ms: int) -> None:
        """Remove files without readers after `delay_ms` (Kafka's file.delete.delay.ms)."""

        def delete() -> None:
            if not self._context.is_stopping:
                self._context.jobs.run("delete", removal, self._log_failures.files_changed)

        self._context.after((self, removal), delay_ms, delete)

    def checkpoint_soon(self) -> None:
        """Write a checkpoint within a second: a log start, a directory, or the compacted part of a log has changed."""
        self._context.within((self, "checkpoint"), 1_000, self._checkpoint)

    def retain(self, partition: Partition) -> int:
        """Remove segments past retention or below the log start offset, in later steps."""
        log = partition.log
        if log is not None and log.expired_segment(self._context.clock.wall_ms, partition.high_watermark):
            self._expired[partition] = None
            self._context.within((self, "expired"), REMOVAL_GAP_MS, self._remove_expired)
        return 0

    def _remove_expired(self) -> None:
        """Remove the oldest segment of one log."""
        partition = next(iter(self._expired))
        del self._expired[partition]
        log = partition.log
        may_not = self._context.is_stopping or partition.is_handed_over
        if log is not None and not may_not and self._remove_oldest(partition, log):
            self.retain(partition)
        if self._expired:
            self._context.after((self, "expired"), REMOVAL_GAP_MS, self._remove_expired)

    def _remove_oldest(self, partition: Partition, log: Log) -> bool:
        """Remove the oldest segment, if it is past retention; False if that failed."""
        now_ms = self._context.clock.now_ms
        start = log.log_start_offset
        try:
            segment = log.expired_segment(self._context.clock.wall_ms, partition.high_watermark)
            if segment is not None:
                self.delete_later(log.remove_segments([segment], now_ms), log.config.file_delete_delay_ms)
        except LogDirectoryFailure as failure:
            self._log_failures.write_failed(RETENTION, failure)
            return False
        if log.log_start_offset != start:
            self._context.notice(
                "info",
                "segments-removed",
                partition=str(partition.topic_partition),
                segments=1,
                log_start_offset=log.log_start_offset,
            )
            if partition.high_watermark < log.log_start_offset:
                partition.high_watermark = log.log_start_offset
            self._emit(partition, PartitionEvent.OFFSETS_MOVED)
        return True

    def _begin_rounds(self, name: str, first_ms: int, interval_ms: int, visit: Callable[[Partition], int]) -> None:
        """Visit all partitions in slices, after `first_ms` and then again and again.

        `visit` returns how many partitions more its work is worth.
        """
        waiting: deque[Partition] = deque()

        def visit_some() -> None:
            if self._context.is_stopping:
                return
            if not waiting:
                waiting.extend(self._partitions.values())
            left = SLICE_PARTITIONS
            while waiting and left > 0:
                left -= 1 + visit(waiting.popleft())
            self._context.after((self, name), SLICE_GAP_MS if waiting else interval_ms, visit_some)

        self._context.after((self, name), first_ms, visit_some)

    def _expire_producers(self, partition: Partition) -> int:
        """Forget the idle producers of a partition."""
        now_ms = self._context.clock.now_ms
        partition.deferred_sequences.expire(now_ms)
        if partition.log is None:
            return 0
        producers = partition.log.producers
        visited = len(producers) // PRODUCERS_A_PARTITION
        producers.expire(now_ms, self._context.config.producer_id_expiration_ms)
        return visited

    def _checkpoint(self) -> None:
        """Begin a checkpoint."""
        if self._context.is_stopping:
            return
        if self._checkpoint_running:
            self.checkpoint_soon()  # the one that is under way may lack what this one is for
            return
        self._context.after((self, "checkpoint"), self._checkpoint_interval_ms, self._checkpoint)
        try:
            self._log_store.begin_checkpoint()
        except LogDirectoryFailure as failure:
            self._log_failures.directory_failed(failure)
            return
        self._checkpoint_running = True
        self._checkpoint_round.extend(self._log_store.logs)
        self._checkpoint_slice()

    def _checkpoint_slice(self) -> None:
        """Add some logs to the checkpoint, and write it once it has all of them."""
        if self._context.is_stopping:
            return
        partitions, waiting = self._partitions, self._checkpoint_round
        is_handed_over = False
        for _ in range(min(self.logs_a_slice, len(waiting))):
            topic_partition = waiting.popleft()
            partition, high_watermark = partitions.get(topic_partition), 0
            if partition is not None:
                is_handed_over |= partition.is_handed_over
                high_watermark = partition.high_watermark
                if partition.truncation is not None:  # it may fall
                    high_watermark = min(high_watermark, partition.truncation.log.recovery_point)
            self._log_store.add_to_checkpoint(topic_partition, high_watermark)
        if is_handed_over or (not waiting and any(partition.is_handed_over for partition in partitions.values())):
            # what it wrote would be newer than the seal of the copy that becomes the log
            waiting.clear()
            self._checkpoint_running = False
            self.checkpoint_soon()
        elif waiting:
            self._context.after((self, "checkpoint slice"), SLICE_GAP_MS, self._checkpoint_slice)
        else:
            plan = self._log_store.checkpoint_plan()
            self._context.jobs.run("checkpoint", plan, partial(self._checkpointed, plan))

    def _checkpointed(self, plan: CheckpointPlan, result: Any, error: BaseException | None) -> None:
        self._checkpoint_running = False
        if error is not None:
            self._context.notice("error", "checkpoint-failed", error=str(error))
            return
        results: list[CheckpointResult] = result
        self._log_store.checkpointed(plan, results)
        self._log_failures.report_room()
        for each in results:
            if each.failure is not None:
                self._log_failures.write_failed(CHECKPOINT, each.failure)
        self._remove_marks()

    def _remove_marks(self) -> None:
        """Remove the marks of some logs whose offsets the checkpoints have now."""
        if self._context.is_stopping:
            return
        try:
            plans = self._log_store.remove_marks(MARKS_A_SLICE)
        except LogDirectoryFailure as failure:
            self._log_failures.directory_failed(failure)
            return
        for plan in plans:
            self._context.jobs.run("checkpoint", plan, self._log_failures.files_changed)
        if plans:
            self._context.after((self, "marks"), SLICE_GAP_MS, self._remove_marks)
