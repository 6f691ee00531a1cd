"""The partitions that coordinators write: appending the broker's own records, and waiting for their commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yak.core.context import Clock, Context
from yak.errors import ErrorCode
from yak.ids import Offset
from yak.partitions.leader_appends import LeaderAppends, Leadership
from yak.protocol.record_batch import TRANSACTIONAL_BIT
from yak.protocol.record_writer import build_batch
from yak.replication.damaged_replicas import DamagedReplicas
from yak.replication.log_append_info import LogAppendInfo
from yak.replication.log_failures import LogFailures
from yak.replication.partition import Partition
from yak.transactions.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from yak.coordination.runtime import KeyedRecord, Producer, Then

_NONE = ErrorCode.none


class Commit:
    """A callback that waits for an offset's commit, in the partition's queue of delayed produce requests.

    After `until_ms` it is not called: its request was answered without it.
    """

    __slots__ = ("_clock", "_is_called", "_until_ms", "base_offset", "error_code", "then")

    def __init__(self, clock: Clock, then: Then, until_ms: int | None) -> None:
        self._clock, self._until_ms = clock, until_ms
        self.then = then
        self._is_called = False
        self.error_code: int = _NONE
        self.base_offset = -1

    @property
    def finished(self) -> bool:
        """Whether `then` was called, or is not to be called any more."""
        return self._is_called or (self._until_ms is not None and self._clock.now_ms > self._until_ms)

    def resolve(self) -> None:
        """Call `then`: the offset is committed, or this leader cannot commit it."""
        if not self.finished:
            self._is_called = True
            self.then(ErrorCode(self.error_code))


class CoordinatorPartitions:
    """The broker's partitions as the coordinator runtime uses them (Kafka's PartitionWriter)."""

    def __init__(
        self,
        context: Context,
        leadership: Leadership,
        leader_appends: LeaderAppends,
        log_failures: LogFailures,
        damaged_replicas: DamagedReplicas,
    ) -> None:
        self._context, self.may_coordinate, self._leader_appends = context, leadership.leads, leader_appends
        self.log_failures, self.damaged_replicas = log_failures, damaged_replicas
        """The loader reports to them what it cannot read."""

    def append(
        self, partition: Partition, records: Sequence[KeyedRecord], producer: Producer | None = None, codec: int = 0
    ) -> LogAppendInfo:
        """Append the records in one batch, as for a producer with acks=all. Raises PeerError if nothing was written.

        With a `producer` the batch is part of its transaction. It has no sequence, as in Kafka. `codec` is Kafka's number.
        """
        producer_id, epoch = producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        batch = build_batch(
            records,
            self._context.clock.wall_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            attributes=0 if producer is None else TRANSACTIONAL_BIT,
            codec=codec,
        )
        return self._leader_appends.append_own_batch(partition, batch)

    def when_acknowledged(self, appended: LogAppendInfo, then: Then, until_ms: int | None = None) -> None:
        """Call `then` when the batch may be acknowledged, perhaps at once; not after `until_ms`."""
        if appended.may_acknowledge():
            then(_NONE)
        else:
            commit = Commit(self._context.clock, then, until_ms)
            appended.wait_with(commit, commit)

    def when_committed(self, partition: Partition, end_offset: Offset, then: Then, until_ms: int | None = None) -> None:
        """Call `then` when everything below an offset is committed, perhaps at once; not after `until_ms`."""
        if partition.high_watermark >= end_offset:
            then(_NONE)
            return
        self.when_acknowledged(LogAppendInfo(partition, -1, end_offset, -1, -1, wants_isr=True), then, until_ms)
