"""Reading for a consumer's fetch: each partition has its own error, and all share one byte limit."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from yak.broker.out_of_range import may_be_elsewhere
from yak.broker.read_replicas import LEADER_ONLY, preferred_replica
from yak.broker.sessions import FetchItem
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.ids import TopicPartition
from yak.limits import SLICE_ELEMENTS
from yak.protocol.hot import DivergingEpoch, FetchPartitionAnswer
from yak.replication.partition import Partition
from yak.storage.reader import SLICE_BYTES_MIN, OffsetOutOfRange, PendingRead

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_NONE = ErrorCode.none
_GOLDEN, _MASK = 0x9E3779B1, 0xFFFFFFFF
"""Steps of the golden ratio visit all partitions evenly, also when the client rotates its list by one."""


class Reader(NamedTuple):
    """Which replicas a consumer may read from (KIP-392)."""

    rack_id: str = ""
    """The rack in which the leader looks for a follower to name; empty where the leader serves every consumer."""
    takes_follower: bool = False
    """Whether a follower may answer."""


OF_THE_LEADER: Final = Reader()


class Reading:
    """The result of one pass over the partitions of a fetch."""

    __slots__ = ("answers", "bytes_count", "has_error", "pending", "to_count")

    def __init__(self) -> None:
        self.answers: list[tuple[FetchItem, FetchPartitionAnswer]] = []
        self.bytes_count = 0
        self.has_error = False
        self.pending: list[tuple[int, PendingRead]] = []
        """(index in `answers`, plan) of reads that must come from the device."""
        self.to_count: list[tuple[FetchItem, FetchPartitionAnswer]] = []
        """The answers with records or an error: few in a fetch of many partitions."""

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
                error_code = broker.damaged_replicas.read(plan)
                if not len(answer.records):
                    answer.error_code = error_code
        self.pending = []


def read_items(
    broker: Broker,
    items: list[FetchItem],
    max_bytes: int,
    rotation: int,
    *,
    sliced_max_bytes: int = 0,
    reader: Reader = OF_THE_LEADER,
) -> Reading:
    """Read every item, starting at one that `rotation` picks; answers are in the order of `items`.

    After half of `max_bytes`, partitions are answered with slices of files for the kernel to send, up to
    `sliced_max_bytes` in all. Where that is not possible, records are read here, up to `max_bytes`.
    """
    reading = Reading()
    count = len(items)
    if not count:
        return reading
    first = ((rotation * _GOLDEN) & _MASK) * count >> 32
    order = items[first:] + items[:first] if first else items
    _read_some(broker, reading, order, max_bytes, sliced_max_bytes, reader)
    if first:
        _put_in_order(reading, count, first)
    return reading


def read_in_slices(
    broker: Broker, items: list[FetchItem], max_bytes: int, rotation: int, *, sliced_max_bytes: int, reader: Reader
) -> Generator[None, None, Reading]:
    """`read_items` with a pause after every `SLICE_ELEMENTS` items."""
    reading = Reading()
    count = len(items)
    first = ((rotation * _GOLDEN) & _MASK) * count >> 32
    order = items[first:] + items[:first]
    for start in range(0, count, SLICE_ELEMENTS):
        _read_some(broker, reading, order[start : start + SLICE_ELEMENTS], max_bytes, sliced_max_bytes, reader)
        yield
    if first:
        _put_in_order(reading, count, first)
    return reading


def _put_in_order(reading: Reading, count: int, first: int) -> None:
    cut = count - first
    reading.answers = reading.answers[cut:] + reading.answers[:cut]
    reading.pending = [((index - cut) % count, plan) for index, plan in reading.pending]


def _read_some(
    broker: Broker, reading: Reading, items: list[FetchItem], max_bytes: int, sliced_max_bytes: int, reader: Reader
) -> None:
    find = broker.partitions.get
    takes_care = broker.maintenance.is_stopping or reader.rack_id != ""
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
            _read_carefully(broker, reading, item, max_bytes, reader)
            continue
        log, high_watermark, offset = partition.log, partition.high_watermark, item.fetch_offset
        log_start_offset = log.log_start_offset
        if not log_start_offset <= offset <= high_watermark:
            _read_carefully(broker, reading, item, max_bytes, reader)
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
            _read_carefully(broker, reading, item, max_bytes, reader)


def _slice(broker: Broker, reading: Reading, partition: Partition, item: FetchItem, room: int) -> bool:
    """Let the kernel send records of this partition; False where that is not possible."""
    log, high_watermark = partition.log, partition.high_watermark
    room = min(item.max_bytes, room)
    if room < SLICE_BYTES_MIN or log is None:
        return False
    try:
        part = log.slice(item.fetch_offset, room, high_watermark)
    except LogDirectoryFailure as failure:
        broker.directory_failed(failure)
        return False
    if part is None:
        return False
    answer = FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log.log_start_offset, part)
    answer.next_offset = log.read_end
    reading.answers.append((item, answer))
    reading.to_count.append((item, answer))
    reading.bytes_count += len(part)
    return True


def _read_carefully(broker: Broker, reading: Reading, item: FetchItem, max_bytes: int, reader: Reader) -> None:
    try:
        partition = _readable(broker, item, reader)
        answer = _elsewhere(broker, partition, item, reader) or _diverging(partition, item)
        if answer is None:
            answer = _read(broker, reading, partition, item, max_bytes)
        else:
            reading.has_error = True
    except PeerError as error:
        reading.has_error = True
        answer = FetchPartitionAnswer(item.index, error.error_code, -1, -1, -1, b"")
        reading.to_count.append((item, answer))
    reading.answers.append((item, answer))


def _readable(broker: Broker, item: FetchItem, reader: Reader) -> Partition:
    """The partition, if this broker may serve it in the client's leader epoch. Raises PeerError."""
    if item.name is None:
        item.name = broker.topic_name(item.topic_key)  # type: ignore[arg-type]
        if item.name is None:
            raise PeerError(ErrorCode.unknown_topic_id)
    partition: Partition | None = broker.partitions.get((item.name, item.index))  # type: ignore[call-overload]
    if (
        partition is None
        or partition.log is None
        or not (partition.is_leader or (reader.takes_follower and partition.is_follower))
        or broker.maintenance.is_stopping
    ):
        partition = broker.leader_of(TopicPartition(item.name, item.index))
    if type(item.topic_key) is not str and partition.topic_id != item.topic_key:
        raise PeerError(ErrorCode.unknown_topic_id)
    epoch = item.current_leader_epoch
    if epoch >= 0 and epoch != partition.leader_epoch:
        code = ErrorCode.fenced_leader_epoch if epoch < partition.leader_epoch else ErrorCode.unknown_leader_epoch
        raise PeerError(code)
    return partition


def _elsewhere(broker: Broker, partition: Partition, item: FetchItem, reader: Reader) -> FetchPartitionAnswer | None:
    """An answer that names the follower to read from, without records; None when this broker serves the read."""
    if not reader.rack_id or not partition.is_leader:
        return None
    replica_id = preferred_replica(broker, partition, reader.rack_id, item.fetch_offset)
    if replica_id == LEADER_ONLY:
        return None
    high_watermark = partition.high_watermark
    answer = FetchPartitionAnswer(item.index, _NONE, high_watermark, high_watermark, partition.log_start_offset)
    answer.preferred_read_replica = replica_id
    return answer


def _diverging(partition: Partition, item: FetchItem) -> FetchPartitionAnswer | None:
    """Where the reader's log diverges from ours, if the request has its last fetched epoch (KIP-595); else None."""
    if item.last_fetched_epoch < 0:
        return None
    log = partition.log
    assert log is not None
    epoch, end_offset = log.end_offset_for_epoch(item.last_fetched_epoch)
    if epoch < 0:
        raise PeerError(ErrorCode.offset_out_of_range)
    if epoch >= item.last_fetched_epoch and end_offset >= item.fetch_offset:
        return None
    answer = FetchPartitionAnswer(
        item.index, _NONE, partition.high_watermark, partition.high_watermark, log.log_start_offset, b""
    )
    answer.diverging_epoch = DivergingEpoch(epoch, end_offset)
    return answer


def _read(
    broker: Broker, reading: Reading, partition: Partition, item: FetchItem, max_bytes: int
) -> FetchPartitionAnswer:
    log = partition.log
    assert log is not None
    high_watermark = partition.high_watermark
    offset = item.fetch_offset
    answer = FetchPartitionAnswer(item.index, _NONE, high_watermark, high_watermark, log.log_start_offset, b"")
    if offset >= high_watermark or offset < log.log_start_offset:
        if offset < log.log_start_offset or offset > log.log_end_offset:
            if may_be_elsewhere(broker, partition, offset, item.current_leader_epoch):
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
        broker.directory_failed(failure)
        raise PeerError(ErrorCode.kafka_storage_error) from failure
    reading.to_count.append((item, answer))
    if isinstance(found, PendingRead):
        reading.pending.append((len(reading.answers), found))
        reading.bytes_count += max(budget, 1)
    else:
        answer.records = found
        answer.next_offset = log.read_end
        reading.bytes_count += len(found)
    return answer
