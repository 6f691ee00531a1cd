"""ListOffsets (key 2, v1-11): offsets of partitions: earliest, latest, by timestamp, of the largest timestamp, local.

v2: isolation level. v4: leader epochs. v6: flexible. v7: max timestamp (-3). v8: earliest local (-4). v9: last tiered
(-5): there is no tiered storage, so -1. v10: time-out. v11: earliest pending upload (-6), likewise -1.

By timestamp: the first record at or after it, with that record's own timestamp; -1 and -1 if there is none
(Kafka's UnifiedLog.fetchOffsetByTimestamp). The search reads batches from the disk, so it runs in a job.

The replica id decides which records are visible. -1, a client: committed ones, with read_committed those below the last
stable offset. A broker id, a follower: the whole log.
-2, a debugging consumer: the whole log of any replica, leader or not. A new leader does not know at once how far its
predecessor committed; until it does, a client gets OFFSET_NOT_AVAILABLE instead of too low an end (KIP-207). So does a
client with read_committed while a leader whose recovery found damage resigns: the marker of a transaction may be damaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Later, Now, Outcome, Slices
from yak.broker.delayed_answers import DelayedAnswer
from yak.broker.fetches import READ_COMMITTED
from yak.core.events import MuteConnection, UnmuteConnection
from yak.core.jobs import CombinedPlan
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError, ProtocolViolation
from yak.ids import LeaderEpoch, Offset, TopicPartition
from yak.protocol.pace import Pace
from yak.replication.damaged_replicas import recovery_damage
from yak.replication.isr import may_leave
from yak.replication.partition import Partition
from yak.storage.epoch_cache import UNKNOWN_EPOCH
from yak.storage.log import Log
from yak.storage.reader import MaxTimestampSearch, TimestampSearch

if TYPE_CHECKING:
    from yak.broker.broker import Broker

Search: TypeAlias = TimestampSearch | MaxTimestampSearch
KEY, NAME, VERSIONS = 2, "ListOffsets", range(1, 12)
ABSENT = (
    "tiered storage: its offsets are -1",
    "the largest timestamp, if its record is below the log start offset: the largest of the records that are left",
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
_VERSION_OF = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
"""The first version in which each special timestamp is valid (Kafka's ReplicaManager)."""
_CLIENT, _DEBUGGING = -1, -2
_NOT_AVAILABLE_VERSION = 5
_TIMEOUT_MS = 30_000


def slices(broker: Broker, call: Call) -> Slices:
    """Answer the partitions in slices; one job at the end searches those that need the disk."""
    topics: list[Fields] = []
    searches: list[PlannedSearch] = []
    times = Counter(
        TopicPartition(topic.name, requested.partition_index)
        for topic in call.request.topics
        for requested in topic.partitions
    )
    pace = Pace()
    for topic in call.request.topics:
        partitions: list[Fields] = []
        topics.append({"name": topic.name, "partitions": partitions})
        for requested in topic.partitions:
            answer: Fields = {
                "partition_index": requested.partition_index,
                "error_code": ErrorCode.none,
                "timestamp": -1,
                "offset": -1,
                "leader_epoch": -1,
            }
            partitions.append(answer)
            if pace.is_over(1):
                yield
            topic_partition = TopicPartition(topic.name, requested.partition_index)
            try:
                broker.authorization.check(call, Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
                if times[topic_partition] > 1:
                    raise PeerError(ErrorCode.invalid_request, "a partition is named more than once")
                search = _plan_search(broker, call, topic_partition, requested, answer)
            except PeerError as error:
                answer["error_code"] = error.error_code
                continue
            if search is not None:
                partition = broker.partitions[topic_partition]
                searches.append(PlannedSearch(answer, partition, partition.log, partition.leader_epoch, search))
    fields: Fields = {"topics": topics}
    return _search(broker, call, fields, searches) if searches else Now(fields)


def _hosted(broker: Broker, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> Partition:
    """The partition, if this broker has a replica of it, as leader or follower.

    Raises PeerError: UNKNOWN_TOPIC_OR_PARTITION when it does not exist, NOT_LEADER_OR_FOLLOWER when this broker has no
    replica or is stopping, KAFKA_STORAGE_ERROR when its directory is offline, and as `Partition.check_leader_epoch`.
    """
    partition = broker.partitions.get(topic_partition)
    if partition is None or partition.log is None or not partition.is_follower or broker.context.is_stopping:
        return broker.leadership.leader_of(topic_partition, leader_epoch)
    if leader_epoch != UNKNOWN_EPOCH:
        partition.check_leader_epoch(leader_epoch)
    return partition


def _plan_search(
    broker: Broker, call: Call, topic_partition: TopicPartition, requested: Any, answer: Fields
) -> Search | None:
    """Fill in an answer that needs no disk read, or return the search for a job. Raises PeerError."""
    timestamp = requested.timestamp
    if timestamp < 0 and call.version < _VERSION_OF.get(timestamp, VERSIONS.stop):
        raise PeerError(ErrorCode.unsupported_version, f"timestamp {timestamp} has no meaning in this version")
    epoch = getattr(requested, "current_leader_epoch", -1)
    if call.request.replica_id == _DEBUGGING:
        partition = _hosted(broker, topic_partition, epoch)
    else:
        partition = broker.leadership.leader_of(topic_partition, epoch)
    log = partition.log
    assert log is not None
    if timestamp == LATEST:
        _check_end(call, partition)
        answer["offset"] = _end(call, partition)
        answer["leader_epoch"] = partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer["offset"] = log.log_start_offset
        answer["leader_epoch"] = log.epochs.epoch_for(log.log_start_offset)
    elif timestamp == MAX_TIMESTAMP:
        return log.max_timestamp_search()
    elif timestamp >= 0:
        return log.timestamp_search(timestamp)
    return None


def _end(call: Call, partition: Partition) -> Offset:
    """The end offset that the requester may see."""
    if call.request.replica_id != _CLIENT:
        return partition.log_end_offset
    return partition.last_stable_offset if _is_read_committed(call) else partition.high_watermark


def _is_read_committed(call: Call) -> bool:
    return bool(getattr(call.request, "isolation_level", 0) == READ_COMMITTED)


def _check_end(call: Call, partition: Partition) -> None:
    """Raise PeerError for a client while this leader does not know how far its predecessor committed.

    A leader that may have lost a marker does not know its last stable offset, and another replica is about to lead.
    """
    lags = partition.is_leader and partition.epoch_start_offset > partition.high_watermark
    is_damaged = recovery_damage(partition.log) is not None
    is_unstable = is_damaged and _is_read_committed(call) and may_leave(partition)
    if (lags or is_unstable) and call.request.replica_id == _CLIENT:
        is_known = call.version >= _NOT_AVAILABLE_VERSION
        raise PeerError(ErrorCode.offset_not_available if is_known else ErrorCode.leader_not_available)


class PlannedSearch(NamedTuple):
    """A search of one partition, in this log and leader epoch, and the answer that it fills in."""

    answer: Fields
    partition: Partition
    log: Log | None
    leader_epoch: LeaderEpoch
    search: Search

    @property
    def is_current(self) -> bool:
        """Whether the partition has the same log and leader epoch still: a search skips files that are gone."""
        return self.partition.log is self.log and self.partition.leader_epoch == self.leader_epoch


def _search(broker: Broker, call: Call, fields: Fields, searches: list[PlannedSearch]) -> Outcome:
    """Search the batches of the partitions in one job, and answer then; with REQUEST_TIMED_OUT, if that takes long."""

    def late() -> Outcome:
        for planned in searches:
            planned.answer["error_code"] = ErrorCode.request_timed_out
        return Now(fields)

    def answer(found: Sequence[Any], error: BaseException | None) -> Outcome:
        if error is not None:
            raise error
        for planned, each in zip(searches, found, strict=True):
            _fill(call, planned, each)
        return Now(fields)

    def done(found: Sequence[Any] | None, error: BaseException | None) -> None:
        for each in found or ():
            if isinstance(each, LogDirectoryFailure):
                broker.log_failures.directory_failed(each)
        waiting.complete_with(partial(answer, found or (), error))

    connection_id = call.connection.connection_id
    broker.emit(MuteConnection(connection_id))  # as for a fetch from the device (`yak.broker.fetches`)

    def leave() -> None:
        broker.emit(UnmuteConnection(connection_id))
        broker.jobs.drop(job_id)

    waiting = DelayedAnswer(broker.purgatory, call, _TIMEOUT_MS, late, leave)
    job_id = broker.jobs.run("read", CombinedPlan(tuple(each.search for each in searches)), done)
    return Later(waiting)


def _fill(call: Call, planned: PlannedSearch, found: Any) -> None:
    answer, partition = planned.answer, planned.partition
    if isinstance(found, LogDirectoryFailure):
        answer["error_code"] = ErrorCode.kafka_storage_error
    elif not planned.is_current:
        answer["error_code"] = ErrorCode.not_leader_or_follower
    elif isinstance(found, ProtocolViolation):
        answer["error_code"] = ErrorCode.corrupt_message
    elif found is not None and found.offset < _end(call, partition):
        answer["timestamp"], answer["offset"], answer["leader_epoch"] = (
            found.timestamp,
            found.offset,
            found.leader_epoch,
        )
    else:
        try:
            _check_end(call, partition)
        except PeerError as error:
            answer["error_code"] = error.error_code
