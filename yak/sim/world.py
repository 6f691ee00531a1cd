"""The queue and the clock: what happens next, and when.

Things due at one time happen in the order they were put in; nothing ever depends on an object's address or on hash
order.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from typing import TypeAlias

Action: TypeAlias = Callable[[], None]

START_MS = 1_750_000_000_000
"""Where the simulated clock starts: any date will do, but it must be one."""


class Stuck(AssertionError):
    """The run did not come to its end in the events or the time that it was given."""


class World:
    """Time in microseconds, and everything that is still to happen."""

    def __init__(self) -> None:
        self.now_us = START_MS * 1000
        self.events_count = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._sequence = 0
        self._trace = hashlib.sha256()
        self.log: list[str] | None = None
        """Lines of the run when someone wants to read them."""
        self.traced: bytearray | None = None
        """All that the trace is a hash of, when someone wants to compare it."""

    @property
    def now_ms(self) -> int:
        """The broker's clock."""
        return self.now_us // 1000

    def after(self, delay_us: int, action: Action) -> None:
        """Let `action` happen `delay_us` from now."""
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_us + max(0, delay_us), self._sequence, action))

    def trace(self, kind: str, data: bytes = b"") -> None:
        """Add something that crossed a border to the hash of the run."""
        head = f"{self.now_us} {kind} {len(data)}\n".encode()
        self._trace.update(head)
        self._trace.update(data)
        if self.traced is not None:
            self.traced += head
            self.traced += data

    def say(self, text: str) -> None:
        """A line for a reader."""
        if self.log is not None:
            self.log.append(f"{(self.now_us - START_MS * 1000) / 1e6:10.6f} {text}")

    def trace_hash(self) -> str:
        """The hash of all that was traced so far."""
        return self._trace.hexdigest()

    def run(self, until: Callable[[], bool], *, check: Action, events_max: int) -> None:
        """Let things happen until `until` holds, with `check` after each; Stuck when they end or grow too many."""
        for _ in range(events_max):
            if until():
                return
            if not self._queue:
                raise Stuck("nothing is left to happen")
            self.now_us, _order, action = heapq.heappop(self._queue)
            self.events_count += 1
            action()
            check()
        raise Stuck(f"not done after {events_max} events, at {self.now_us / 1e6:.3f} s")
