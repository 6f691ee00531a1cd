"""Time-outs of waiting requests: one ordered queue per time-out value, so that a finished wait leaves at once.

Requests with the same time-out expire in the order they came, so no heap is needed; a heap with lazy deletion kept
tens of megabytes of finished waits behind one live entry.
"""

from __future__ import annotations

from collections import OrderedDict

from yak.broker.call import Waiting

QUEUES_MAX = 64
"""Distinct time-out values kept apart; beyond them values are rounded up, so that a client cannot make many."""


class Timeouts:
    """Waiting requests by the time they expire."""

    def __init__(self) -> None:
        self._queues: dict[int, OrderedDict[Waiting, int]] = {}

    def add(self, waiting: Waiting, now_ms: int) -> None:
        """Start the clock of a request; its `timeout_ms` may be rounded up by at most an eighth."""
        timeout_ms = max(0, waiting.timeout_ms)
        queue = self._queues.get(timeout_ms)
        if queue is None:
            if len(self._queues) >= QUEUES_MAX:
                timeout_ms = _round_up(timeout_ms)
            queue = self._queues.setdefault(timeout_ms, OrderedDict())
        waiting.timeout_ms = timeout_ms
        queue[waiting] = now_ms + timeout_ms

    def remove(self, waiting: Waiting) -> None:
        """Stop the clock of a request; nothing happens when it does not run."""
        queue = self._queues.get(waiting.timeout_ms)
        if queue is not None and queue.pop(waiting, None) is not None and not queue:
            del self._queues[waiting.timeout_ms]

    def next_due(self) -> int | None:
        """The earliest expiry in ms, None when nothing waits."""
        return min((queue[next(iter(queue))] for queue in self._queues.values()), default=None)

    def take_expired(self, now_ms: int) -> list[Waiting]:
        """Remove and give all requests whose time is over, earliest first."""
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
