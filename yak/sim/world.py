"""The event queue and the clock.

Events that are due at the same time run in the order in which they were scheduled. No order depends on an object's
address or on hash order.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from typing import TypeAlias

Action: TypeAlias = Callable[[], None]

START_MS = 1_750_000_000_000
"""The simulated clock's start. The value is arbitrary but fixed, so that runs are reproducible."""


def seconds_at(now_us: int) -> float:
    """Simulated seconds from the start to this time."""
    return (now_us - START_MS * 1000) / 1e6


class Stuck(AssertionError):
    """The run did not end within its limit of events."""


class World:
    """The time in microseconds, and the queue of future events."""

    def __init__(self) -> None:
        self.now_us = START_MS * 1000
        self.events_count = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._sequence = 0
        self._trace = hashlib.sha256()
        self.log: list[str] | None = None
        """Log lines of the run, if a reader wants them."""
        self.traced: bytearray | None = None
        """The bytes that the trace hashes, if two runs are compared."""

    @property
    def now_ms(self) -> int:
        """The broker's clock."""
        return self.now_us // 1000

    @property
    def elapsed_s(self) -> float:
        """Simulated seconds since the start."""
        return seconds_at(self.now_us)

    def after(self, delay_us: int, action: Action) -> None:
        """Schedule `action` for `delay_us` from now."""
        self._sequence += 1
        due_us = self.now_us + delay_us if delay_us > 0 else self.now_us
        heapq.heappush(self._queue, (due_us, self._sequence, action))

    def trace(self, kind: str, data: bytes = b"") -> None:
        """Add data that crossed the broker's border to the hash of the run."""
        piece = f"{self.now_us} {kind} {len(data)}\n".encode() + data
        self._trace.update(piece)
        if self.traced is not None:
            self.traced += piece

    def say(self, text: str) -> None:
        if self.log is not None:
            self.log.append(f"{self.elapsed_s:10.6f} {text}")

    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    def run(self, until: Callable[[], object], *, events_max: int) -> None:
        """Run events until `until` holds. Raises Stuck without further events or after `events_max`."""
        queue, take = self._queue, heapq.heappop
        for _ in range(events_max):
            if until():
                return
            if not queue:
                raise Stuck("nothing is left to happen")
            self.now_us, _order, action = take(queue)
            self.events_count += 1
            action()
        raise Stuck(f"not done after {events_max} events, at {self.now_us / 1e6:.3f} s")

    def run_for(self, duration_us: int, *, events_max: int) -> None:
        reached: list[None] = []
        self.after(duration_us, lambda: reached.append(None))
        self.run(reached.__len__, events_max=events_max)
