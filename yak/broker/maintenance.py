"""Periodic work: retention, checkpoints, producer expiry; and the controlled shutdown.

No timer visits all partitions at once: a round of retention is divided into slices, one for each timer tick, and a tick
removes one segment. So ten thousand partitions never delay a request.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from yak.cluster.records import BrokerState
from yak.core import events
from yak.errors import ErrorCode, LogDirectoryFailure
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.storage.log import Log

SLICE_PARTITIONS = 100
SLICE_GAP_MS = 10
REMOVAL_GAP_MS = 1
"""Pause after the removal of one segment."""
CONTROLLED_SHUTDOWN_MS_MAX = 10_000


class Maintenance:
    """The broker's periodic work."""

    def __init__(self, broker: Broker, now_ms: int) -> None:
        self._broker = broker
        config = broker.config
        self._retention_interval_ms = config.log_retention_check_interval_ms
        self._checkpoint_interval_ms = config.log_flush_offset_checkpoint_interval_ms
        delay_ms = config.log_initial_task_delay_ms
        self._timers = broker.timers
        self._timers.arm((self, "retention"), now_ms + min(delay_ms, self._retention_interval_ms), self._retain_slice)
        self._timers.arm((self, "checkpoint"), now_ms + min(delay_ms, self._checkpoint_interval_ms), self._checkpoint)
        self._round: deque[Partition] = deque()
        self._expired: dict[Partition, None] = {}
        """Partitions with segments to remove."""
        self._checkpoint_running = False
        self._has_drain_begun = False
        """Whether a stop was requested and this broker continues to lead while its leaderships move away."""
        self.is_stopping = False
        """This broker leads no partition."""
        self.is_closing = False
        """The logs are being closed: nothing may touch their files any more."""

    @property
    def is_draining(self) -> bool:
        """Whether a stop was requested, and leaderships are still moving away."""
        return self._has_drain_begun and not self.is_stopping

    def delete_later(self, remove: Any, delay_ms: int) -> None:
        """Remove files without readers after `delay_ms` (Kafka's file.delete.delay.ms)."""

        def delete() -> None:
            if not self.is_stopping:
                self._broker.jobs.run("delete", remove, self._deleted)

        self._timers.arm((self, remove), self._broker.now_ms + delay_ms, delete)

    def checkpoint_soon(self) -> None:
        """Write a checkpoint within a second, after DeleteRecords moved a log start."""
        self._timers.arm_at_the_latest((self, "checkpoint"), self._broker.now_ms + 1_000, self._checkpoint)

    def retain(self, partition: Partition) -> None:
        """Remove segments past retention or below the log start offset, in later steps."""
        log = partition.log
        if log is not None and log.expired_segments(self._broker.wall_ms, partition.high_watermark):
            self._expired[partition] = None
            due_ms = self._broker.now_ms + REMOVAL_GAP_MS
            self._timers.arm_at_the_latest((self, "expired"), due_ms, self._remove_expired)

    def _remove_expired(self) -> None:
        """Remove the oldest segment of one log."""
        partition = next(iter(self._expired))
        del self._expired[partition]
        if not self.is_stopping and partition.log is not None:
            self._remove_oldest(partition, partition.log)
            self.retain(partition)
        if self._expired:
            due_ms = self._broker.now_ms + REMOVAL_GAP_MS
            self._timers.arm((self, "expired"), due_ms, self._remove_expired)

    def _remove_oldest(self, partition: Partition, log: Log) -> None:
        now_ms = self._broker.now_ms
        start = log.log_start_offset
        try:
            segments = log.expired_segments(self._broker.wall_ms, partition.high_watermark)[:1]
            if segments:
                self.delete_later(log.remove_segments(segments, now_ms), log.config.file_delete_delay_ms)
        except OSError as error:
            self._broker.offline_replicas.directory_failed(LogDirectoryFailure(log.directory, error))
            return
        except LogDirectoryFailure as failure:
            self._broker.offline_replicas.directory_failed(failure)
            return
        if log.log_start_offset != start:
            self._broker.notice(
                "info",
                "segments-removed",
                partition=str(partition.topic_partition),
                segments=len(segments),
                log_start_offset=log.log_start_offset,
            )
            if partition.high_watermark < log.log_start_offset:
                partition.high_watermark = log.log_start_offset
            self._broker.advanced(partition)

    def _retain_slice(self) -> None:
        if self.is_stopping:
            return
        if not self._round:
            self._round.extend(self._broker.partitions.values())
        for _ in range(min(SLICE_PARTITIONS, len(self._round))):
            partition = self._round.popleft()
            self.retain(partition)
            if partition.log is not None:
                partition.log.producers.expire(self._broker.now_ms, self._broker.config.producer_id_expiration_ms)
        wait_ms = SLICE_GAP_MS if self._round else self._retention_interval_ms
        self._timers.arm((self, "retention"), self._broker.now_ms + wait_ms, self._retain_slice)

    def _checkpoint(self) -> None:
        if self.is_stopping:
            return
        due_ms = self._broker.now_ms + self._checkpoint_interval_ms
        self._timers.arm((self, "checkpoint"), due_ms, self._checkpoint)
        if self._checkpoint_running:
            return
        broker = self._broker
        high_watermarks = {tp: partition.high_watermark for tp, partition in broker.partitions.items()}
        plan = broker.log_store.checkpoint_plan(high_watermarks)
        self._checkpoint_running = True

        def checkpoint() -> bool:
            plan()
            return broker.log_store.has_room()

        broker.jobs.run("checkpoint", checkpoint, self._checkpointed)

    def _checkpointed(self, result: Any, error: BaseException | None) -> None:
        self._checkpoint_running = False
        has_room = result if error is None else self._broker.log_store.has_room()
        self._broker.metadata.report_full(is_full=not has_room)
        if isinstance(error, LogDirectoryFailure):
            if not self._broker.offline_replicas.is_full(error):
                self._broker.offline_replicas.directory_failed(error)
        elif error is not None:
            self._broker.notice("error", "checkpoint-failed", error=str(error))

    def _deleted(self, result: Any, error: BaseException | None) -> None:  # noqa: ARG002
        if error is not None:
            self._broker.notice("warning", "files-not-deleted", error=str(error))

    # --------------------------------------------------------------------------------------------------- stop

    def on_stop_requested(self, event: events.StopRequested) -> None:  # noqa: ARG002
        """Move the leaderships away, leave the cluster, flush all logs, and mark the stop as clean."""
        if self.is_stopping or self._has_drain_begun:
            return
        broker = self._broker
        others = [info for info in broker.image.active_brokers() if info.node_id != broker.node_id]
        if not others or not broker.config.controlled_shutdown_enable or broker.metadata.lifecycle.refusal():
            self._leave()
            return
        self._has_drain_begun = True
        self._timers.arm((self, "drain"), broker.now_ms + CONTROLLED_SHUTDOWN_MS_MAX, self._drain_timed_out)
        broker.metadata.begin_stopping()

    def image_changed(self) -> None:
        """End the drain once no other broker in an ISR could take over a partition that this broker leads."""
        if not self.is_draining:
            return
        broker = self._broker
        own = broker.image.brokers.get(broker.node_id)
        if own is not None and own.state is BrokerState.ACTIVE:
            return
        alive = {info.node_id: info.broker_epoch for info in broker.image.active_brokers()}
        for partition in broker.partitions.values():
            if partition.is_leader and any(alive.get(node) == epoch for node, epoch in partition.isr_members):
                return
        self._leave()

    def _drain_timed_out(self) -> None:
        self._broker.notice(
            "warning",
            "controlled-shutdown-timed-out",
            what="the broker stops before all its partitions have new leaders",
        )
        self._leave()

    def _leave(self) -> None:
        self.is_stopping = True
        self._timers.disarm((self, "drain"))
        broker = self._broker
        for partition in broker.partitions.values():
            if partition.pending_appends is not None:
                partition.pending_appends.fail(ErrorCode.not_leader_or_follower)
            broker.follower_sessions.changed(partition)
        broker.peers.is_stopping = True
        broker.log_cleaner.stop()
        broker.failure_watch.stop()
        broker.damaged_replicas.stop()
        broker.offline_replicas.stop()
        broker.group_coordinator.runtime.stop()
        broker.metadata.leave(self._on_left)

    def _on_left(self) -> None:
        self._broker.metadata.on_left = None
        self._broker.replica_fetchers.stop()
        # An older checkpoint that ends after the last one would put older recovery points beside the clean mark.
        self._broker.jobs.when_idle(("flush", "checkpoint", "image", "cut"), self._close)

    def _close(self) -> None:
        broker = self._broker
        broker.metadata_loader.finish_slices()
        broker.local_replicas.release_slice(None)
        self.is_closing = True
        broker.flusher.stop()
        high_watermarks = {tp: partition.high_watermark for tp, partition in broker.partitions.items()}
        plan = broker.log_store.close_plan(broker.metadata.lifecycle.broker_epoch, high_watermarks)
        broker.jobs.run("checkpoint", plan, self._closed)

    def _closed(self, result: Any, error: BaseException | None) -> None:  # noqa: ARG002
        broker = self._broker
        if error is not None:
            broker.notice("error", "stop-not-clean", error=str(error))
        else:
            for partition in broker.partitions.values():
                log = partition.log
                if log is not None and partition.is_leader:
                    partition.advance_high_watermark()
                    broker.advanced(partition)
        broker.emit(events.Stopped())
