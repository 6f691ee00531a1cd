"""Reads of a fetch: each partition has its own error, and all share one byte limit.

The read bound of a consumer is the high watermark, which is its last stable offset too: there are no transactions. The
read bound of a follower is the log end. A follower's fetch offset is its acknowledgement: all records before it are in
its log. It counts for the high watermark only with the current leader epoch and the follower's current broker epoch
(KIP-320, KIP-903), over a connection that has proven that incarnation (`yak.protocol.peer_proof`).

A client that gets OFFSET_OUT_OF_RANGE resets its position (`auto.offset.reset`). Kafka guards this by the client's
leader epoch (KIP-320). But a client that loses the new leader may take leader and epoch from an old one that does not
know of the election. So a leader with followers answers NOT_LEADER_OR_FOLLOWER for an offset beyond its end, and the
client retries. It answers OFFSET_OUT_OF_RANGE only after the store confirmed its leadership.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from yak.broker.fetch_sessions import ConsumerItem, FetchItem, FollowerItem, FollowerSession
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.fail_stop import changes_state
from yak.ids import LeaderEpoch, Offset, TopicPartition
from yak.limits import SLICE_ELEMENTS
from yak.ports.disk import Buffer
from yak.protocol.hot import DivergingEpoch, FetchPartitionAnswer
from yak.replication.isr import may_join
from yak.replication.partition import Partition
from yak.replication.partition_events import PartitionEvent
from yak.replication.read_replicas import LEADER_ONLY, preferred_replica
from yak.replication.recent_reads import RecentReads
from yak.replication.throttle import UNLIMITED, Throttle, is_named
from yak.storage.log import Log
from yak.storage.reader import SLICE_BYTES_MIN, OffsetOutOfRange, PendingRead

if TYPE_CHECKING:
    from yak.broker.broker import Broker

NO_ROOM = FetchPartitionAnswer(-1)
"""More records than this answer may hold: the partition comes with the next."""
BEAT_MS: Final = 20
"""The next heartbeat is sent within this time; clients retry after 100 ms or more."""
ASKED_MS: Final = 10_000
"""A confirmation requested longer ago is void, and requested again: the client of that request is gone."""
_NONE = ErrorCode.none
_GOLDEN, _MASK = 0x9E3779B1, 0xFFFFFFFF
"""Steps of the golden ratio visit all partitions evenly, also when the client rotates its list by one."""


class FetchParams(NamedTuple):
    """Which replicas a consumer may read from (KIP-392)."""

    rack_id: str = ""
    """The rack in which the leader looks for a follower to name; empty where the leader serves every consumer."""
    takes_follower: bool = False
    """Whether a follower may answer."""


class FetchRead:
    """The result of one pass over the partitions of a fetch."""

    __slots__ = ("answers", "bytes_count", "has_error", "pending", "to_count")

    def __init__(self) -> None:
        self.answers: list[tuple[Any, FetchPartitionAnswer]] = []
        """Each item (`FetchItem`) and its answer."""
        self.bytes_count = 0
        self.has_error = False
        self.pending: list[tuple[int, PendingRead]] = []
        """(index in `answers`, plan) of reads that must come from the device."""
        self.to_count: list[tuple[ConsumerItem, FetchPartitionAnswer]] = []
        """A consumer's answers with records or an error: few in a fetch of many partitions."""

    def add(self, answer: FetchPartitionAnswer, found: Buffer | PendingRead, size_bytes: int) -> int:
        """Put what was read into the next answer; returns its size. A read from the device counts as `size_bytes`."""
        if isinstance(found, PendingRead):
            self.pending.append((len(self.answers), found))
            taken = max(size_bytes, 1)
        else:
            answer.records = found
            taken = len(found)
        self.bytes_count += taken
        return taken

    def take(self, broker: Broker, result: list[Any] | None, error: BaseException | None) -> None:
        """Put the job's records into the answers; a failed read is a storage error. Raises any other error."""
        if error is not None and not isinstance(error, LogDirectoryFailure):
            raise error
        for position, (index, plan) in enumerate(self.pending):
            answer = self.answers[index][1]
            if result is None:
                answer.error_code = ErrorCode.kafka_storage_error
            else:
                answer.records = result[position]
                answer.next_offset = plan.next_offset
                error_code = broker.damaged_replicas.read(broker.partitions.get(plan.log.topic_partition), plan)
                if not len(answer.records):
                    answer.error_code = error_code
        self.pending = []


def read_items(
    broker: Broker, items: list[ConsumerItem], max_bytes: int, rotation: int, sliced_max_bytes: int, params: FetchParams
) -> FetchRead:
    """Read every item, starting at one that `rotation` picks; answers are in the order of `items`.

    After half of `max_bytes`, partitions are answered with slices of files for the kernel to send, up to
    `sliced_max_bytes` in all. Where that is not possible, records are read here, up to `max_bytes`.
    """
    reading = FetchRead()
    count = len(items)
    if not count:
        return reading
    first = ((rotation * _GOLDEN) & _MASK) * count >> 32
    order = items[first:] + items[:first] if first else items
    _read_some(broker, reading, order, max_bytes, sliced_max_bytes, params)
    if first:
        _put_in_order(reading, count, first)
    return reading


def read_in_slices(
    broker: Broker, items: list[ConsumerItem], max_bytes: int, rotation: int, sliced_max_bytes: int, params: FetchParams
) -> Generator[None, None, FetchRead]:
    """`read_items` with a pause after every `SLICE_ELEMENTS` items."""
    reading = FetchRead()
    count = len(items)
    first = ((rotation * _GOLDEN) & _MASK) * count >> 32
    order = items[first:] + items[:first]
    for start in range(0, count, SLICE_ELEMENTS):
        _read_some(broker, reading, order[start : start + SLICE_ELEMENTS], max_bytes, sliced_max_bytes, params)
        yield
    if first:
        _put_in_order(reading, count, first)
    return reading


def _put_in_order(reading: FetchRead, count: int, first: int) -> None:
    cut = count - first
    reading.answers = reading.answers[cut:] + reading.answers[:cut]
    reading.pending = [((index - cut) % count, plan) for index, plan in reading.pending]


def _read_some(
    broker: Broker,
    reading: FetchRead,
    items: list[ConsumerItem],
    max_bytes: int,
    sliced_max_bytes: int,
    params: FetchParams,
) -> None:
    find = broker.partitions.get
    takes_care = broker.shutdown.is_stopping or params.rack_id != ""
    answers = reading.answers
    for item in items:
        partition: Partition | None = find((item.name, item.index))  # type: ignore[call-overload]
        if (
            partition is None
            or partition.log is None
            or not partition.is_leader
            or takes_care
            or item.last_fetched_epoch >= 0
            or item.current_leader_epoch not in (-1, partition.leader_epoch)
            or (item.topic_key is not partition.topic_id and type(item.topic_key) is not str)
        ):
            _read_carefully(broker, reading, item, max_bytes, params)
            continue
        log, high_watermark, offset = partition.log, partition.high_watermark, item.fetch_offset
        log_start_offset = log.log_start_offset
        if not log_start_offset <= offset <= high_watermark:
            _read_carefully(broker, reading, item, max_bytes, params)
            continue
        if offset == high_watermark:
            # nothing new: true for most partitions of a large fetch
            answers.append(
                (item, FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log_start_offset))
            )
            continue
        read_bytes = reading.bytes_count
        if read_bytes * 2 >= max_bytes > 0 and _slice(broker, reading, partition, item, sliced_max_bytes - read_bytes):
            continue
        if 0 < max_bytes <= read_bytes:
            answers.append(
                (item, FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log_start_offset))
            )
        else:
            _read_carefully(broker, reading, item, max_bytes, params)


def _slice(broker: Broker, reading: FetchRead, partition: Partition, item: ConsumerItem, room: int) -> bool:
    """Let the kernel send records of this partition; False where that is not possible."""
    log, high_watermark = partition.log, partition.high_watermark
    room = min(item.max_bytes, room)
    if room < SLICE_BYTES_MIN or log is None:
        return False
    try:
        part = log.slice(item.fetch_offset, room, high_watermark)
    except LogDirectoryFailure as failure:
        broker.offline_replicas.directory_failed(failure)
        return False
    if part is None:
        return False
    answer = FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log.log_start_offset, part)
    answer.next_offset = log.read_end
    reading.answers.append((item, answer))
    reading.to_count.append((item, answer))
    reading.bytes_count += len(part)
    return True


def _read_carefully(
    broker: Broker, reading: FetchRead, item: ConsumerItem, max_bytes: int, params: FetchParams
) -> None:
    try:
        partition = _readable(broker, item, params)
        answer = _elsewhere(broker, partition, item, params) or _diverging(partition, item)
        if answer is None:
            answer = _read(broker, reading, partition, item, max_bytes)
        else:
            reading.has_error = True
    except PeerError as error:
        reading.has_error = True
        answer = FetchPartitionAnswer(item.index, error.error_code, -1, -1, -1, b"")
        reading.to_count.append((item, answer))
    reading.answers.append((item, answer))


def _readable(broker: Broker, item: ConsumerItem, params: FetchParams) -> Partition:
    """The partition, if this broker may serve it in the client's leader epoch. Raises PeerError."""
    if item.name is None:
        item.name = broker.topic_name(item.topic_key)
        if item.name is None:
            raise PeerError(ErrorCode.unknown_topic_id)
    partition: Partition | None = broker.partitions.get((item.name, item.index))  # type: ignore[call-overload]
    if (
        partition is None
        or partition.log is None
        or not (partition.is_leader or (params.takes_follower and partition.is_follower))
        or broker.shutdown.is_stopping
    ):
        partition = broker.leader_of(TopicPartition(item.name, item.index))
    if type(item.topic_key) is not str and partition.topic_id != item.topic_key:
        raise PeerError(ErrorCode.unknown_topic_id)
    if item.current_leader_epoch >= 0:
        _check_leader_epoch(partition, item)
    return partition


def _check_leader_epoch(partition: Partition, item: FetchItem) -> None:
    """Raise PeerError when the reader knows another leader epoch (KIP-320)."""
    epoch = item.current_leader_epoch
    if epoch != partition.leader_epoch:
        is_old = epoch < partition.leader_epoch
        raise PeerError(ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch)


def _elsewhere(
    broker: Broker, partition: Partition, item: ConsumerItem, params: FetchParams
) -> FetchPartitionAnswer | None:
    """An answer that names the follower to read from, without records; None when this broker serves the read."""
    if not params.rack_id or not partition.is_leader:
        return None
    replica_id = preferred_replica(broker.image, partition, params.rack_id, item.fetch_offset)
    if replica_id == LEADER_ONLY:
        return None
    high_watermark = partition.high_watermark
    answer = FetchPartitionAnswer(item.index, _NONE, high_watermark, high_watermark, partition.log_start_offset)
    answer.preferred_read_replica = replica_id
    return answer


def _diverging(partition: Partition, item: ConsumerItem) -> FetchPartitionAnswer | None:
    """Where the reader's log diverges from ours, if the request has its last fetched epoch (KIP-595); else None."""
    if item.last_fetched_epoch < 0:
        return None
    log = partition.log
    assert log is not None
    diverging = _diverging_epoch(log, item)
    if diverging is None:
        return None
    if diverging.epoch < 0:
        raise PeerError(ErrorCode.offset_out_of_range)
    answer = FetchPartitionAnswer(
        item.index, _NONE, partition.high_watermark, partition.high_watermark, log.log_start_offset, b""
    )
    answer.diverging_epoch = diverging
    return answer


def _diverging_epoch(log: Log, item: FetchItem) -> DivergingEpoch | None:
    """The largest epoch that both logs may share, if they diverge before the fetch offset (KIP-595); else None.

    Its epoch is negative when the reader's last epoch is later than all of this log.
    """
    epoch, end_offset = log.end_offset_for_epoch(item.last_fetched_epoch)
    if epoch >= item.last_fetched_epoch and end_offset >= item.fetch_offset:
        return None
    return DivergingEpoch(epoch, end_offset)


def _read(
    broker: Broker, reading: FetchRead, partition: Partition, item: ConsumerItem, max_bytes: int
) -> FetchPartitionAnswer:
    log = partition.log
    assert log is not None
    high_watermark = partition.high_watermark
    offset = item.fetch_offset
    answer = FetchPartitionAnswer(item.index, _NONE, high_watermark, high_watermark, log.log_start_offset, b"")
    if offset >= high_watermark or offset < log.log_start_offset:
        if offset < log.log_start_offset or offset > log.log_end_offset:
            if _may_be_elsewhere(broker, partition, offset, item.current_leader_epoch):
                raise PeerError(ErrorCode.not_leader_or_follower)
            raise PeerError(ErrorCode.offset_out_of_range)
        return answer
    at_least_one = reading.bytes_count == 0
    budget = min(item.max_bytes, max_bytes - reading.bytes_count)
    if budget <= 0 and not at_least_one:
        return answer
    try:
        found = log.read(offset, max(budget, 0), high_watermark, at_least_one=at_least_one)
    except OffsetOutOfRange as error:
        raise PeerError(ErrorCode.offset_out_of_range, str(error)) from error
    except LogDirectoryFailure as failure:
        broker.offline_replicas.directory_failed(failure)
        raise PeerError(ErrorCode.kafka_storage_error) from failure
    reading.to_count.append((item, answer))
    reading.add(answer, found, budget)
    answer.next_offset = log.read_end
    return answer


def _may_be_elsewhere(broker: Broker, partition: Partition, offset: Offset, current_leader_epoch: LeaderEpoch) -> bool:
    """Whether a consumer with an `offset` outside of the log must look for the leader first."""
    if partition.is_follower:
        # A client without a leader epoch takes this follower for the leader.
        return current_leader_epoch < 0
    assert partition.log is not None
    if offset < partition.log.log_start_offset:
        return current_leader_epoch < 0 and broker.isolation.may_be_fenced(partition)
    return bool(partition.replica_states) and not _still_leads(broker, partition)


def _still_leads(broker: Broker, partition: Partition) -> bool:
    """Whether the store accepted a heartbeat since the first request, and the image includes all it knew then."""
    heartbeats = broker.metadata.lifecycle.heartbeats
    asked_ms = partition.asked_beyond_ms
    if asked_ms is not None and broker.now_ms - asked_ms >= ASKED_MS:
        asked_ms = None
    if asked_ms is not None and heartbeats.accepted_ms > asked_ms and broker.image.offset >= heartbeats.accepted_offset:
        partition.asked_beyond_ms = None
        return True
    if asked_ms is None:
        partition.asked_beyond_ms = broker.now_ms
    broker.metadata.heartbeat_by(broker.now_ms + BEAT_MS)
    return False


class FollowerReader:
    """Reads one partition at a time; `throttle` limits replicas that catch up."""

    def __init__(self, broker: Broker, throttle: Throttle) -> None:
        self._broker = broker
        self.throttle = throttle
        self._recent = RecentReads()

    def look(
        self, session: FollowerSession, item: FollowerItem, reading: FetchRead, room: int
    ) -> FetchPartitionAnswer | None:
        """The answer for one partition; None when the follower has everything."""
        try:
            partition = self._readable(item)
            if item.is_fresh:
                answer = self._take_progress(session, partition, item)
                if answer is not None:
                    return answer
            return self._read(session, partition, item, reading, room)
        except PeerError as error:
            return FetchPartitionAnswer(item.index, error.error_code, -1, -1, -1, b"")
        except LogDirectoryFailure as failure:
            self._broker.offline_replicas.directory_failed(failure)
            return FetchPartitionAnswer(item.index, ErrorCode.kafka_storage_error, -1, -1, -1, b"")

    def _readable(self, item: FollowerItem) -> Partition:
        partition = item.partition
        if partition is None or self._broker.partitions.get(partition.topic_partition) is not partition:
            raise PeerError(ErrorCode.unknown_topic_id)
        if partition.log is None:
            raise PeerError(ErrorCode.kafka_storage_error)
        if not partition.is_leader or self._broker.shutdown.is_stopping:
            raise PeerError(ErrorCode.not_leader_or_follower)
        _check_leader_epoch(partition, item)
        return partition

    @changes_state
    def _take_progress(
        self, session: FollowerSession, partition: Partition, item: FollowerItem
    ) -> FetchPartitionAnswer | None:
        """Count the fetch offset as acknowledged, once the follower's log is known to match up to there."""
        log = partition.log
        assert log is not None
        replica = partition.replica_states.get(session.node_id)
        if replica is None:
            raise PeerError(
                ErrorCode.not_leader_or_follower, f"broker {session.node_id} is not a replica of this partition"
            )
        offset, end = item.fetch_offset, log.log_end_offset
        if offset > end or item.last_fetched_epoch != log.epochs.latest:
            diverging = _divergence_of_follower(log, item)
            if diverging is not None:
                answer = FetchPartitionAnswer(item.index, 0, partition.high_watermark, -1, log.log_start_offset, b"")
                answer.diverging_epoch = diverging
                return answer
        if offset < log.log_start_offset:
            return FetchPartitionAnswer(
                item.index, ErrorCode.offset_out_of_range, partition.high_watermark, -1, log.log_start_offset, b""
            )
        item.is_fresh = False
        start_moved = item.log_start_offset > replica.log_start_offset
        was_regressed = replica.is_regressed
        if replica.fetched(session.broker_epoch, offset, item.log_start_offset, end, self._broker.now_ms):
            reports = self._broker.high_watermark_reports
            if not reports.moved:
                reports.send_soon()
            reports.moved[partition] = None
            if partition.advance_high_watermark():
                self._broker.advanced(partition)
            if may_join(partition, session.node_id):
                self._broker.isr_changes.look(partition)
            if start_moved:
                self._broker.partition_changed(partition, PartitionEvent.FOLLOWER_LOG_START_MOVED)
        elif replica.is_regressed and not was_regressed:
            self._broker.notice(
                "warning",
                "replica-end-regressed",
                partition=str(partition.topic_partition),
                follower=session.node_id,
                fetch_offset=offset,
                acknowledged_offset=replica.furthest_offset,
            )
        return None

    def _read(
        self, session: FollowerSession, partition: Partition, item: FollowerItem, reading: FetchRead, room: int
    ) -> FetchPartitionAnswer | None:
        log = partition.log
        assert log is not None
        high_watermark, log_start_offset = partition.high_watermark, log.log_start_offset
        offset, end = item.fetch_offset, log.log_end_offset
        if (
            offset >= end
            and high_watermark == item.sent_high_watermark
            and log_start_offset == item.sent_log_start_offset
            and (room > 0 or not reading.bytes_count)
        ):
            return None
        answer = FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log_start_offset, b"")
        if room <= 0 and reading.bytes_count:
            return NO_ROOM
        if offset < end:
            size = min(item.max_bytes, max(room, 0))
            is_held_back = session.node_id not in partition.isr and self._is_throttled(session, partition)
            if is_held_back:
                now_ms = self._broker.now_ms
                if self.throttle.is_full(now_ms):
                    self._broker.follower_sessions.delay_throttled(session, item)
                    return None
                size = min(size, self.throttle.room(now_ms))
            try:
                if item.asks_again:
                    found: Buffer | PendingRead = log.checked_read(
                        offset, size, end, at_least_one=not reading.bytes_count
                    )
                else:
                    found = self._find(partition, log, offset, size, end, at_least_one=not reading.bytes_count)
            except OffsetOutOfRange as error:
                return FetchPartitionAnswer(
                    item.index, ErrorCode.offset_out_of_range, high_watermark, -1, error.log_start_offset, b""
                )
            taken = reading.add(answer, found, size)
            if is_held_back:
                self.throttle.took(taken, self._broker.now_ms)
            if taken:
                item.given_offset = offset
            else:
                # The next batch exceeds the room that is left. Only this mark brings it into the next answer.
                return NO_ROOM
        return answer

    def _find(
        self, partition: Partition, log: Log, offset: Offset, size: int, end: Offset, *, at_least_one: bool
    ) -> Buffer | PendingRead:
        at_hand = log.newest_batch(offset, end, size) or self._recent.take(log, offset, size)
        if at_hand is not None:
            return at_hand
        found = log.read(offset, size, end, at_least_one=at_least_one)
        if not isinstance(found, PendingRead):
            self._recent.keep(log, offset, found, len(partition.replica_sessions or ()) - 1)
        return found

    def _is_throttled(self, session: FollowerSession, partition: Partition) -> bool:
        if self.throttle.rate >= UNLIMITED:
            return False
        assert partition.log is not None
        named = partition.log.config.leader_replication_throttled_replicas
        return is_named(named, partition.topic_partition.partition, session.node_id)


def _divergence_of_follower(log: Log, item: FollowerItem) -> DivergingEpoch | None:
    """Where the follower truncates, if its log diverges before the fetch offset; else None."""
    end = log.log_end_offset
    if item.last_fetched_epoch < 0:
        return DivergingEpoch(log.latest_epoch, end) if item.fetch_offset > end else None
    diverging = _diverging_epoch(log, item)
    if diverging is not None and diverging.epoch < 0:
        # A later epoch than any of ours: the records of a leader that lost an unclean election.
        return DivergingEpoch(log.latest_epoch, end)
    return diverging


def must_act(answer: FetchPartitionAnswer) -> bool:
    """Whether the follower must act on the answer, and then names the partition again."""
    return bool(len(answer.records) or answer.error_code or answer.diverging_epoch is not None)
