"""The follower's side of replication: one fetcher for each leader, for all partitions followed there.

A fetch names only what changed since the last one (KIP-227): partitions that are new, whose log grew, or that are
retried. A fetch offset is an acknowledgement. So a partition is named with a higher offset only when all records before
it are in the log, and on the device where every record is flushed. One request waits at the leader; when a partition
changes meanwhile, a second request follows it and ends the wait. A fetch names a bounded number of partitions, so that
neither end serves thousands of them in one step; the others are named in the next ones. An answer that is much work,
since many logs roll, is taken over several turns, in its order; no request is sent until all of it is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.core.broker_channel import BrokerChannel, ChannelEvents
from yak.core.context import Context
from yak.core.peers import Peers
from yak.errors import ErrorCode, LogDirectoryFailure, ProtocolViolation
from yak.ids import LeaderEpoch, NodeId, Offset
from yak.protocol.record_batch import HEADER_BYTES, read_header
from yak.protocol.replica_fetch import (
    FetchedPartition,
    WantedPartition,
    decode_replica_fetch_answer,
    replica_fetch_request,
)
from yak.replication.follower_logs import FollowerLogs
from yak.replication.log_failures import REPLICATION
from yak.replication.partition import Partition
from yak.replication.throttle import Throttle, is_named
from yak.replication.truncation import Truncations
from yak.storage.log import Log

Key: TypeAlias = tuple[bytes, int]
"""Topic id as its 16 bytes, and partition. A UUID is hashed and compared in Python, several times for each answer."""
EVENTS = ChannelEvents("replica-fetch-lost", "replica-fetch-unanswered", "replica-fetch-broken")
IN_FLIGHT_MAX = 2
ROLL_WORK = 100
"""A roll is as much work as so many partitions without one: it creates five files, of up to a millisecond each."""
RETRY_FIRST_MS = 5
HALVINGS_MAX = 5
"""A fetch requests half as much after each one that was overdue, since a slow link may need longer for it. With the default
limits, a link of 50 kbit/s then replicates."""
EPOCH_MAX = 2**31 - 1
CLIENT_ID_PREFIX = "yak-replica:"
"""Prefix of the node id in the client id, for readers of a trace: it proves nothing."""


class ReplicaFetcher:
    """Replicates partitions from one leader. `send_due` sends requests; all other methods handle events."""

    def __init__(
        self,
        context: Context,
        leader_id: NodeId,
        lifecycle: BrokerLifecycle,
        peers: Peers,
        logs: FollowerLogs,
        truncations: Truncations,
        throttle: Throttle,
        *,
        partitions_a_fetch: int,
    ) -> None:
        self._context, self._leader_id, self._lifecycle = context, leader_id, lifecycle
        self._node_id = lifecycle.identity.node_id
        self._client_id = f"{CLIENT_ID_PREFIX}{self._node_id}"
        self._logs, self._truncations, self._throttle = logs, truncations, throttle
        self._partitions_a_fetch = partitions_a_fetch
        self._channel = BrokerChannel(
            context, peers, leader_id, self, EVENTS, answer_ms_max=context.config.replica_socket_timeout_ms
        )
        self.partitions: dict[Key, Partition] = {}
        self._to_name: dict[Key, None] = {}
        self._to_forget: dict[Key, None] = {}
        self._named: dict[Key, tuple[LeaderEpoch, int, Offset]] = {}
        """For each partition in the leader's session: leader epoch, last request that named it, and fetch offset."""
        self._delayed: dict[Key, int] = {}
        self._tries: dict[Key, int] = {}
        """Consecutive errors."""
        self._stuck_at: dict[Key, Offset] = {}
        """Offset where the leader's log is damaged, so that the log event is written once."""
        self._unflushed: dict[Key, None] = {}
        self._checked_behind: dict[Key, None] = {}
        """Compacted partitions that are behind, and whose open transactions were checked against this leader."""
        self._untaken: deque[tuple[int, list[FetchedPartition]]] = deque()
        """Answers by their requests' correlation ids, with the partitions that later turns take."""
        self._session_id = 0
        self._session_epoch = 0

    # ----------------------------------------------------------------------------------------------------- partitions

    def follow(self, partition: Partition) -> None:
        """Fetch this partition, or continue in another leader epoch."""
        key = _key(partition)
        self.partitions[key] = partition
        partition.answered_gap = None
        self._forget_epoch(key)
        self._to_forget.pop(key, None)
        self._name(key, partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching this partition."""
        key = _key(partition)
        if self.partitions.pop(key, None) is not None:
            self._forget_epoch(key)
            self._to_name.pop(key, None)
            self._stuck_at.pop(key, None)
            if key in self._named:
                self._to_forget[key] = None

    def _forget_epoch(self, key: Key) -> None:
        """Forget what concerns a partition in one leader epoch only."""
        self._unflushed.pop(key, None)
        self._delayed.pop(key, None)
        self._tries.pop(key, None)
        self._checked_behind.pop(key, None)

    def is_naming(self, partition: Partition) -> bool:
        """Whether a request that names the partition has no answer yet, or one that is not taken."""
        named = self._named.get(_key(partition))
        return named is not None and self._is_under_way(named[1])

    def _is_under_way(self, correlation_id: int) -> bool:
        """Whether a request has no answer yet, or one that is not taken."""
        if correlation_id in self._channel.in_flight:
            return True
        return bool(self._untaken) and any(correlation_id == each for each, _rest in self._untaken)

    def flushed(self, partition: Partition) -> None:
        """The appended records are on the device: acknowledge them."""
        key = _key(partition)
        if key in self._unflushed and self.partitions.get(key) is partition:
            del self._unflushed[key]
            self._name(key, partition)
            self.send_due()

    def close(self) -> None:
        """Close the connection and stop fetching."""
        self._channel.close()
        self.partitions.clear()

    def restart(self) -> None:
        """Reconnect and begin a new session, after this broker registered a new incarnation."""
        self._channel.restart()

    def hurry(self) -> None:
        """Retry delayed partitions and connections now: the leader may be back, or a throttle may have changed."""
        self._channel.hurry()
        for key in self._delayed:
            self._delay_until(key, self._context.clock.now_ms)

    def _delay_until(self, key: Key, due_ms: int) -> None:
        self._delayed[key] = due_ms
        self._context.timers.arm_at_the_latest((self, "retry"), due_ms, self._retry)

    def _retry(self) -> None:
        now_ms = self._context.clock.now_ms
        for key in [key for key, due_ms in self._delayed.items() if due_ms <= now_ms]:
            del self._delayed[key]
            partition = self.partitions.get(key)
            if partition is not None:
                self._name(key, partition)
        if self._delayed:
            self._context.timers.arm_at_the_latest((self, "retry"), min(self._delayed.values()), self._retry)
        self.send_due()

    # ---------------------------------------------------------------------------------------------------- the session

    def on_disconnected(self) -> None:
        """The session ended, perhaps with its connection: name every partition again, in a new session."""
        self._session_id = self._session_epoch = 0
        self._named.clear()
        self._to_forget.clear()
        self._delayed.clear()
        self._checked_behind.clear()
        self._untaken.clear()
        for timer in ("retry", "take"):
            self._context.timers.disarm((self, timer))
        for held in self.partitions.values():
            held.answered_gap = None  # the leader recognizes a repeated fetch only within a session, and checks then
        waiting = self._unflushed
        self._to_name = {key: None for key, held in self.partitions.items() if key not in waiting and held.may_be_named}

    # ------------------------------------------------------------------------------------------------------- requests

    def send_due(self) -> None:
        """Connect if necessary, and send the requests that are due and allowed."""
        channel = self._channel
        if not channel.is_proven:
            if self.partitions:
                channel.open()
            return
        if self._untaken:
            return
        while len(channel.in_flight) < IN_FLIGHT_MAX:
            has_changes = self._to_name or self._to_forget
            if channel.in_flight and (not has_changes or self._session_epoch == 0):
                return
            if self._session_epoch == 0 and not self._to_name:
                return
            self._send()

    def _send(self) -> None:
        config, channel = self._context.config, self._channel
        correlation_id = channel.next_correlation_id
        less = min(channel.overdue, HALVINGS_MAX)
        topics: dict[bytes, list[WantedPartition]] = {}
        for key in _take_first(self._to_name, self._partitions_a_fetch):
            partition = self.partitions[key]
            log = partition.log
            if log is None:
                continue
            self._named[key] = (partition.leader_epoch, correlation_id, log.log_end_offset)
            topics.setdefault(key[0], []).append(_wanted(partition, log, config.replica_fetch_max_bytes >> less))
        forgotten: dict[bytes, list[int]] = {}
        for key in _take_first(self._to_forget, self._partitions_a_fetch):
            self._named.pop(key, None)
            forgotten.setdefault(key[0], []).append(key[1])
        frame = replica_fetch_request(
            correlation_id,
            self._client_id,
            cluster_id=self._context.image.cluster_id,
            replica_id=self._node_id,
            replica_epoch=self._lifecycle.broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes >> less,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.items()),
            forgotten=list(forgotten.items()),
        )
        if self._session_epoch:
            self._session_epoch = self._session_epoch % EPOCH_MAX + 1
        channel.send(frame)

    # ------------------------------------------------------------------------------------------------------- answers

    def on_answer(self, frame: memoryview) -> None:
        """Take the leader's records, and send the next request."""
        try:
            answer = decode_replica_fetch_answer(frame)
        except ProtocolViolation as violation:
            self._channel.give_up(EVENTS.broken, str(violation))
            return
        if answer.error_code:
            self._refused(answer.error_code)
            return
        if not self._session_epoch:
            self._session_id, self._session_epoch = answer.session_id, 1
        partitions = answer.partitions
        if self._untaken:
            self._untaken.append((answer.correlation_id, _copied(partitions)))
        elif len(partitions) == 1:
            self._take(partitions[0])
            self.send_due()
        elif rest := self._take_some(partitions):
            self._untaken.append((answer.correlation_id, _copied(rest)))
            self._context.after((self, "take"), 1, self._take_rest)
        else:
            self.send_due()

    def _take_rest(self) -> None:
        self._context.timers.end_round()
        correlation_id, partitions = self._untaken.popleft()
        if rest := self._take_some(partitions):
            self._untaken.appendleft((correlation_id, rest))
        if self._untaken:
            self._context.after((self, "take"), 1, self._take_rest)
        else:
            self.send_due()

    def _take_some(self, partitions: list[FetchedPartition]) -> list[FetchedPartition]:
        """Take partitions until they are a turn's work; returns the others."""
        work = 0
        for count, fetched in enumerate(partitions, 1):
            work += self._take(fetched)
            if work >= self._partitions_a_fetch:
                return partitions[count:]
        return []

    def _refused(self, error_code: int) -> None:
        """The whole fetch was refused: begin a lost session again, or reconnect after a backoff."""
        if error_code in (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch):
            self.on_disconnected()
            self.send_due()
        else:
            name = next((code.name for code in ErrorCode if code == error_code), str(error_code))
            self._channel.give_up("replica-fetch-refused", name)

    def _take(self, fetched: FetchedPartition) -> int:
        """Take one partition's part of an answer, if it still applies; returns its work.

        It is ignored when a request under way names the partition again: it then answers an older request, maybe of an
        older leader epoch.
        """
        key = (fetched.topic_id, fetched.index)
        partition, named = self.partitions.get(key), self._named.get(key)
        if partition is None or named is None:
            return 1
        leader_epoch, correlation_id, fetch_offset = named
        if leader_epoch != partition.leader_epoch or self._is_under_way(correlation_id):
            return 1
        log = partition.log
        if log is None:
            self.unfollow(partition)
            return 1
        active, segments = log.active, len(log.segments)
        if partition.truncation is None and not partition.is_handed_over:
            self._receive(key, partition, log, fetched, fetch_offset)
        return 1 if log.active is active else 1 + ROLL_WORK * abs(len(log.segments) - segments)

    def _receive(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition, offset: Offset) -> None:
        try:
            if fetched.diverging_epoch is not None:
                self._truncations.truncate_to_divergence(
                    partition, log, fetched.diverging_epoch, fetched.log_start_offset
                )
                self._name(key, partition)
            elif fetched.error_code:
                self._failed(key, partition, log, fetched)
            else:
                self._append(key, partition, log, fetched, offset)
                self._tries.pop(key, None)
                self._stuck_at.pop(key, None)
        except LogDirectoryFailure as failure:
            if self._logs.failures.write_failed(REPLICATION, failure):
                self._delay(key)
        except ProtocolViolation as violation:
            self._context.notice(
                "error", "replica-append-refused", partition=str(partition.topic_partition), reason=str(violation)
            )
            self._delay(key)

    def _append(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition, offset: Offset) -> None:
        records, had_no_gap = fetched.records, log.cleaned_offset is None
        if len(records) >= HEADER_BYTES and not partition.may_follow(records, offset):
            # Else it answers a request from before the log was truncated or grew.
            if partition.begins_inside(records):
                copied = replace(fetched, records=memoryview(bytes(records)))
                base_offset = read_header(copied.records).base_offset
                self._truncations.move_start(
                    partition, log, base_offset, lambda: self._begun(key, partition, log, copied)
                )
            self._name(key, partition)
            return
        if had_no_gap and log.cleaned_offset is not None:
            self._logs.gap_found(partition)
        if log.may_have_gaps and log.producers.has_transactions and self._must_copy_again(key, log, fetched, offset):
            self._truncations.copy_again_from_open_transaction(partition, log)
            self._name(key, partition)
            return
        start_moved = self._logs.append(partition, log, fetched)
        count, throttled = len(records), log.config.follower_replication_throttled_replicas
        if throttled and count and (wait_ms := self._throttled_ms(partition, throttled, count)):
            self._delay_until(key, self._context.clock.now_ms + wait_ms)
        elif count and (lag_ms := self._lag_ms(partition)):
            self._delay_until(key, self._context.clock.now_ms + lag_ms)
        elif count or start_moved:
            # A DeleteRecords waits until this replica reports its new log start.
            self._name(key, partition)

    def _must_copy_again(self, key: Key, log: Log, fetched: FetchedPartition, offset: Offset) -> bool:
        """Whether the leader may have removed the marker of a transaction that is open in this log.

        A leader's cleaner removes a marker after all records of its transaction (KIP-534). A replica that has copied the
        records, and continues behind the marker, would let the producer's next marker decide that transaction too. So
        the first answer of a session, or of a leader epoch, that finds this replica behind is checked: a transaction that
        is open here and over on the leader is copied again. The first answer after errors, as of a full disk, is checked too
        if the leader has had the time to remove the marker since this replica copied the records. A replica behind the
        high watermark is not in the leader's ISR, so it may truncate what it acknowledged.
        """
        if fetched.high_watermark <= offset:
            self._checked_behind.pop(key, None)
            return False
        if key in self._checked_behind:
            copied_ms = log.producers.oldest_transaction_ms() if key in self._tries else None
            if copied_ms is None or self._context.clock.now_ms - copied_ms < log.config.delete_retention_ms:
                return False
        self._checked_behind[key] = None
        first_open = log.producers.first_open_offset
        if first_open is None or first_open >= fetched.last_stable_offset:
            return False
        return max(first_open, log.log_start_offset) < log.log_end_offset

    def _begun(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition) -> None:
        """The log was truncated to begin with these records: append them."""
        if self.partitions.get(key) is partition:
            self._receive(key, partition, log, fetched, log.log_end_offset)
            self.send_due()

    def _throttled_ms(self, partition: Partition, throttled: Sequence[str], count: int) -> int:
        """For how long a replica outside of the ISR must not fetch after these bytes."""
        node_id = partition.node_id
        if not is_named(throttled, partition.topic_partition.partition, node_id) or node_id in partition.isr:
            return 0
        return self._throttle.took(count)

    def _lag_ms(self, partition: Partition) -> int:
        """How long a fault that tests inject delays the fetch that acknowledges the records, and takes the next ones."""
        faults = self._context.faults
        return faults.lag_ms(*partition.topic_partition, self._node_id) if faults else 0

    def _name(self, key: Key, partition: Partition) -> None:
        """Name the partition in the next request. That acknowledges its whole log, so a due flush comes first."""
        log = partition.log
        if log is None or not partition.may_be_named:
            # Named again when there is a log, or the truncation, the resignation or the move is done.
            self._to_name.pop(key, None)
        elif log.unflushed_messages >= log.config.flush_messages:
            self._to_name.pop(key, None)
            self._unflushed[key] = None
            self._logs.flush(partition)
        else:
            self._to_name[key] = None

    def _failed(self, key: Key, partition: Partition, log: Log, fetched: FetchedPartition) -> None:
        if fetched.error_code == ErrorCode.offset_out_of_range and fetched.log_start_offset > log.log_end_offset:
            self._truncations.resync_fully(partition, log, fetched.log_start_offset)
            self._name(key, partition)
            return
        if fetched.error_code == ErrorCode.corrupt_message and self._stuck_at.get(key) != log.log_end_offset:
            self._stuck_at[key] = log.log_end_offset
            self._context.notice(
                "error",
                "replica-fetch-damaged",
                partition=str(partition.topic_partition),
                leader=self._leader_id,
                offset=log.log_end_offset,
            )
        self._delay(key)

    def _delay(self, key: Key) -> None:
        """Retry soon, with growing pauses: a new leader may need a few milliseconds to learn that it leads."""
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        pause_ms = min(RETRY_FIRST_MS << min(tries - 1, 16), self._context.config.replica_fetch_backoff_ms)
        self._delay_until(key, self._context.clock.now_ms + pause_ms)


def _key(partition: Partition) -> Key:
    return partition.topic_id.bytes, partition.topic_partition.partition


def _copied(partitions: list[FetchedPartition]) -> list[FetchedPartition]:
    """The partitions with copies of their records: an answer's bytes are valid only during its step."""
    for fetched in partitions:
        fetched.records = memoryview(bytes(fetched.records))
    return partitions


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
