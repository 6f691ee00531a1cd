"""The controlled shutdown: leaderships move away, the broker leaves the cluster, and its logs are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.cluster.records import BrokerState
from yak.core import events

if TYPE_CHECKING:
    from yak.broker.broker import Broker

CONTROLLED_SHUTDOWN_MS_MAX = 10_000


class ControlledShutdown:
    """How far the stop of this broker is."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
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
        self._broker.timers.arm((self, "drain"), broker.now_ms + CONTROLLED_SHUTDOWN_MS_MAX, self._drain_timed_out)
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
        self._broker.timers.disarm((self, "drain"))
        broker = self._broker
        broker.leader_appends.stop()
        for partition in broker.partitions.values():
            broker.follower_sessions.changed(partition)
        broker.peers.is_stopping = True
        broker.maintenance.stop()
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
