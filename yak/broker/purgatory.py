"""The delayed operations of this broker (Kafka's DelayedOperationPurgatory).

An operation completes when the partition or component that it waits for says so, or when it times out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from yak.broker.call import Call, DelayedOperation, Later, Now, Outcome, Prebuilt
from yak.config.log_config import NEVER
from yak.core.context import Context
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.connections import Connection

QUEUES_MAX = 64
"""Distinct time-out values; beyond them values are rounded up, so that a client cannot create many."""


Action: TypeAlias = Callable[["Connection", DelayedOperation], None]
Serve: TypeAlias = Callable[["Connection", DelayedOperation, Action], None]
Answer: TypeAlias = Now | Prebuilt | None


class Purgatory:
    """Delayed operations until they complete or time out."""

    def __init__(self, context: Context, serve: Serve, answer_late: Callable[[Call, Answer], None]) -> None:
        self._context, self._serve, self._answer_late = context, serve, answer_late
        """`serve` runs an action for one request; `answer_late` encodes and sends a delayed answer."""
        self._timeouts = Timeouts()
        self._armed_ms = NEVER
        """When the timer is due: at the earliest time-out or before, since no completed operation disarms it."""
        self.advanced: dict[Partition, None] = {}
        """Partitions that advanced in this turn: their operations are checked at its end."""

    def __len__(self) -> int:
        return len(self._timeouts)

    @property
    def now_ms(self) -> int:
        """The time of this step."""
        return self._context.clock.now_ms

    def add(self, operation: DelayedOperation) -> None:
        """Complete an operation that is done, and delay any other."""
        if operation.is_done():
            self.complete(operation)
        else:
            self._delay(operation)

    def complete(self, operation: DelayedOperation) -> None:
        """Complete an operation, once; a second call does nothing."""
        if not operation.finished:
            self._remove(operation)
            self._serve(operation.call.connection, operation, self._answer)

    def complete_delayed(self, operation: DelayedOperation) -> None:
        """Complete an operation whose handler has returned it; else `add` completes it."""
        if operation.call.delayed is operation:
            self.complete(operation)

    def try_complete(self, operation: DelayedOperation) -> None:
        """Complete an operation if it can be answered now."""
        connection = operation.call.connection
        if connection.is_open and not operation.finished:
            self._serve(connection, operation, self._try)

    def cancel(self, operation: DelayedOperation) -> None:
        """Remove an operation whose connection was closed."""
        if not operation.finished:
            self._remove(operation)
            self._serve(operation.call.connection, operation, self._leave)

    def check_advanced(self) -> None:
        """Check the operations of all partitions that advanced, and of those that advance meanwhile."""
        while self.advanced:
            advanced = list(self.advanced)
            self.advanced.clear()
            for partition in advanced:
                partition.complete_waiters()

    def _expire_due(self) -> None:
        for operation in self._timeouts.take_expired(self.now_ms):
            if not operation.finished:
                self._remove(operation)
                self._serve(operation.call.connection, operation, self._expire)
        self._armed_ms = self._timeouts.next_due()
        if self._armed_ms < NEVER:
            self._context.timers.arm(self, self._armed_ms, self._expire_due)

    def _delay(self, operation: DelayedOperation) -> None:
        operation.finished = False  # it may wait again: a fetch for the device, a request for leaders for probes
        operation.call.delayed = operation
        due_ms = self._timeouts.add(operation, self.now_ms)
        if due_ms < self._armed_ms:
            self._armed_ms = due_ms
            self._context.timers.arm(self, due_ms, self._expire_due)

    def _remove(self, operation: DelayedOperation) -> None:
        operation.finished = True
        self._timeouts.remove(operation)
        operation.call.delayed = None

    def _answer(self, _connection: Connection, operation: DelayedOperation) -> None:
        self._give(operation, operation.answer)

    def _expire(self, _connection: Connection, operation: DelayedOperation) -> None:
        self._give(operation, operation.on_expiration)

    def _leave(self, _connection: Connection, operation: DelayedOperation) -> None:
        operation.leave()

    def _try(self, _connection: Connection, operation: DelayedOperation) -> None:
        if operation.is_done():
            self.complete(operation)

    def _give(self, operation: DelayedOperation, answer: Callable[[], Outcome]) -> None:
        operation.leave()
        call = operation.call
        if not call.connection.is_open:
            return
        outcome = answer()
        if isinstance(outcome, Later):
            self._delay(outcome.operation)
        else:
            self._answer_late(call, outcome)


class Timeouts:
    """Delayed operations by expiry time: one ordered queue for each time-out value.

    Operations with the same time-out expire in order of arrival, so no heap is needed. A heap with lazy deletion kept
    tens of megabytes of finished operations behind one live entry.
    """

    def __init__(self) -> None:
        self._queues: dict[int, OrderedDict[DelayedOperation, int]] = {}

    def add(self, operation: DelayedOperation, now_ms: int) -> int:
        """Start the time-out of an operation, which may be rounded up by an eighth; returns when it expires."""
        timeout_ms = max(0, operation.timeout_ms)
        queue = self._queues.get(timeout_ms)
        if queue is None:
            if len(self._queues) >= QUEUES_MAX:
                timeout_ms = _round_up(timeout_ms)
            queue = self._queues.setdefault(timeout_ms, OrderedDict())
        operation.timeout_ms = timeout_ms
        due_ms = queue[operation] = now_ms + timeout_ms
        return due_ms

    def remove(self, operation: DelayedOperation) -> None:
        """Cancel the time-out of an operation; does nothing when there is none."""
        queue = self._queues.get(operation.timeout_ms)
        if queue is not None and queue.pop(operation, None) is not None and not queue:
            del self._queues[operation.timeout_ms]

    def next_due(self) -> int:
        """The earliest expiry in ms; NEVER when nothing waits."""
        return min((queue[next(iter(queue))] for queue in self._queues.values()), default=NEVER)

    def take_expired(self, now_ms: int) -> list[DelayedOperation]:
        """Remove and return all expired operations, earliest first."""
        expired: list[tuple[int, DelayedOperation]] = []
        for timeout_ms in list(self._queues):
            queue = self._queues[timeout_ms]
            while queue:
                operation = next(iter(queue))
                due_ms = queue[operation]
                if due_ms > now_ms:
                    break
                del queue[operation]
                expired.append((due_ms, operation))
            if not queue:
                del self._queues[timeout_ms]
        expired.sort(key=lambda item: item[0])
        return [operation for _due_ms, operation in expired]

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())


def _round_up(timeout_ms: int) -> int:
    step = 1 << max(0, timeout_ms.bit_length() - 4)
    return -(-timeout_ms // step) * step
