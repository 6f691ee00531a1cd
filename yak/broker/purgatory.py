"""The delayed operations of this broker (Kafka's DelayedOperationPurgatory).

An operation completes when the partition or component that it waits for says so, or when it times out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from yak.broker.call import Call, DelayedOperation, Encoded, Later, Now, Outcome
from yak.core.context import Context
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.connections import Connection

Action: TypeAlias = Callable[["Connection", DelayedOperation], None]
Serve: TypeAlias = Callable[["Connection", DelayedOperation, Action], None]
Answer: TypeAlias = Now | Encoded | None
COMPLETED_A_MS = 100
"""Operations that `complete_soon` completes in one millisecond."""


class Purgatory:
    """Delayed operations until they complete or time out."""

    def __init__(self, context: Context, serve: Serve, answer_late: Callable[[Call, Answer], None]) -> None:
        self._context, self._serve, self._answer_late = context, serve, answer_late
        """`serve` runs an action for one request; `answer_late` encodes and sends a delayed answer."""
        self._delayed: dict[DelayedOperation, int] = {}
        """Each operation and its number, which is the key of its timer: a stale timer keeps no operation in memory."""
        self._last_number = 0
        self._soon: deque[DelayedOperation] = deque()
        self._soon_ms, self._completed = -1, 0
        """How many of them were completed in this millisecond."""
        self.advanced: dict[Partition, None] = {}
        """Partitions that advanced in this turn: their operations are checked at its end."""

    def __len__(self) -> int:
        return len(self._delayed)

    @property
    def now_ms(self) -> int:
        """The time of this step."""
        return self._context.clock.now_ms

    def add(self, operation: DelayedOperation) -> None:
        """Complete an operation that is done, and delay any other."""
        operation.call.delayed = operation
        if operation.is_done():
            self.complete(operation)
        else:
            self._delay(operation)

    def complete(self, operation: DelayedOperation) -> None:
        """Complete an operation, once. `add` completes one whose handler has not returned it yet."""
        if operation.call.delayed is operation:
            self.forget(operation)
            self._serve(operation.call.connection, operation, self._answer)

    def complete_soon(self, operation: DelayedOperation) -> None:
        """Complete an operation that is done: one of those that one event completes, some of which wait for the next steps.

        A rebalance answers all members of its group, and each answer takes 30 us.
        """
        self._soon.append(operation)
        self._complete_some()

    def _complete_some(self) -> None:
        if self._soon_ms != self.now_ms:
            self._soon_ms, self._completed = self.now_ms, 0
        while self._soon and self._completed < COMPLETED_A_MS:
            self._completed += 1
            self.complete(self._soon.popleft())
        if self._soon:
            self._context.within(self, 1, self._complete_some)

    def try_complete(self, operation: DelayedOperation) -> None:
        """Complete an operation if it can be answered now."""
        connection = operation.call.connection
        if connection.is_open and not operation.finished:
            self._serve(connection, operation, self._try)

    def cancel(self, operation: DelayedOperation) -> None:
        """Remove an operation whose connection was closed."""
        if not operation.finished:
            self.forget(operation)
            self._serve(operation.call.connection, operation, self._leave)

    def forget(self, operation: DelayedOperation) -> None:
        """End the delay of an operation; the caller answers it, or its client is gone."""
        operation.finished = True
        operation.call.delayed = None
        number = self._delayed.pop(operation, None)
        if number is not None:
            self._context.timers.disarm(number)

    def check_advanced(self) -> None:
        """Check the operations of all partitions that advanced, and of those that advance meanwhile."""
        while self.advanced:
            advanced = list(self.advanced)
            self.advanced.clear()
            for partition in advanced:
                partition.complete_waiters()

    def _expire(self, operation: DelayedOperation) -> None:
        self.forget(operation)
        self._serve(operation.call.connection, operation, self._answer_expired)

    def _delay(self, operation: DelayedOperation) -> None:
        operation.finished = False  # it may wait again: a fetch for the device, a request for leaders for probes
        operation.call.delayed = operation
        self._last_number = number = self._last_number + 1
        self._delayed[operation] = number
        due_ms = self.now_ms + max(0, operation.timeout_ms)
        self._context.timers.arm(number, due_ms, partial(self._expire, operation))

    def _answer(self, _connection: Connection, operation: DelayedOperation) -> None:
        self._give(operation, operation.answer)

    def _answer_expired(self, _connection: Connection, operation: DelayedOperation) -> None:
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
        if call.fault is not None and not isinstance(outcome, Later):
            outcome = call.fault.answered(outcome)
        if isinstance(outcome, Later):
            self._delay(outcome.operation)
        else:
            self._answer_late(call, outcome)
