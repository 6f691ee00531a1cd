"""DeleteRecords requests that wait until every live replica deleted the records (Kafka's DelayedDeleteRecords).

The low watermark of a partition is the smallest log start offset of its live replicas. The leader advances its own at
once. Followers advance theirs with their next fetch, and report it in the one after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from yak.broker.call import Call, DelayedOperation, Fields, Now, Outcome
from yak.errors import ErrorCode, PeerError
from yak.ids import Offset
from yak.lifecycle.liveness import is_serving
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

NO_LOW_WATERMARK = -1


def low_watermark(broker: Broker, partition: Partition) -> Offset:
    """The smallest log start offset of the live replicas of a partition that this broker leads.

    A follower that has not fetched yet counts as -1.
    """
    brokers = broker.image.brokers
    lowest = partition.log_start_offset
    for node_id, replica in partition.replica_states.items():
        if is_serving(brokers.get(node_id)):
            lowest = min(lowest, replica.log_start_offset)
    return lowest


Held: TypeAlias = tuple[Partition, Offset, Fields]
"""A partition, the offset below which its records are deleted, and its answer."""


class RecordDeletions:
    """The delayed DeleteRecords of each partition."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: dict[Partition, dict[DelayedDeleteRecords, None]] = {}

    def on_log_start(self, partition: Partition) -> None:
        """A replica's log start moved, or the partition has another leader or none."""
        for waiting in list(self._waiting.get(partition, ())):
            self._broker.purgatory.try_complete(waiting)

    def on_brokers(self) -> None:
        """The live brokers changed: deletions no longer wait for a fenced replica."""
        for partition in list(self._waiting):
            self.on_log_start(partition)

    def add(self, partition: Partition, waiting: DelayedDeleteRecords) -> None:
        """Register `waiting` with the partition."""
        self._waiting.setdefault(partition, {})[waiting] = None

    def remove(self, waiting: DelayedDeleteRecords) -> None:
        """Remove `waiting` from all partitions."""
        for partition, held in list(self._waiting.items()):
            held.pop(waiting, None)
            if not held:
                del self._waiting[partition]


class DelayedDeleteRecords(DelayedOperation):
    """A DeleteRecords request with partitions whose replicas still hold the records."""

    __slots__ = ("_fields", "_held")

    def __init__(self, call: Call, timeout_ms: int, fields: Fields) -> None:
        super().__init__(call, timeout_ms)
        self._fields = fields
        self._held: list[Held] = []

    def hold(self, broker: Broker, held: list[Held]) -> None:
        """Wait until the low watermark of each partition reaches its offset."""
        self._held = [each for each in held if not _settle(broker, *each)]
        for partition, _offset, _answer in self._held:
            broker.record_deletions.add(partition, self)

    def try_complete(self, broker: Broker) -> None:
        """Settle the partitions that are done, and answer after the last one."""
        self._held = [held for held in self._held if not _settle(broker, *held)]
        if not self._held:
            broker.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether no partition is outstanding."""
        return not self._held

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Answer with the results of all partitions."""
        return Now(self._fields)

    def on_expiration(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Answer REQUEST_TIMED_OUT for late replicas; readers of the leader no longer see the records."""
        for _partition, _offset, answer in self._held:
            answer["error_code"] = ErrorCode.request_timed_out
        return Now(self._fields)

    def leave(self, broker: Broker) -> None:
        """Remove this request from its partitions."""
        broker.record_deletions.remove(self)


def _settle(broker: Broker, partition: Partition, offset: Offset, answer: Fields) -> bool:
    """Record the result of a deletion; False while it is not complete."""
    try:
        if broker.leader_of(partition.topic_partition) is not partition:
            raise PeerError(ErrorCode.unknown_topic_or_partition)
    except PeerError as error:
        answer["error_code"], answer["low_watermark"] = error.error_code, NO_LOW_WATERMARK
        return True
    answer["low_watermark"] = low_watermark(broker, partition)
    return bool(answer["low_watermark"] >= offset)
