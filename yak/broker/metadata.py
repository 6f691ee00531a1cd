"""How this broker and the metadata store work together: the broker lifecycle, changes of the metadata, and reports.

It also says whether this broker's leaderships may be over, because the store did not answer for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from yak.cluster import outputs as out
from yak.cluster.broker_lifecycle import BrokerLifecycle, LifecycleState
from yak.cluster.changes import OnChanged
from yak.cluster.image import Delta, PartitionInfo
from yak.cluster.restore_offer import LocalState
from yak.core import events
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.ids import BrokerEpoch, NodeId, TopicPartition
from yak.protocol.peer_proof import ClusterSecret
from yak.replication.partition import Partition
from yak.seams.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker, Parts

REPORT_INTERVAL_MS = 200
"""High watermarks are reported to the store at most five times a second, unless very many moved."""
PARTITIONS_A_REPORT, NEXT_REPORT_MS = 500, 50
"""The high watermarks that one turn collects: about 2 ms. The others follow after the pause."""
STORE_BACK_MS = 2_000
"""A connection to the store that a local pause ended is open again within this time, if the store is up."""


class Metadata:
    """The broker lifecycle, and the changes that wait for the image."""

    def __init__(self, broker: Broker, parts: Parts) -> None:
        self._broker = broker
        self._nonce = 0
        self._context = broker.context
        self._secret_file = parts.secret_file
        self._secret_on_disk = parts.secret_file.read()
        self._session_timeout_ms = parts.cluster_settings.session_timeout_ms
        self.lifecycle = BrokerLifecycle(
            parts.identity,
            parts.image,
            next_nonce=self._next_nonce,
            dice=parts.dice,
            settings=parts.cluster_settings,
            secret=self._secret_on_disk,
            local_state=lambda: LocalState(broker.local_replicas.log_ends(), parts.image_log.hash_chain),
        )
        broker.counters.elections = self.lifecycle.elections
        self.lifecycle.heartbeats.is_full = not broker.log_store.has_room()
        self._failed = False
        self._changes: dict[int, OnChanged] = {}
        self.moved: dict[Partition, None] = {}
        """Partitions whose high watermark moved since the last report."""
        self.on_left: Callable[[], None] | None = None
        self.store_lost_ms: int | None = None
        """When the store stopped answering; None while it answers."""

    def _next_nonce(self) -> int:
        self._nonce += 1
        return self._nonce

    # ------------------------------------------------------------------------------------------------- events

    def on_store_connected(self, event: events.StoreConnected) -> None:
        """The store is connected."""
        if self.store_lost_ms is not None:
            self._broker.counters.store_outage_ms += self._broker.now_ms - self.store_lost_ms
        self.store_lost_ms = None
        self._carry_out(self.lifecycle.on_connected(event.process_id, event.unsafe, self._broker.now_ms))

    def on_store_lost(self, event: events.StoreLost) -> None:
        """The store connection is lost: the data path continues, metadata changes wait."""
        if self.store_lost_ms is None:
            self.store_lost_ms = self._broker.now_ms
            self._broker.counters.store_outages += 1
        self._carry_out(self.lifecycle.on_lost(event.reason, self._broker.now_ms))

    def on_store_replied(self, event: events.StoreReplied) -> None:
        """The store answered a script."""
        self._carry_out(self.lifecycle.on_replied(event.nonce, event.outcome, self._broker.now_ms))

    def on_records_tailed(self, event: events.RecordsTailed) -> None:
        """Check the hash chain of new records, persist them, then act on them."""
        if self._failed:
            return
        good, outputs = self.lifecycle.admit(event.records, self._broker.now_ms)
        self._carry_out(outputs)
        if good:
            self._broker.metadata_loader.add(good)

    def _on_time(self) -> None:
        """Run what is due in the broker lifecycle: heartbeats, retries, the controller's work."""
        self._carry_out(self.lifecycle.on_time(self._broker.now_ms))

    def report_full(self, *, is_full: bool) -> None:
        """Report at once whether this broker has room for another log, if that changed."""
        self.lifecycle.heartbeats.report_full(is_full=is_full, now_ms=self._broker.now_ms)
        self._arm_lifecycle()

    def full_brokers(self) -> frozenset[NodeId]:
        """Brokers without room for another log: from this broker's disks, and from the heartbeats of the others."""
        node_id = self._broker.node_id
        others = self.lifecycle.heartbeats.full - {node_id}
        return others if self._broker.log_store.has_room() else others | {node_id}

    def is_isolated(self, partition: Partition) -> bool:
        """Whether the store and all followers were silent for a session timeout: another broker may lead."""
        if self.store_lost_ms is None or not partition.replica_states:
            return False
        since_ms = self._broker.now_ms - self._session_timeout_ms
        heard_ms = self._broker.follower_sessions.heard_ms
        return self.store_lost_ms <= since_ms and all(
            heard_ms.get(node_id, 0) <= since_ms for node_id in partition.replica_states
        )

    def is_isolated_leader(self, topic: str, info: PartitionInfo) -> bool:
        """Whether this broker leads in its image, but is isolated: it refuses writes, so Metadata must not name it as
        leader."""
        if self.store_lost_ms is None or info.leader != self._broker.node_id:
            return False
        partition = self._broker.partitions.get(TopicPartition(topic, info.partition))
        return partition is not None and self.is_isolated(partition)

    def may_be_fenced(self, partition: Partition) -> bool:
        """Whether another broker may lead, with records that this broker lacks.

        True when the store accepted no heartbeat of this broker for a session timeout. Until then this broker counts as
        alive, so a new leader waits for it before it exposes a record. The time is measured from when the heartbeat was
        sent, which is no later than when the store accepted it.
        """
        if not partition.replica_states:
            return False
        return self._broker.now_ms - self.lifecycle.heartbeats.accepted_ms >= self._session_timeout_ms

    def may_have_successor(self, partition: Partition) -> bool:
        """Whether a local pause may have ended this broker's leadership, and the store will answer in a moment. No
        successor is elected while the store is away."""
        is_away = self.store_lost_ms is not None and self._broker.now_ms - self.store_lost_ms >= STORE_BACK_MS
        return not (is_away or self.lifecycle.state is LifecycleState.FROZEN) and self.may_be_fenced(partition)

    def peer_is_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> None:
        """Two probes found no process at the address of that broker."""
        self._carry_out(self.lifecycle.on_peer_dead(node_id, broker_epoch, self._broker.now_ms))

    def begin_stopping(self) -> None:
        """Begin the controlled shutdown: request that the leaderships of this broker move away."""
        self._carry_out(self.lifecycle.begin_stopping(self._broker.now_ms))

    def leave(self, on_left: Callable[[], None]) -> None:
        """Resign from the cluster. `on_left` is called when the store has recorded it, or cannot be reached."""
        self.on_left = on_left
        self._carry_out(self.lifecycle.leave(self._broker.now_ms))

    # ------------------------------------------------------------------------------------------------ changes

    @changes_state
    def begin_own(self, requests: Sequence[StoreRequest], done: OnChanged, *, when_joined: bool = False) -> int:
        """Send one change of the broker's own; `done(error, values)` is called when it is in the image, or refused.

        With `when_joined` the change goes out directly behind this broker's registration. Raises PeerError when it
        cannot be sent.
        """
        if self._failed:
            raise PeerError(
                ErrorCode.kafka_storage_error, "this broker's copy of the metadata log failed; it must be restarted"
            )
        change_id, outputs = self.lifecycle.begin(requests, when_joined=when_joined)
        self._changes[change_id] = done
        self._carry_out(outputs)
        return change_id

    def abandon(self, change_id: int) -> None:
        """Drop the callback of a change. The change may still happen."""
        if self._changes.pop(change_id, None) is not None:
            self.lifecycle.abandon(change_id)

    # ------------------------------------------------------------------------------------------------ inside

    def _carry_out(self, outputs: Sequence[out.Output]) -> None:
        broker = self._broker
        for output in outputs:
            match output:
                case out.Call(nonce, request):
                    broker.emit(events.CallStore(nonce, request))
                case out.Tail(after):
                    broker.emit(events.TailStore(after))
                case out.Say(level, event, fields):
                    broker.emit(events.Notice(level, event, dict(fields)))
                case out.Work(run, on_worked):
                    broker.jobs.run("image", run, partial(self._worked, on_worked))
                case out.BecameReady():
                    broker.became_ready()
                case out.Refuse(code, message, why, try_):
                    broker.emit(events.Refused(code, message, why, tuple(try_)))
                case out.ChangeDone(change_id, error, values):
                    done = self._changes.pop(change_id, None)
                    if done is not None:
                        done(error, values)
                case out.SecretAgreed(secret):
                    self._broker.peers.agree_on(secret)
                    self._keep_secret(secret)
                case out.Left():
                    if self.on_left is not None:
                        self.on_left()
        self._arm_lifecycle()

    def heartbeat_by(self, due_ms: int) -> None:
        """Send the next heartbeat by then at the latest."""
        self.lifecycle.heartbeats.hasten(due_ms)
        self._arm_lifecycle()

    def _arm_lifecycle(self) -> None:
        """Move the lifecycle's one timer: any of its inputs may have changed what is due next."""
        due_ms = self.lifecycle.next_due()
        if due_ms is None:
            self._broker.timers.disarm(self)
        else:
            self._broker.timers.arm(self, due_ms, self._on_time)

    def _keep_secret(self, secret: ClusterSecret) -> None:
        """Keep a copy of the cluster's secret on this broker's disk, in case the store loses it."""
        if secret == self._secret_on_disk:
            return

        def done(_result: Any, error: BaseException | None) -> None:
            if error is not None:
                self._secret_on_disk = None
                self._broker.notice("warning", "cluster-secret-not-kept", error=type(error).__name__)

        self._secret_on_disk = secret
        self._broker.jobs.run("image", lambda: self._secret_file.write(secret), done)

    def _worked(self, done: Callable[[object], None], result: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._carry_out(self.lifecycle.on_worked(done, result))

    def _arm(self, what: str, wait_ms: int, action: Callable[[], None]) -> None:
        self._broker.timers.arm((self, what), self._broker.now_ms + wait_ms, action)

    def image_changed(self, delta: Delta) -> None:
        """All partitions match a new image: confirm the changes that it has, and control the cluster by it."""
        image = self._context.image
        leaderless = any(
            info.leader < 0 for name in delta.topics_changed for info in delta.changed_partitions(image.topics[name])
        )
        self._carry_out(self.lifecycle.on_image(image, self._broker.now_ms, has_leaderless=leaderless))

    def log_failed(self) -> None:
        """Make no more changes, because the local metadata log failed. The results of those under way are unknown."""
        self._failed = True
        changes, self._changes = self._changes, {}
        for change_id, done in changes.items():
            self.lifecycle.abandon(change_id)
            done(
                PeerError(
                    ErrorCode.request_timed_out, "this broker cannot write its metadata log; the result is unknown"
                ),
                (),
            )

    def report_no_more(self, partition: Partition) -> None:
        """Forget a partition that left this broker."""
        self.moved.pop(partition, None)

    def report_soon(self) -> None:
        """Report the moved high watermarks soon; call it before the first partition is put into `moved`."""
        self._arm("report", REPORT_INTERVAL_MS, self._report)

    def _report(self) -> None:
        moved = list(islice(self.moved, PARTITIONS_A_REPORT))
        for partition in moved:
            del self.moved[partition]
            if not partition.is_leader:
                continue
            ends = partition.log_end_offsets()
            if (partition.high_watermark, ends) != partition.reported:
                partition.reported = (partition.high_watermark, ends)
                self.lifecycle.note_high_watermark(
                    partition.topic_id,
                    partition.topic_partition.partition,
                    partition.leader_epoch,
                    partition.high_watermark,
                    ends,
                )
        if self.moved:
            self._arm("report", NEXT_REPORT_MS, self._report)
        self._on_time()
