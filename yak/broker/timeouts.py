"""Time-outs of delayed operations: one ordered queue for each time-out value, so that a finished one leaves at once.

Operations with the same time-out expire in order of arrival, so no heap is needed. A heap with lazy deletion kept tens
of megabytes of finished operations behind one live entry.
"""

from __future__ import annotations

from collections import OrderedDict

from yak.broker.call import Waiting

QUEUES_MAX = 64
"""Distinct time-out values; beyond them values are rounded up, so that a client cannot create many."""


class Timeouts:
    """Delayed operations by expiry time."""

    def __init__(self) -> None:
        self._queues: dict[int, OrderedDict[Waiting, int]] = {}

    def add(self, waiting: Waiting, now_ms: int) -> None:
        """Start the time-out of a request; `timeout_ms` may be rounded up by at most an eighth."""
        timeout_ms = max(0, waiting.timeout_ms)
        queue = self._queues.get(timeout_ms)
        if queue is None:
            if len(self._queues) >= QUEUES_MAX:
                timeout_ms = _round_up(timeout_ms)
            queue = self._queues.setdefault(timeout_ms, OrderedDict())
        waiting.timeout_ms = timeout_ms
        queue[waiting] = now_ms + timeout_ms

    def remove(self, waiting: Waiting) -> None:
        """Cancel the time-out of a request; does nothing when there is none."""
        queue = self._queues.get(waiting.timeout_ms)
        if queue is not None and queue.pop(waiting, None) is not None and not queue:
            del self._queues[waiting.timeout_ms]

    def next_due(self) -> int | None:
        """The earliest expiry in ms; None when nothing waits."""
        return min((queue[next(iter(queue))] for queue in self._queues.values()), default=None)

    def take_expired(self, now_ms: int) -> list[Waiting]:
        """Remove and return all expired requests, earliest first."""
        expired: list[tuple[int, Waiting]] = []
        for timeout_ms in list(self._queues):
            queue = self._queues[timeout_ms]
            while queue:
                waiting = next(iter(queue))
                due_ms = queue[waiting]
                if due_ms > now_ms:
                    break
                del queue[waiting]
                expired.append((due_ms, waiting))
            if not queue:
                del self._queues[timeout_ms]
        expired.sort(key=lambda item: item[0])
        return [waiting for _due_ms, waiting in expired]

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())


def _round_up(timeout_ms: int) -> int:
    step = 1 << max(0, timeout_ms.bit_length() - 4)
    return -(-timeout_ms // step) * step
