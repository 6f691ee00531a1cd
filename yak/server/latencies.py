"""Latency histograms with doubling buckets for the metrics, at a fifth of a microsecond per request.

The core notes the answered requests (`yak.broker.counters`), the shell the start and end of the turn. A request
answered at once has the duration of its turn, until the socket takes the response. A delayed request has the time from
the start of its own turn to the end of the turn that answered it. The wait in the socket's buffer behind other turns is
not included: that is the loop delay.
"""

from typing import Final

from yak.broker import apis
from yak.broker.counters import FOLLOWER_FETCH, Counters

FIRST_BOUND_NS: Final = 100_000
BOUNDS_COUNT: Final = 20
BOUNDS_SECONDS: Final = tuple(0.0001 * 2**index for index in range(BOUNDS_COUNT))
"""0.1 ms, 0.2 ms, ... 52 s."""
_CELLS: Final = 48
"""More than any time needs (2^47 times the first bound), so no range check is needed; the last cell has the sum."""


class Histogram:
    """Counts by bucket, and their sum."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells = [0] * _CELLS
        """Counts of times below `FIRST_BOUND_NS * 2**index`, not below half of it; the last cell is the sum in ns."""

    def note(self, took_ns: int) -> None:
        """Count one time."""
        cells = self.cells
        cells[(took_ns // FIRST_BOUND_NS).bit_length()] += 1
        cells[-1] += took_ns

    def cumulative(self) -> tuple[list[int], int, float]:
        """(counts up to each of `BOUNDS_SECONDS`, total count, total seconds)."""
        totals, total = [], 0
        for count in self.cells[:BOUNDS_COUNT]:
            total += count
            totals.append(total)
        return totals, total + sum(self.cells[BOUNDS_COUNT:-1]), self.cells[-1] / 1e9


class Latencies:
    """Request latencies by API key; `FOLLOWER_FETCH` is separate from consumers' fetches."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.by_api = {key: Histogram() for key in (*apis.NAMES, FOLLOWER_FETCH)}
        self._cells = {key: histogram.cells for key, histogram in self.by_api.items()}
        self._answered = counters.answered
        self._waited = counters.waited

    def turn_ended(self, now_ns: int, took_ns: int) -> None:
        """Record the requests that this turn answered."""
        answered = self._answered
        if answered:
            by_api = self._cells
            bucket = (took_ns // FIRST_BOUND_NS).bit_length()
            for key in answered:
                cells = by_api[key]
                cells[bucket] += 1
                cells[-1] += took_ns
            answered.clear()
        if self._waited:
            for key, came_ns in self._waited:
                self.by_api[key].note(now_ns - came_ns)
            self._waited.clear()
