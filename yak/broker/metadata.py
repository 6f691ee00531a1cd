"""How metadata records are applied on this broker, and how this broker changes the metadata.

Records of the metadata log are durable here before anything acts on them (persist before act). First a job creates the
logs of new partitions; then the records are appended to the image log and synced in another job; then the image is
replaced and partitions take their new state. One round of records is under way at a time, in order. A round and the
work of one turn are bounded, so that requests are served between the turns of a large change: one turn replays a few
records, and one brings a few partitions to the new image.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from yak.cluster import outputs as out
from yak.cluster.broker_lifecycle import BrokerLifecycle, LifecycleState
from yak.cluster.changes import OnChanged
from yak.cluster.image import ChainBroken, Delta, Image, PartitionInfo
from yak.cluster.metadata_delta import MetadataDelta
from yak.cluster.payload import BadRecord
from yak.cluster.restore_offer import LocalState
from yak.core import events
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.fail_stop import changes_state
from yak.ids import BrokerEpoch, NodeId, TopicPartition
from yak.protocol.peer_proof import ClusterSecret
from yak.replication.partition import Partition
from yak.seams.disk import DiskFull
from yak.seams.metadata_store import StoreRequest, TailedRecord
from yak.storage.log_store import Created, NewLog

if TYPE_CHECKING:
    from yak.broker.broker import Broker, Parts

PARTITIONS_A_SLICE = 200
"""Partitions whose records one turn replays, or that it opens, configures or drops: about 2 ms."""
NO_ROOM_PAUSE_MS = 1_000
"""Pause between two attempts to write the copy of the metadata log to a full disk."""
ROUND_WEIGHT_MAX = 400
"""Weight at which a round of records ends: one for each record and one for each changed partition."""
REPORT_INTERVAL_MS = 200
"""High watermarks are reported to the store at most five times a second, unless very many moved."""
PARTITIONS_A_REPORT, NEXT_REPORT_MS = 500, 50
"""The high watermarks that one turn collects: about 2 ms. The others follow after the pause."""
STORE_BACK_MS = 2_000
"""A connection to the store that a local pause ended is open again within this time, if the store is up."""


@dataclass(slots=True, frozen=True)
class _Step:
    """Records that are not acted on yet: the image and delta they produce, and the logs they need."""

    image: Image
    delta: Delta
    replacing: list[NewLog]
    """Logs to create in folders that logs of deleted topics still occupy."""
    created: Created


class Metadata:
    """The image in force, the broker lifecycle that updates it, and the changes that wait for it."""

    def __init__(self, broker: Broker, parts: Parts) -> None:
        self._broker = broker
        self._nonce = 0
        self._context = broker.context
        self._image_log = parts.image_log
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
        self._queue: deque[TailedRecord] = deque()
        self._busy = False
        self._slices: tuple[Iterator[None], Callable[[], None]] | None = None
        """The remaining slices of a round, one for each turn, and the callback behind the last slice."""
        self._is_acting = False
        """Whether they act on records that are on the disk."""
        self._round_weight = 0
        """The weight of the round under way."""
        self.partitions_a_slice = PARTITIONS_A_SLICE
        """The simulator lowers it, because its topics are small."""
        self._failed = False
        self._has_no_room = False
        """Whether a round found no room on the disk; a timer writes it again."""
        self._changes: dict[int, OnChanged] = {}
        self.moved: dict[Partition, None] = {}
        """Partitions whose high watermark moved since the last report."""
        self.on_left: Callable[[], None] | None = None
        self.on_image: Callable[[Image, Image, Delta], None] | None = None
        """Called with (previous, new, delta) when an image is acted on. Must only take note; an exception in it is
        logged (`observer-failed`)."""
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
            self._queue.extend(good)
            self._persist_next()

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

    def _persist_next(self) -> None:
        if self._busy or not self._queue:
            return
        self._busy = True
        records, delta = self._next_round(), MetadataDelta(self._context.image)
        self._begin_slices(self._replay(records, delta), partial(self._replayed, records, delta), is_acting=False)

    def _replay(self, records: Sequence[TailedRecord], delta: MetadataDelta) -> Iterator[None]:
        weight = 0
        for record in records:
            if weight >= self.partitions_a_slice:
                weight = 0
                yield
            delta.replay(record)
            weight += _weight(record)
        if self._is_heavy_round():
            yield

    def _replayed(self, records: Sequence[TailedRecord], replayed: MetadataDelta) -> None:
        image, delta = replayed.apply()
        local_replicas = self._broker.local_replicas
        missing = local_replicas.without_lost(records, local_replicas.missing_logs(image, delta))
        local_replicas.make_room(missing)
        replacing = [new for new in missing if new[0] in self._broker.partitions]
        fresh = [new for new in missing if new[0] not in self._broker.partitions]
        if not fresh:
            self._persist(records, _Step(image, delta, replacing, {}))
            return

        # Logs first: every partition that the local metadata names has a folder, so a folder missing at start was lost.
        def made(created: Any, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
            else:
                self._persist(records, _Step(image, delta, replacing, created))

        self._broker.jobs.run("image", lambda: self._broker.log_store.create_all(fresh), made)

    def _next_round(self) -> list[TailedRecord]:
        records, self._round_weight = [], 0
        while self._queue and self._round_weight < ROUND_WEIGHT_MAX:
            record = self._queue.popleft()
            records.append(record)
            self._round_weight += _weight(record)
        return records

    def _is_heavy_round(self) -> bool:
        """Whether the work on the whole round, or on the whole image, needs a turn of its own."""
        return self._round_weight > self.partitions_a_slice // 4

    def _persist(self, records: Sequence[TailedRecord], step: _Step) -> None:
        try:
            sync = self._image_log.append(records)
        except DiskFull as error:
            if not self._has_no_room:
                self._broker.notice(
                    "error", "metadata-log-full", error=str(error), what="the write is retried until the disk has room"
                )
            self._has_no_room = True
            self._arm("persist", NO_ROOM_PAUSE_MS, partial(self._persist, records, step))
            return
        except OSError as error:
            self._fail(error)
            return
        self._has_no_room = False

        def work() -> LogDirectoryFailure | None:
            sync()
            return self._broker.log_store.mark_directories(step.image.cluster_id)

        def done(failure: Any, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
                return
            if failure is not None and not self._broker.offline_replicas.is_full(failure):
                self._broker.offline_replicas.directory_failed(failure)
            self._replace(step)

        self._broker.jobs.run("image", work, done)

    def _replace(self, step: _Step) -> None:
        """Create the logs of topics that were deleted and created again, after the old logs have left the folders."""

        def made(created: Any, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
            else:
                self._act(step, step.created | created)

        def dropped() -> None:
            self._broker.local_replicas.make_room(step.replacing)
            self._broker.jobs.run("image", lambda: self._broker.log_store.create_all(step.replacing), made)

        if step.replacing:
            local_replicas = self._broker.local_replicas
            removed = local_replicas.drop_removed(self._context.image, step.image, step.delta)
            self._begin_slices(self._sliced(removed), dropped)
        else:
            self._act(step, step.created)

    def _begin_slices(self, slices: Iterator[None], then: Callable[[], None], *, is_acting: bool = True) -> None:
        """Run the first slice at once, each other slice in a later turn, and `then` behind the last.

        `is_acting`: the records are on the disk, and a stop must not leave the slices out.
        """
        self._slices, self._is_acting = (slices, then), is_acting
        self._run_slice()

    def _arm(self, what: str, wait_ms: int, action: Callable[[], None]) -> None:
        self._broker.timers.arm((self, what), self._broker.now_ms + wait_ms, action)

    def _run_slice(self) -> None:
        if self._slices is None:
            return
        slices, then = self._slices
        try:
            next(slices)
        except StopIteration:
            self._slices = None
            then()
        except (BadRecord, ChainBroken) as error:
            self._slices = None
            self._fail(error)
        else:
            self._arm("slice", 1, self._run_slice)

    def _sliced(self, partitions: Iterator[None]) -> Iterator[None]:
        """Divide an iteration that yields before each partition into slices."""
        in_slice = 0
        for _ in partitions:
            if in_slice == self.partitions_a_slice:
                in_slice = 0
                yield
            in_slice += 1
        if self._is_heavy_round():
            yield

    def finish_slices(self) -> None:
        """Apply the rest of the image before a stop, or the next start takes logs of deleted topics for strays.

        Records that are only replayed so far are not on the disk: they come again after the next start.
        """
        if self._slices is not None:
            slices, _then = self._slices
            self._slices = None
            if self._is_acting:
                for _ in slices:
                    pass

    def _fail(self, error: BaseException) -> None:
        """Stop acting on metadata until a restart, because the local metadata log failed. The data path continues."""
        self._failed = True
        self._broker.notice("error", "metadata-log-failed", error=str(error))
        changes, self._changes = self._changes, {}
        for change_id, done in changes.items():
            self.lifecycle.abandon(change_id)
            done(
                PeerError(
                    ErrorCode.request_timed_out, "this broker cannot write its metadata log; the result is unknown"
                ),
                (),
            )

    def _act(self, step: _Step, created: Created) -> None:
        """Put an image in force: first the partitions, in slices, then the parts that need the whole image."""
        before, self._context.image = self._context.image, step.image
        slices = self._sliced(self._act_on_partitions(before, step, created))
        self._begin_slices(slices, partial(self._acted, before, step))

    def _act_on_partitions(self, before: Image, step: _Step, created: Created) -> Iterator[None]:
        image, delta = step.image, step.delta
        local_replicas = self._broker.local_replicas
        yield from local_replicas.drop_removed(before, image, delta)
        if delta.configs_changed:
            # Configs first: the new roles may have been decided by the new configs.
            yield from local_replicas.apply_configs(delta)
            self._broker.replica_fetchers.configs_changed()
            self._broker.follower_sessions.throttle.update_rate()
        yield from local_replicas.apply_roles(image, delta, created)

    def _acted(self, before: Image, step: _Step) -> None:
        """All partitions match the image: notify the parts that need the whole image, and begin the next round."""
        broker, image, delta = self._broker, step.image, step.delta
        self._broker.local_replicas.release_slice()
        broker.group_coordinator.topics_changed(delta.topics_changed)
        broker.group_coordinator.expiry.topics_deleted(self._broker.local_replicas.deleted_topics(before, image, delta))
        if delta.brokers_changed:
            broker.record_deletions.on_brokers()
            broker.expected_followers.on_brokers()
        leaderless = any(
            info.leader < 0 for name in delta.topics_changed for info in delta.changed_partitions(image.topics[name])
        )
        self._carry_out(self.lifecycle.on_image(image, broker.now_ms, has_leaderless=leaderless))
        if delta.brokers_changed:
            broker.replica_fetchers.brokers_changed(delta.brokers_changed)
            broker.isr_changes.brokers_changed()
        broker.recently_fenced.image_changed(delta)
        broker.failure_watch.image_changed(delta)
        broker.suspected_brokers.wake()
        broker.maintenance.image_changed()
        self._show_image(before, image, delta)
        compact = self._image_log.compaction(image)
        if compact is not None:
            broker.jobs.run("image", compact, self._compacted)
        self._busy = False
        if self._is_heavy_round():
            self._arm("next", 1, self._persist_next)
        else:
            self._persist_next()

    def _show_image(self, before: Image, image: Image, delta: Delta) -> None:
        """Call `on_image`. An exception there is a bug of the observer: it is logged, and the broker continues."""
        if self.on_image is None:
            return
        try:
            self.on_image(before, image, delta)
        except Exception as error:  # noqa: BLE001 - the observer changes no replicated state
            self._broker.emit(events.Notice("error", "observer-failed", {"observed": "image"}, error=error))

    def _compacted(self, result: Any, error: BaseException | None) -> None:  # noqa: ARG002
        if error is not None:
            self._broker.notice("warning", "metadata-log-not-compacted", error=str(error))

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


def _weight(record: TailedRecord) -> int:
    """One for the record, and one for each partition that it names."""
    return 1 + sum(len(value) for value in record.payload.values() if isinstance(value, list))
