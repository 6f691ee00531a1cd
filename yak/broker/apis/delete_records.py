"""DeleteRecords (key 21, v0-2): move the log start offset up to an offset; -1 is the high watermark.

v2: flexible. Readers no longer get the records at once, and segments wholly below the offset are deleted. The answer
waits until every live replica has moved its log start offset too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, DelayedOperation, Fields, Now, Outcome, Slices, milliseconds
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.ids import Offset, TopicPartition
from yak.protocol.pace import Pace
from yak.protocol.topic_names import is_internal
from yak.replication.partition import Partition
from yak.replication.partition_events import PartitionEvent

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 21, "DeleteRecords", range(3)

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1
Held: TypeAlias = tuple[Partition, Offset, Fields]
"""A partition, the offset below which its records are deleted, and its answer."""


def slices(broker: Broker, call: Call) -> Slices:
    """Move the log start offsets in slices, then wait for all followers."""
    topics: list[Fields] = []
    fields: Fields = {"topics": topics}
    waiting = DelayedDeleteRecords(broker, call, max(0, milliseconds(call.request.timeout)), fields)
    held: list[Held] = []
    pace = Pace()
    for topic in call.request.topics:
        answers: list[Fields] = []
        topics.append({"name": topic.name, "partitions": answers})
        for requested in topic.partitions:
            answers.append(_delete_below(broker, call, topic.name, requested, held))
            if pace.is_over(1):
                yield
    waiting.hold(held)
    return waiting.outcome()


def _delete_below(broker: Broker, call: Call, topic: str, requested: Any, held: list[Held]) -> Fields:
    answer: Fields = {
        "partition_index": requested.partition_index,
        "low_watermark": NO_LOW_WATERMARK,
        "error_code": ErrorCode.none,
    }
    try:
        broker.authorization.check(call, Operation.DELETE, ResourceType.TOPIC, topic)
        place = TopicPartition(topic, requested.partition_index)
        if is_internal(topic) and broker.image.partition(place) is not None:
            raise PeerError(ErrorCode.invalid_topic_exception, "records of internal topics cannot be deleted")
        partition = broker.leadership.leader_of(place)
        log = partition.log
        assert log is not None
        if log.config.is_compacted and "delete" not in log.config.cleanup_policy:
            # Kafka's Partition.deleteRecordsOnLeader, with KIP-1161
            raise PeerError(ErrorCode.policy_violation, "cleanup.policy=compact keeps the last record of each key")
        offset = partition.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
        if offset < 0 or offset > partition.high_watermark:
            raise PeerError(ErrorCode.offset_out_of_range)
        if offset > log.log_start_offset:
            _move_log_start(broker, partition, offset)
        answer["low_watermark"] = broker.record_deletions.low_watermark(partition)
        if answer["low_watermark"] < offset:
            held.append((partition, offset, answer))
    except PeerError as error:
        answer["error_code"] = error.error_code
    return answer


@changes_state
def _move_log_start(broker: Broker, partition: Partition, offset: Offset) -> None:
    log = partition.log
    assert log is not None
    log.advance_log_start(offset)
    broker.partition_changed(partition, PartitionEvent.LOG_START_MOVED)
    if len(log.segments) > 1 and log.segments[1].base_offset <= offset:  # else only what is past retention would go
        broker.maintenance.retain(partition)
    broker.maintenance.checkpoint_soon()


class DelayedDeleteRecords(DelayedOperation):
    """A DeleteRecords request with partitions whose replicas still hold the records."""

    __slots__ = ("_broker", "_fields", "_held")

    def __init__(self, broker: Broker, call: Call, timeout_ms: int, fields: Fields) -> None:
        super().__init__(call, timeout_ms)
        self._broker, self._fields = broker, fields
        self._held: list[Held] = []

    def hold(self, held: list[Held]) -> None:
        """Wait until the low watermark of each partition reaches its offset."""
        self._held = held
        if not self.is_done():
            for partition, _offset, _answer in self._held:
                self._broker.record_deletions.add(partition, self)

    def is_done(self) -> bool:
        """Whether every partition is done. It is called for each replica that moved, and stops at the first that is not."""
        while self._held and _settle(self._broker, *self._held[-1]):
            self._held.pop()
        return not self._held

    def answer(self) -> Outcome:
        """Answer with the results of all partitions."""
        return Now(self._fields)

    def on_expiration(self) -> Outcome:
        """Answer REQUEST_TIMED_OUT for late replicas; readers of the leader no longer see the records."""
        for held in self._held:
            if not _settle(self._broker, *held):
                held[2]["error_code"] = ErrorCode.request_timed_out
        return Now(self._fields)

    def leave(self) -> None:
        """Remove this request from its partitions."""
        self._broker.record_deletions.remove(self)


def _settle(broker: Broker, partition: Partition, offset: Offset, answer: Fields) -> bool:
    """Record the result of a deletion; False while it is not complete."""
    try:
        if broker.leadership.leader_of(partition.topic_partition) is not partition:
            raise PeerError(ErrorCode.unknown_topic_or_partition)
    except PeerError as error:
        answer["error_code"], answer["low_watermark"] = error.error_code, NO_LOW_WATERMARK
        return True
    answer["low_watermark"] = broker.record_deletions.low_watermark(partition)
    return bool(answer["low_watermark"] >= offset)
