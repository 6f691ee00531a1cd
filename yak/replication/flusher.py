"""Flushes logs to the device by `flush.messages`, `flush.ms` and rolled segments: group commit, always in threads.

At most one flush of a partition runs at a time. It covers all records that were appended before it started; later ones wait
for the next flush. A failed sync takes the log directory offline and is never retried.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

from yak.config.log_config import NEVER
from yak.core.context import Context
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.replication.log_failures import FLUSH, LogFailures
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.storage.flush import FlushPlan


class Flusher:
    """The partitions to flush at the end of the turn, or by a deadline."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        log_failures: LogFailures,
        emit: EmitPartitionEvent,
    ) -> None:
        self._context, self._partitions = context, partitions
        self._log_failures, self._emit = log_failures, emit
        self._wanted: dict[Partition, bool] = {}
        self._due_by_interval: dict[int, OrderedDict[Partition, int]] = {}

    def want(self, partition: Partition, *, all_of_it: bool = True) -> None:
        """Flush at the end of this turn, or after the flush under way: the whole log, or only its closed segments."""
        if partition.flush_running:
            partition.flush_wanted = partition.flush_wanted or all_of_it
        else:
            self._wanted[partition] = self._wanted.get(partition, False) or all_of_it

    def want_within(self, partition: Partition, interval_ms: int) -> None:
        """Flush at the latest `interval_ms` from now; an earlier deadline stands."""
        queue = self._due_by_interval.setdefault(interval_ms, OrderedDict())
        if partition not in queue:
            due_ms = queue[partition] = self._context.clock.now_ms + interval_ms
            if len(queue) == 1:
                self._arm(interval_ms, due_ms)

    def consider(self, partition: Partition) -> None:
        """Flush records that were appended before the config demanded it, or that a start had no room to flush.

        With `flush.messages=1` a leader commits only flushed records, and the next append may be far away.
        """
        log = partition.log
        if log is None or not log.unflushed_messages:
            return
        if log.unflushed_messages >= log.config.flush_messages:
            self.want(partition)
        elif log.config.flush_ms != NEVER:
            self.want_within(partition, log.config.flush_ms)

    def _arm(self, interval_ms: int, due_ms: int) -> None:
        self._context.timers.arm((self, interval_ms), due_ms, partial(self._flush_due, interval_ms))

    def _flush_due(self, interval_ms: int) -> None:
        """Flush the partitions of one interval whose deadline has come."""
        queue = self._due_by_interval[interval_ms]
        while queue:
            due_ms = queue[next(iter(queue))]
            if due_ms > self._context.clock.now_ms:
                self._arm(interval_ms, due_ms)
                return
            self.want(queue.popitem(last=False)[0])
        del self._due_by_interval[interval_ms]

    def start_wanted(self) -> None:
        """Start a flush of each partition that wants one."""
        if not self._wanted:
            return
        wanted, self._wanted = self._wanted, {}
        for partition, all_of_it in wanted.items():
            self._start(partition, all_of_it=all_of_it)  # nowhere else: two at a time could write the older epochs last

    def _start(self, partition: Partition, *, all_of_it: bool) -> None:
        log = partition.log
        if log is None or self._context.is_closing:
            return
        if partition.is_handed_over:
            # the end of the move flushes it
            return
        plan = log.flush_plan(include_active=all_of_it)
        partition.flush_running = True
        partition.flush_wanted = False

        def done(missing: Any, error: BaseException | None) -> None:
            partition.flush_running = False
            if partition.log is not log:
                self._log_failures.late_sync_ended(error)
                self._rewrite_epochs(partition.topic_partition, plan)
                if partition.flush_wanted:
                    # requested for the log that took this one's place
                    self.want(partition)
                return
            try:
                if error is not None:
                    raise error
                log.flushed(plan, missing)
            except LogDirectoryFailure as failure:
                if self._log_failures.write_failed(FLUSH, failure):
                    log.epochs.dirty = log.names_changed = True
                    self.want_within(partition, FLUSH.retry_ms)
                return
            if plan.closed:
                self._emit(partition, PartitionEvent.CLOSED_SEGMENTS_FLUSHED)
            if partition.is_leader:
                partition.advance_high_watermark()
                self._emit(partition, PartitionEvent.OFFSETS_MOVED)
            else:
                self._emit(partition, PartitionEvent.FOLLOWER_FLUSHED)
            if partition.flush_wanted or log.has_unflushed_closed_segments:
                # a segment closed meanwhile wants a flush, and the next request for one may be far away
                self.want(partition, all_of_it=partition.flush_wanted)

        self._context.jobs.run("flush", plan, done)

    def _rewrite_epochs(self, topic_partition: TopicPartition, plan: FlushPlan) -> None:
        """A late flush of a deleted log may have written its epochs into the folder of the next log of that name."""
        next_ = self._partitions.get(topic_partition)
        if plan.epochs is not None and next_ is not None and next_.log is not None and next_.log.path == plan.path:
            next_.log.epochs.dirty = next_.log.names_changed = True
            self.want(next_)
