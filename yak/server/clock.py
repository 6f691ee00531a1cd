"""The one clock of the core: milliseconds since the epoch that never go back.

It is the wall clock read once at start, plus what a steady clock has counted since. So timers and timestamps agree,
and a wall clock that is set back moves neither. The steady clock goes on while the machine sleeps where the platform
has such a one (CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC on macOS), so a laptop's timestamps are right after a nap.
What it does not follow is a wall clock that is set while the broker runs.
"""

import time
from collections.abc import Callable

_STEADY_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """`now_ms()` for the core, `steady_ns()` for measuring: the cheapest clock that never goes back, from any beginning."""

    __slots__ = ("_offset_ns",)

    steady_ns = staticmethod(time.perf_counter_ns)

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._offset_ns = wall_ns() - time.clock_gettime_ns(_STEADY_CLOCK)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return (time.clock_gettime_ns(_STEADY_CLOCK) + self._offset_ns) // 1_000_000

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return time.clock_gettime_ns(_STEADY_CLOCK) + self._offset_ns
