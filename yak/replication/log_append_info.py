"""An appended batch and the conditions of its acknowledgement (Kafka's LogAppendInfo)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from yak.errors import ErrorCode
from yak.ids import Offset, ProducerId

if TYPE_CHECKING:
    from yak.replication.partition import Partition


WAITING_PRODUCES_MIN: Final = 64
"""So many requests may wait in a queue before those among them that timed out are removed."""


class AppendAnswer(Protocol):
    """The fields of a waiting request's answer that a failure sets."""

    error_code: int
    base_offset: Offset


class AppendWaiter(Protocol):
    """A request that waits until its batches are committed and flushed."""

    @property
    def finished(self) -> bool:
        """Whether it was answered, or timed out."""

    def resolve(self) -> None:
        """One of its batches may be acknowledged, or failed."""


@dataclass(slots=True, eq=False, repr=False)
class LogAppendInfo:
    """The offsets of an appended batch, and the conditions of its acknowledgement."""

    partition: Partition
    base_offset: Offset
    end_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    wants_isr: bool = False
    wants_flush: bool = False

    def may_acknowledge(self) -> bool:
        """Whether the batch is in the log, committed and flushed as its acknowledgement requires."""
        partition = self.partition
        if partition.log is None or self.end_offset < 0:
            return False
        if self.wants_isr and partition.high_watermark < self.end_offset:
            return False
        return not self.wants_flush or partition.log.recovery_point >= self.end_offset

    def wait_with(self, waiting: AppendWaiter, answer: AppendAnswer) -> None:
        """Put `waiting` into the partition's queue of the next condition: first the high watermark, then the flush."""
        partition, entry = self.partition, (self, waiting, answer)
        if self.wants_isr and partition.high_watermark < self.end_offset:
            if (queue := partition.waiting_produces) is None:
                queue = partition.waiting_produces = deque()
            while queue and queue[0][1].finished:
                # timed out before the commit; without this they would pile up while nothing is committed
                queue.popleft()
            _insert(queue, entry)
            if len(queue) > partition.waiting_produces_max:  # and behind one that still waits
                alive = [each for each in queue if not each[1].finished]
                queue.clear()
                queue.extend(alive)
                partition.waiting_produces_max = max(WAITING_PRODUCES_MIN, 2 * len(queue))
        else:
            if partition.waiting_flushes is None:
                partition.waiting_flushes = deque()
            _insert(partition.waiting_flushes, entry)


WaitingAppend: TypeAlias = tuple[LogAppendInfo, AppendWaiter, AppendAnswer]
"""An appended batch, the request that waits for it, and its answer."""


def _insert(queue: deque[WaitingAppend], entry: WaitingAppend) -> None:
    """Insert an entry by its end offset: a repeated batch completes before later ones that wait already."""
    index = len(queue)
    while index and queue[index - 1][0].end_offset > entry[0].end_offset:
        index -= 1
    queue.insert(index, entry)


class PendingBatches(Protocol):
    """Batches of a partition that wait for a job, and the batches behind them."""

    def fail(self, error_code: ErrorCode) -> None:
        """Fail all batches: the partition can no longer append them."""

    def resume(self) -> None:
        """Append the batches that waited until the log was in another directory."""

    def on_marker(self, producer_id: ProducerId) -> None:
        """A marker ended the transaction of the batches of this producer: they may not follow it."""
