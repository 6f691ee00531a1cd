"""The one clock of the core: milliseconds since the epoch that never go back.

It is the wall clock read once at start, plus what a steady clock has counted since, so a wall clock that is set moves no
timer. The steady clock goes on while the machine sleeps where the platform has such a one
(CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC on macOS), so a laptop's timestamps are right after a nap.
It does not follow a wall clock that is set while the broker runs, nor one that goes on while a virtual machine is suspended,
which no steady clock of the machine counts: `wall_moved` tells how far away that is, and timestamps follow it.
"""

import time
from collections.abc import Callable

_STEADY_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
WALL_STEP_MS = 100
"""A wall clock that moved by less is not followed: a step of it is a line in the log."""
_READING_NS_MAX = 10_000_000
"""Two clocks are compared when both were read within this time: the process may be stopped between them."""


class Clock:
    """`now_ms()` for the core, `wall_ms()` for timestamps, `steady_ns()` for measuring: the cheapest clock that never goes
    back, from any beginning."""

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
        """The same in nanoseconds."""
        return time.clock_gettime_ns(_STEADY_CLOCK) + self._offset_ns

    def wall_moved(self, now_ns: int) -> int | None:
        """How far the wall clock is ahead of `now_ns` by now, in ms, when it was set since this was last asked; else None."""
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
        """The wall clock as the core knows it, in milliseconds since the epoch; it may go back."""
        return self.now_ms() + self._wall_ahead_ms
