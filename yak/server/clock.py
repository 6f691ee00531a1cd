"""The clock of the core: milliseconds since the epoch that never go back.

It is the wall clock at the start plus the count of a steady clock, so setting the wall clock moves no timer. Where the
platform has one (CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC on macOS), the steady clock counts while the machine sleeps,
so timestamps are right afterwards.

The wall clock may be set, or a virtual machine be suspended, which no steady clock of the machine counts. `wall_moved`
then reports the difference; timestamps follow it, timers do not.
"""

import time
from collections.abc import Callable

_STEADY_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
WALL_STEP_MS = 100
"""Smaller changes of the wall clock are ignored: each followed one is logged."""
_READING_NS_MAX = 10_000_000
"""Two clock readings are comparable within this time: the process may be stopped between them."""


class Clock:
    """`now_ms()` for the core, `wall_ms()` for timestamps, `steady_ns()` for durations (the cheapest steady clock)."""

    __slots__ = ("_ahead_ns_least", "_ahead_ns_most", "_offset_ns", "_wall_ahead_ms", "_wall_ns")

    steady_ns = staticmethod(time.perf_counter_ns)

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._wall_ns = wall_ns
        self._note_ahead(0)
        self._offset_ns = wall_ns() - time.clock_gettime_ns(_STEADY_CLOCK)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return (time.clock_gettime_ns(_STEADY_CLOCK) + self._offset_ns) // 1_000_000

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.clock_gettime_ns(_STEADY_CLOCK) + self._offset_ns

    def wall_moved(self, now_ns: int) -> int | None:
        """How far the wall clock is ahead of `now_ns`, in ms, if it moved since the last call; else None."""
        if self._ahead_ns_least < self._wall_ns() - now_ns < self._ahead_ns_most:
            return None
        now_ns = self.now_ns()
        ahead_ns = self._wall_ns() - now_ns
        if self.now_ns() - now_ns > _READING_NS_MAX or self._ahead_ns_least < ahead_ns < self._ahead_ns_most:
            return None
        self._note_ahead(ahead_ns // 1_000_000)
        return self._wall_ahead_ms

    def _note_ahead(self, ahead_ms: int) -> None:
        self._wall_ahead_ms = ahead_ms
        self._ahead_ns_least = (ahead_ms - WALL_STEP_MS) * 1_000_000
        self._ahead_ns_most = (ahead_ms + WALL_STEP_MS) * 1_000_000

    def wall_ms(self) -> int:
        """The wall clock as last reported to the core, in milliseconds since the epoch; may go back."""
        return self.now_ms() + self._wall_ahead_ms
