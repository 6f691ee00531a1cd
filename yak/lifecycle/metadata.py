"""How this broker and the metadata store work together: the broker lifecycle, and changes of the metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from yak.cluster import outputs as out
from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.cluster.controller import has_leader
from yak.cluster.image import Delta
from yak.cluster.payload import BadRecord
from yak.core import events
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.ids import BrokerEpoch, MetadataOffset, NodeId, Nonce
from yak.ports.metadata_store import MetadataStore, StoreRequest, TailedRecord
from yak.protocol.peer_proof import ClusterSecret


class ShellStore:
    """The metadata store outside of this process: the shell carries the calls out."""

    def __init__(self, emit: Callable[[events.Effect], None]) -> None:
        self._emit = emit

    def call(self, nonce: Nonce, request: StoreRequest) -> None:
        """Send one call."""
        self._emit(events.CallStore(nonce, request))

    def tail(self, after: MetadataOffset) -> None:
        """(Re)start tailing."""
        self._emit(events.TailStore(after))


class Metadata:
    """The broker lifecycle, and the changes that wait for the image."""

    def __init__(
        self,
        context: Context,
        lifecycle: BrokerLifecycle,
        store: MetadataStore,
        on_records: Callable[[Sequence[TailedRecord]], None],
        on_ready: Callable[[], None],
        on_secret: Callable[[ClusterSecret], None],
    ) -> None:
        self._context, self.lifecycle, self._store = context, lifecycle, store
        self._on_records, self._on_ready, self._on_secret = on_records, on_ready, on_secret
        """Called with records that continue the hash chain, when clients may connect, and with the cluster's secret."""
        self._failed = False
        self.on_left: Callable[[], None] | None = None

    # ------------------------------------------------------------------------------------------------- events

    def on_store_connected(self, event: events.StoreConnected) -> None:
        """The store is connected."""
        self._carry_out(self.lifecycle.on_connected(event.process_id, event.unsafe))

    def on_store_lost(self, event: events.StoreLost) -> None:
        """The store connection is lost: the data path continues, metadata changes wait."""
        self._carry_out(self.lifecycle.on_lost(event.reason))

    def on_store_replied(self, event: events.StoreReplied) -> None:
        """The store answered a script."""
        self._carry_out(self.lifecycle.on_replied(event.nonce, event.outcome, self._context.clock.now_ms))

    def on_records_tailed(self, event: events.RecordsTailed) -> None:
        """Check the hash chain of new records, persist them, then act on them."""
        if self._failed:
            return
        good, outputs = self.lifecycle.admit(event.records, self._context.clock.now_ms)
        self._carry_out(outputs)
        if good:
            self._on_records(good)

    def on_time(self) -> None:
        """Run what is due in the broker lifecycle: heartbeats, retries, the controller's work."""
        self._carry_out(self.lifecycle.on_time(self._context.clock.now_ms))

    def report_full(self, *, is_full: bool) -> None:
        """Report at once whether this broker has room for another log, if that changed."""
        self.lifecycle.heartbeats.report_full(is_full=is_full, now_ms=self._context.clock.now_ms)
        self._arm_lifecycle()

    def peer_is_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> None:
        """Two connects in a row were refused by the address of that broker."""
        self._carry_out(self.lifecycle.on_peer_dead(node_id, broker_epoch, self._context.clock.now_ms))

    def begin_stopping(self) -> None:
        """Begin the controlled shutdown: request that the leaderships of this broker move away."""
        self._carry_out(self.lifecycle.begin_stopping())

    def leave(self, on_left: Callable[[], None]) -> None:
        """Resign from the cluster. `on_left` is called when the store has recorded it, or cannot be reached."""
        self.on_left = on_left
        self._carry_out(self.lifecycle.leave(self._context.clock.now_ms))

    # ------------------------------------------------------------------------------------------------ changes

    @changes_state
    def begin_own(self, requests: Sequence[StoreRequest], done: out.OnChanged, *, when_joined: bool = False) -> int:
        """Send one change of the broker's own; `done(error, values)` is called when it is in the image, or refused.

        With `when_joined` the change goes out directly behind this broker's registration. Raises PeerError when it
        cannot be sent.
        """
        if self._failed:
            raise PeerError(
                ErrorCode.kafka_storage_error, "this broker's copy of the metadata log failed; it must be restarted"
            )
        change_id, outputs = self.lifecycle.begin(requests, done, when_joined=when_joined)
        self._carry_out(outputs)
        return change_id

    def abandon(self, change_id: int) -> None:
        """Drop the callback of a change. The change may still happen."""
        self.lifecycle.changes.abandon(change_id)

    # ------------------------------------------------------------------------------------------------ inside

    def _carry_out(self, outputs: Sequence[out.Output]) -> None:
        context = self._context
        for output in outputs:
            match output:
                case events.CallStore(nonce, request):
                    self._store.call(nonce, request)
                case events.TailStore(after):
                    self._store.tail(after)
                case events.Notice() | events.Refused():
                    context.emit(output)
                case out.Work(plan, on_worked):
                    context.jobs.run("image", plan, partial(self._worked, on_worked))
                case out.BecameReady():
                    self._on_ready()
                case out.ChangeDone(done, error, values):
                    done(error, values)
                case out.SecretAgreed(secret):
                    self._on_secret(secret)
                case out.Left():
                    if self.on_left is not None:
                        self.on_left()
        self._arm_lifecycle()

    def heartbeat_by(self, due_ms: int) -> None:
        """Send the next heartbeat by then at the latest."""
        self.lifecycle.heartbeats.send_by(due_ms)
        self._arm_lifecycle()

    def _arm_lifecycle(self) -> None:
        """Move the lifecycle's one timer: any of its inputs may have changed what is due next."""
        due_ms = self.lifecycle.next_due()
        if due_ms is None:
            self._context.timers.disarm(self)
        else:
            self._context.timers.arm(self, due_ms, self.on_time)

    def _worked(self, done: Callable[[object], None], result: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._carry_out(self.lifecycle.on_worked(done, result))

    def image_changed(self, delta: Delta) -> None:
        """All partitions match a new image: confirm the changes that it has, and control the cluster by it."""
        image = self._context.image
        # a topic whose creation takes several calls may name leaders that died before it was complete
        leaderless = any(
            not has_leader(info, image.brokers)
            for name in delta.topics_changed
            for info in delta.changed_partitions(image.topics[name])
        )
        self._carry_out(self.lifecycle.on_image(image, self._context.clock.now_ms, has_leaderless=leaderless))

    def log_failed(self, error: BaseException) -> None:
        """Make no more changes, because the local metadata log failed. The results of those under way are unknown."""
        self._failed = True
        for done in self.lifecycle.changes.abandon_all():
            done(
                PeerError(
                    ErrorCode.request_timed_out, "this broker cannot write its metadata log; the result is unknown"
                ),
                (),
            )
        if isinstance(error, BadRecord):
            self._carry_out(self.lifecycle.on_unreadable(str(error)))
