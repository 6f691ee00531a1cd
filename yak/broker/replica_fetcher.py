"""The follower's side of replication: one fetcher for each leader, for all partitions followed there.

A fetch names only what changed since the last one (KIP-227): partitions that are new, whose log grew, or that are
retried. A fetch offset is an acknowledgement. So a partition is named with a higher offset only when all records before
it are in the log, and on the device where every record is flushed. One request waits at the leader; when a partition
changes meanwhile, a second request follows it and ends the wait. A fetch names a bounded number of partitions, so that
neither end serves thousands of them in one step; the others are named in the next ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from yak.config.log_config import NEVER
from yak.core.events import PeerEnd
from yak.errors import ErrorCode, LogDirectoryFailure, ProtocolViolation
from yak.ids import LeaderEpoch, NodeId, Offset, PeerId
from yak.protocol.record_batch import HEADER_BYTES, read_header
from yak.protocol.replica_fetch import (
    FetchedPartition,
    WantedPartition,
    decode_replica_fetch_answer,
    replica_fetch_request,
)
from yak.replication.partition import Partition
from yak.replication.partition_events import PartitionEvent
from yak.replication.throttle import Throttle, is_named
from yak.replication.truncation import Truncations
from yak.storage.log import Log

if TYPE_CHECKING:
    from yak.broker.broker import Broker

Key: TypeAlias = tuple[bytes, int]
"""Topic id as its 16 bytes, and partition. A UUID is hashed and compared in Python, several times for each answer."""
IN_FLIGHT_MAX = 2
RECONNECT_FIRST_MS, RECONNECT_LONGEST_MS = 10, 1_000
RETRY_FIRST_MS, USUAL_REFUSALS = 5, 3
ANSWER_MS_MAX = 30_000
"""Longest wait for a fetch answer; then the fetcher reconnects (Kafka's replica.socket.timeout.ms)."""
EPOCH_MAX = 2**31 - 1
CLIENT_ID_PREFIX = "yak-replica:"
"""Prefix of the node id in the client id, for readers of a trace: it proves nothing."""


class ReplicaFetcher:
    """Replicates partitions from one leader. `pump` sends requests; all other methods handle events."""

    def __init__(
        self, broker: Broker, node_id: NodeId, truncations: Truncations, throttle: Throttle, *, partitions_a_fetch: int
    ) -> None:
        self._broker = broker
        self._partitions_a_fetch = partitions_a_fetch
        self._truncations = truncations
        self.node_id = node_id
        self.partitions: dict[Key, Partition] = {}
        self._throttle = throttle
        self._to_tell: dict[Key, None] = {}
        self._to_forget: dict[Key, None] = {}
        self._told: dict[Key, tuple[LeaderEpoch, int, Offset]] = {}
        """For each partition in the leader's session: leader epoch, last request that named it, and fetch offset."""
        self._delayed: dict[Key, int] = {}
        self._tries: dict[Key, int] = {}
        """Consecutive errors."""
        self._stuck_at: dict[Key, Offset] = {}
        """Offset where the leader's log is damaged, so that the log event is written once."""
        self._unflushed: dict[Key, None] = {}
        self._in_flight: deque[int] = deque()
        self._heard_ms = 0
        self._refusals = 0
        self._correlation_id = 0
        self._session_id = 0
        self._session_epoch = 0
        self._peer_id: PeerId | None = None
        self._leaders_boot = ""
        """The leader's incarnation when the connection was opened."""
        self._is_connected = False
        self._is_proven = False
        """Whether requests may be sent."""
        self._pause_ms = RECONNECT_FIRST_MS

    # ----------------------------------------------------------------------------------------------------- partitions

    def follow(self, partition: Partition) -> None:
        """Fetch this partition, or continue in another leader epoch."""
        key = _key(partition)
        self.partitions[key] = partition
        self._unflushed.pop(key, None)
        self._delayed.pop(key, None)
        self._tries.pop(key, None)
        self._to_forget.pop(key, None)
        if partition.log is not None:
            self._tell(key, partition, partition.log)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching this partition."""
        key = _key(partition)
        if self.partitions.pop(key, None) is not None:
            self._to_tell.pop(key, None)
            self._unflushed.pop(key, None)
            self._delayed.pop(key, None)
            self._tries.pop(key, None)
            self._stuck_at.pop(key, None)
            if key in self._told:
                self._to_forget[key] = None

    def is_naming(self, partition: Partition) -> bool:
        """Whether a request that names the partition has no answer yet."""
        told = self._told.get(_key(partition))
        return told is not None and told[1] in self._in_flight

    def flushed(self, partition: Partition) -> None:
        """The appended records are on the device: acknowledge them."""
        key = _key(partition)
        if key in self._unflushed and self.partitions.get(key) is partition:
            del self._unflushed[key]
            if partition.log is not None:
                self._tell(key, partition, partition.log)
                self.pump()

    def close(self) -> None:
        """Close the connection and stop fetching."""
        self._hang_up()
        self.partitions.clear()

    def restart(self) -> None:
        """Reconnect and begin a new session, after this broker or the leader registered a new incarnation."""
        self._hang_up()
        self._pause_ms = RECONNECT_FIRST_MS
        self.pump()

    def hurry(self) -> None:
        """Retry delayed partitions and connections now: the leader may be back, or a throttle may have changed."""
        leader = self._broker.image.brokers.get(self.node_id)
        if leader is not None and self._peer_id is not None and leader.boot_id != self._leaders_boot:
            # The leader's old machine may have failed without closing this connection.
            self.restart()
        for key in self._delayed:
            self._delay_until(key, self._broker.now_ms)
        if (self, "connect") in self._broker.timers:
            self._broker.timers.disarm((self, "connect"))
            self._pause_ms = RECONNECT_FIRST_MS
            self.pump()

    # -------------------------------------------------------------------------------------------------------- time

    def _check_answers(self) -> None:
        """Reconnect when an answer is overdue. Only the connection arms this timer, so that no request has to."""
        now_ms = self._broker.now_ms
        due_ms = now_ms + ANSWER_MS_MAX
        if self._in_flight or not self._is_proven:
            due_ms = self._heard_ms + ANSWER_MS_MAX
        if due_ms > now_ms:
            self._broker.timers.arm((self, "answer"), due_ms, self._check_answers)
        else:
            self._give_up("replica-fetch-unanswered", f"the leader sent no response for {ANSWER_MS_MAX // 1000} s")

    def _delay_until(self, key: Key, due_ms: int) -> None:
        self._delayed[key] = due_ms
        self._broker.timers.arm_at_the_latest((self, "retry"), due_ms, self._retry)

    def _retry(self) -> None:
        now_ms = self._broker.now_ms
        for key in [key for key, due_ms in self._delayed.items() if due_ms <= now_ms]:
            del self._delayed[key]
            partition = self.partitions.get(key)
            if partition is not None and partition.log is not None:
                self._tell(key, partition, partition.log)
        if self._delayed:
            self._broker.timers.arm_at_the_latest((self, "retry"), min(self._delayed.values()), self._retry)
        self.pump()

    # -------------------------------------------------------------------------------------------------- the connection

    def pump(self) -> None:
        """Connect if necessary, and send the requests that are due and allowed."""
        if self._peer_id is None:
            if self.partitions and (self, "connect") not in self._broker.timers:
                self._connect()
            return
        while self._is_proven and len(self._in_flight) < IN_FLIGHT_MAX:
            has_news = bool(self._to_tell or self._to_forget)
            if self._in_flight and (not has_news or self._session_epoch == 0):
                return
            if self._session_epoch == 0 and not self._to_tell:
                return
            self._send()

    def _connect(self) -> None:
        leader = self._broker.image.brokers.get(self.node_id)
        if leader is None:
            self._connect_after(RECONNECT_LONGEST_MS)
            return
        self._leaders_boot = leader.boot_id
        self._peer_id = self._broker.peers.open(leader, self)

    def on_connected(self, peer_id: PeerId) -> None:
        """The leader accepted the connection."""
        if peer_id == self._peer_id:
            self._is_connected, self._heard_ms = True, self._broker.now_ms
            self._check_answers()

    def on_proven(self, peer_id: PeerId) -> None:
        """The leader accepts requests."""
        if peer_id == self._peer_id:
            self._is_proven = True
            self.pump()

    def on_lost(self, peer_id: PeerId, how: PeerEnd, reason: str) -> None:
        """The connection ended, and the session with it: reconnect after a backoff."""
        if peer_id != self._peer_id:
            return
        if self._is_connected and not self._broker.maintenance.is_stopping:
            self._broker.notice("info", "replica-fetch-lost", leader=self.node_id, how=how, reason=reason)
            if how in ("reset", "closed"):
                self._broker.failure_watch.suspect(self.node_id)
        self._reset()
        self._back_off()

    def _back_off(self) -> None:
        self._connect_after(self._pause_ms + self._broker.dice.below(self._pause_ms))
        self._pause_ms = min(2 * self._pause_ms, RECONNECT_LONGEST_MS)

    def _connect_after(self, pause_ms: int) -> None:
        self._broker.timers.arm((self, "connect"), self._broker.now_ms + pause_ms, self.pump)

    def _hang_up(self) -> None:
        if self._peer_id is not None:
            self._broker.peers.close(self._peer_id)
        self._reset()

    def _reset(self) -> None:
        """Forget connection and session: every partition is named again."""
        self._peer_id, self._is_connected, self._is_proven = None, False, False
        for timer in ("answer", "connect"):
            self._broker.timers.disarm((self, timer))
        self._forget_session()

    def _forget_session(self) -> None:
        self._in_flight.clear()
        self._session_id = self._session_epoch = 0
        self._told.clear()
        self._to_forget.clear()
        self._delayed.clear()
        self._broker.timers.disarm((self, "retry"))
        waiting = self._unflushed
        is_resigning = self._broker.damaged_replicas.is_resigning
        self._to_tell = {
            key: None
            for key, held in self.partitions.items()
            if key not in waiting and held.truncation is None and not is_resigning(held)
        }

    # ------------------------------------------------------------------------------------------------------- requests

    def _send(self) -> None:
        broker = self._broker
        config = broker.config
        self._correlation_id = self._correlation_id % EPOCH_MAX + 1
        topics: dict[bytes, list[WantedPartition]] = {}
        for key in _take_first(self._to_tell, self._partitions_a_fetch):
            partition = self.partitions[key]
            log = partition.log
            if log is None:
                continue
            self._told[key] = (partition.leader_epoch, self._correlation_id, log.log_end_offset)
            topics.setdefault(key[0], []).append(_wanted(partition, log, config.replica_fetch_max_bytes))
        forgotten: dict[bytes, list[int]] = {}
        for key in _take_first(self._to_forget, self._partitions_a_fetch):
            self._told.pop(key, None)
            forgotten.setdefault(key[0], []).append(key[1])
        frame = replica_fetch_request(
            self._correlation_id,
            f"{CLIENT_ID_PREFIX}{broker.node_id}",
            cluster_id=broker.image.cluster_id,
            replica_id=broker.node_id,
            replica_epoch=broker.metadata.lifecycle.broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.items()),
            forgotten=list(forgotten.items()),
        )
        if not self._in_flight:
            self._heard_ms = broker.now_ms
        self._in_flight.append(self._correlation_id)
        if self._session_epoch:
            self._session_epoch = self._session_epoch % EPOCH_MAX + 1
        assert self._peer_id is not None
        broker.peers.send(self._peer_id, [frame])

    # ------------------------------------------------------------------------------------------------------- answers

    def on_answer(self, peer_id: PeerId, frame: memoryview) -> None:
        """Take the leader's records, and send the next request."""
        if peer_id != self._peer_id:
            return
        self._heard_ms = self._broker.now_ms
        try:
            answer = decode_replica_fetch_answer(frame)
            if not self._in_flight or answer.correlation_id != self._in_flight.popleft():
                raise ProtocolViolation("the response does not match the request")
        except ProtocolViolation as violation:
            self._give_up("replica-fetch-broken", str(violation))
            return
        if answer.error_code:
            self._refused(answer.error_code)
            return
        if not self._session_epoch:
            self._session_id, self._session_epoch = answer.session_id, 1
        self._pause_ms, self._refusals = RECONNECT_FIRST_MS, 0
        for fetched in answer.partitions:
            self._take(fetched)
        self.pump()

    def _refused(self, error_code: int) -> None:
        """The whole fetch was refused: begin a lost session again, or reconnect after a backoff."""
        if error_code in (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch):
            self._forget_session()
            self.pump()
        else:
            name = next((code.name for code in ErrorCode if code == error_code), str(error_code))
            self._give_up("replica-fetch-refused", name)

    def _give_up(self, event: str, reason: str) -> None:
        # A leader with a slightly older image does not know this broker's incarnation yet.
        self._refusals += 1
        level: Literal["debug", "warning"] = "debug" if self._refusals <= USUAL_REFUSALS else "warning"
        self._broker.notice(level, event, leader=self.node_id, reason=reason)
        self._hang_up()
        self._back_off()

    def _take(self, fetched: FetchedPartition) -> None:
        """Take one partition's part of an answer, if it still applies.

        It is ignored when a request under way names the partition again: it then answers an older request, maybe of an
        older leader epoch.
        """
        key = (fetched.topic_id, fetched.index)
        partition, told = self.partitions.get(key), self._told.get(key)
        if partition is None or told is None or told[0] != partition.leader_epoch or told[1] in self._in_flight:
            return
        if partition.log is None:
            self.unfollow(partition)
        elif partition.truncation is None:
            self._receive(key, partition, partition.log, fetched, told[2])

    def _receive(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition, asked: Offset) -> None:
        try:
            if fetched.diverging_epoch is not None:
                self._truncations.truncate_to_divergence(
                    partition, log, fetched.diverging_epoch, fetched.log_start_offset
                )
                self._tell(key, partition, log)
            elif fetched.error_code:
                self._failed(key, partition, log, fetched)
            else:
                self._append(key, partition, log, fetched, asked)
                self._tries.pop(key, None)
                self._stuck_at.pop(key, None)
        except LogDirectoryFailure as failure:
            if partition.truncation is None and self._broker.offline_replicas.is_full(failure):
                self._delay(key)
            else:
                self._broker.offline_replicas.directory_failed(failure)
        except ProtocolViolation as violation:
            self._broker.notice(
                "error", "replica-append-refused", partition=str(partition.topic_partition), reason=str(violation)
            )
            self._delay(key)

    def _append(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition, asked: Offset) -> None:
        records = fetched.records
        if len(records) >= HEADER_BYTES and not partition.may_follow(records, asked):
            # Else it answers a request from before the log was truncated or grew.
            if partition.begins_inside(records):
                kept = replace(fetched, records=memoryview(bytes(records)))
                base_offset = read_header(kept.records).base_offset
                self._truncations.move_start(
                    partition, log, base_offset, lambda: self._begun(key, partition, log, kept)
                )
            self._tell(key, partition, log)
            return
        broker = self._broker
        start_moved, advanced = partition.append_as_follower(fetched, broker.now_ms)
        broker.counters.replication_bytes_in += len(records)
        if start_moved:
            broker.partition_changed(partition, PartitionEvent.LOG_START_MOVED)
        if advanced:
            broker.advanced(partition)
        if len(records):
            self._acknowledge(key, partition, log, len(records))
        elif start_moved:
            # A DeleteRecords waits until this replica reports its new log start.
            self._tell(key, partition, log)

    def _begun(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition) -> None:
        """The log was truncated to begin with these records: append them."""
        if self.partitions.get(key) is partition:
            self._receive(key, partition, log, fetched, log.log_end_offset)
            self.pump()

    def _acknowledge(self, key: Key, partition: Partition, log: Log, count: int) -> None:
        """Name the partition with its new end: at once, after a flush, or when the throttle permits."""
        broker, config = self._broker, log.config
        if config.flush_ms != NEVER:
            broker.flusher.want_within(partition, config.flush_ms)
        if log.has_rolled:
            broker.flusher.want(partition, all_of_it=False)
        named = is_named(config.follower_replication_throttled_replicas, key[1], broker.node_id)
        if named and broker.node_id not in partition.isr and (wait_ms := self._throttle.taken(count, broker.now_ms)):
            self._delay_until(key, broker.now_ms + wait_ms)
            return
        self._tell(key, partition, log)

    def _tell(self, key: Key, partition: Partition, log: Log) -> None:
        """Name the partition in the next request. That acknowledges its whole log, so a due flush comes first."""
        if partition.truncation is not None or self._broker.damaged_replicas.is_resigning(partition):
            # Named again when the truncation or the resignation is done.
            self._to_tell.pop(key, None)
        elif log.unflushed_messages >= log.config.flush_messages:
            self._to_tell.pop(key, None)
            self._unflushed[key] = None
            self._broker.flusher.want(partition)
        else:
            self._to_tell[key] = None

    def _failed(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition) -> None:
        if fetched.error_code == ErrorCode.offset_out_of_range and fetched.log_start_offset > log.log_end_offset:
            self._truncations.resync_fully(partition, log, fetched.log_start_offset)
            self._tell(key, partition, log)
            return
        if fetched.error_code == ErrorCode.corrupt_message and self._stuck_at.get(key) != log.log_end_offset:
            self._stuck_at[key] = log.log_end_offset
            self._broker.notice(
                "error",
                "replica-fetch-damaged",
                partition=str(partition.topic_partition),
                leader=self.node_id,
                offset=log.log_end_offset,
            )
        self._delay(key)

    def _delay(self, key: Key) -> None:
        """Retry soon, with growing pauses: a new leader may need a few milliseconds to learn that it leads."""
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        pause_ms = min(RETRY_FIRST_MS << min(tries - 1, 16), self._broker.config.replica_fetch_backoff_ms)
        self._delay_until(key, self._broker.now_ms + pause_ms)


def _key(partition: Partition) -> Key:
    return partition.topic_id.bytes, partition.topic_partition.partition


def _take_first(keys: dict[Key, None], count: int) -> list[Key]:
    """Remove and return the first `count` keys."""
    taken = list(islice(keys, count))
    if len(taken) == len(keys):
        keys.clear()
    else:
        for key in taken:
            del keys[key]
    return taken


def _wanted(partition: Partition, log: Log, max_bytes: int) -> WantedPartition:
    """The partition's part of a fetch: the log end and last fetched epoch, by which the leader finds a divergence."""
    end = log.log_end_offset
    last_epoch = log.epochs.epoch_for(end - 1) if end > log.log_start_offset else -1
    return WantedPartition(
        partition.topic_partition.partition, partition.leader_epoch, end, last_epoch, log.log_start_offset, max_bytes
    )
