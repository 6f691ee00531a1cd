"""The controlled shutdown: leaderships move away, the broker leaves the cluster, and its logs are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.cluster.records import BrokerState
from yak.core import events

if TYPE_CHECKING:
    from yak.broker.broker import Broker

CONTROLLED_SHUTDOWN_MS_MAX = 10_000
QUORUM_LOST_MS_MAX = 1_000
"""How long a stop waits for a leader of the metadata quorum. The last brokers of a cluster that stops never get one."""
_QUORUM_CHECK_MS = 100


class ControlledShutdown:
    """How far the stop of this broker is."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._context, self._metadata = broker, broker.context, broker.metadata
        self._has_drain_begun = False
        """Whether a stop was requested and this broker continues to lead while its leaderships move away."""

    @property
    def is_draining(self) -> bool:
        """Whether a stop was requested, and leaderships are still moving away."""
        return self._has_drain_begun and not self._broker.context.is_stopping

    def on_stop_requested(self, event: events.StopRequested) -> None:  # noqa: ARG002
        """Move the leaderships away, leave the cluster, flush all logs, and mark the stop as clean."""
        if self._broker.context.is_stopping or self._has_drain_begun:
            return
        context, lifecycle = self._context, self._metadata.lifecycle
        others = [each for each in context.image.active_brokers() if each.node_id != lifecycle.identity.node_id]
        if not others or not context.config.controlled_shutdown_enable or lifecycle.refusal():
            self._leave()
            return
        self._has_drain_begun = True
        context.after(self, CONTROLLED_SHUTDOWN_MS_MAX, self._drain_timed_out)
        self._metadata.begin_stopping()
        if self._broker.quorum is not None:
            self._check_quorum()

    def image_changed(self) -> None:
        """End the drain once no other broker in an ISR could take over a partition that this broker leads."""
        if not self.is_draining:
            return
        image = self._context.image
        own = image.brokers.get(self._metadata.lifecycle.identity.node_id)
        if own is not None and own.state is BrokerState.ACTIVE:
            return
        alive = {info.node_id: info.broker_epoch for info in image.active_brokers()}
        for partition in self._broker.partitions.values():
            if partition.is_leader and any(alive.get(node) == epoch for node, epoch in partition.isr_members):
                return
        self._leave()

    def _check_quorum(self) -> None:
        """End the drain when the quorum has had no leader for a while: no leadership can move away then."""
        if not self.is_draining:
            return
        now_ms = self._context.clock.now_ms
        if (self._broker.store_outage.present_ms(now_ms) or 0) >= QUORUM_LOST_MS_MAX:
            self._drain_timed_out()
        else:
            self._context.after((self, "quorum"), _QUORUM_CHECK_MS, self._check_quorum)

    def _drain_timed_out(self) -> None:
        self._context.notice(
            "warning",
            "controlled-shutdown-timed-out",
            what="the broker stops before all its partitions have new leaders",
        )
        self._leave()

    def _leave(self) -> None:
        self._context.timers.disarm(self)
        self._context.timers.disarm((self, "quorum"))
        self._broker.stop_leading()
        self._metadata.leave(self._on_left)

    def _on_left(self) -> None:
        self._metadata.on_left = None
        self._broker.stop_following()
        self._leave_clients()
        # An older checkpoint that ends after the last one would put older recovery points beside the clean mark.
        self._context.jobs.when_idle(("flush", "checkpoint", "image", "truncate", "move"), self._close)

    def _leave_clients(self) -> None:
        """Serve no more requests of clients, as SocketServer.stopProcessingRequests; they get the answers under way.

        An event loop that serves them would take the interpreter from the jobs that close the logs.
        """
        for connection in self._broker.connections.values():
            if connection.proven is not None or connection.is_in_process:
                continue
            if connection.calls:
                self._context.emit(events.MuteConnection(connection.connection_id))
            else:
                self._broker.close_connection(connection, "the broker stops")

    def _close(self) -> None:
        self._broker.finish_writes()
        high_watermarks = {tp: partition.high_watermark for tp, partition in self._broker.partitions.items()}
        plan = self._broker.log_store.close_plan(self._metadata.lifecycle.broker_epoch, high_watermarks)
        self._context.jobs.run("checkpoint", plan, self._closed)

    def _closed(self, result: object, error: BaseException | None) -> None:  # noqa: ARG002
        if error is not None:
            self._context.notice("error", "stop-not-clean", error=str(error))
        else:
            self._broker.log_store.closed()
            for partition in self._broker.partitions.values():
                if partition.log is not None and partition.is_leader:
                    partition.advance_high_watermark()
                    self._broker.advanced(partition)
        self._context.emit(events.Stopped())
