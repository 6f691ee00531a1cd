"""How long things took, in buckets that double: what metrics show, at a fifth of a microsecond for a request.

The core notes what it answered (`yak.broker.counters`), the shell knows when the turn began and ended. A request that is answered at
once took its turn, until its answer was handed to the socket; one that waited took from the beginning of its own turn to the end of the
one that answered it. What it lay in the socket's buffer before, behind other turns, is not in it: that is the loop's delay.
"""

from typing import Final

from yak.broker import apis
from yak.broker.counters import FOLLOWER_FETCH, Counters

FIRST_BOUND_NS: Final = 100_000
BOUNDS_COUNT: Final = 20
BOUNDS_SECONDS: Final = tuple(0.0001 * 2**index for index in range(BOUNDS_COUNT))
"""0.1 ms, 0.2 ms, ... 52 s."""
_CELLS: Final = 48
"""More than any time needs (2^47 times the first bound), so that nothing has to be compared; the last holds the sum."""


class Histogram:
    """Counts by bucket, and the sum of all."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells = [0] * _CELLS
        """How many took under `FIRST_BOUND_NS * 2**index`, and not under half of it; in the last, all ns together."""

    def note(self, took_ns: int) -> None:
        """One more."""
        cells = self.cells
        cells[(took_ns // FIRST_BOUND_NS).bit_length()] += 1
        cells[-1] += took_ns

    def cumulative(self) -> tuple[list[int], int, float]:
        """(how many took no longer than each of `BOUNDS_SECONDS`, how many in all, all seconds together)."""
        totals, total = [], 0
        for count in self.cells[:BOUNDS_COUNT]:
            total += count
            totals.append(total)
        return totals, total + sum(self.cells[BOUNDS_COUNT:-1]), self.cells[-1] / 1e9


class Latencies:
    """Of requests, by API key; `FOLLOWER_FETCH` stands apart from consumers' fetches."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.by_api = {key: Histogram() for key in (*apis.NAMES, FOLLOWER_FETCH)}
        self._cells = {key: histogram.cells for key, histogram in self.by_api.items()}
        self._answered = counters.answered
        self._waited = counters.waited

    def turn_ended(self, now_ns: int, took_ns: int) -> None:
        """Take what the core answered in this turn."""
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
