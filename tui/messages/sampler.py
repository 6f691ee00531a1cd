"""Shows some of many: when more comes than eyes can follow, one of every n, and n is said. Pure: times come in.

n is one of 1, 2, 5, 10, 20, 50…, so that it stays the same while the rate wavers. Of each n records in the order they came one is taken at a
changing place: one that always took the first would, of partitions read in turn, show the same partition for ever.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

WINDOW_MS: Final = 1000.0
PATIENCE: Final = 1.1
"""Above the limit by less than this, n stays: ten thousand a second are 1 of 20, though now and then a few more come."""
CALM_MS: Final = 3000.0
"""So long a smaller n must have been enough before it is taken."""
_STRIDE: Final = 7919
_STEPS: Final = (1, 2, 5)


class RateMeter:
    """Things a second, over the last second."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()
        self._total = 0
        self._since_ms: float | None = None

    def add(self, count: int, now_ms: float) -> None:
        """So many came."""
        if self._since_ms is None:
            # Nobody knows for how long the first ones had been waiting.
            self._since_ms = now_ms
        elif count:
            self._counts.append((now_ms, count))
            self._total += count
        self._forget(now_ms)

    def rate(self, now_ms: float) -> float:
        """How many a second come now."""
        self._forget(now_ms)
        if self._since_ms is None:
            return 0.0
        # In the first moments over a tenth of a second at least: one record is not a thousand a second.
        seen_ms = min(WINDOW_MS, max(now_ms - self._since_ms, WINDOW_MS / 10))
        return self._total * 1000.0 / seen_ms

    def _forget(self, now_ms: float) -> None:
        while self._counts and self._counts[0][0] <= now_ms - WINDOW_MS:
            self._total -= self._counts.popleft()[1]


class Sampler:
    """Picks so many of what comes that about `limit` a second are shown at most; `every` is n, and 1 when all are."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.every = 1
        self._meter = RateMeter()
        self._seen = 0
        self._lower_since_ms: float | None = None

    def pick(self, items: Sequence[T], now_ms: float) -> Sequence[T]:
        """Those of `items`, which came now, that are to be shown."""
        self._meter.add(len(items), now_ms)
        self._adapt(self._meter.rate(now_ms), now_ms)
        if self.every == 1:
            return items
        picked = []
        at, end = self._seen, self._seen + len(items)
        block = at // self.every
        while (place := block * self.every + block * _STRIDE % self.every) < end:
            if place >= at:
                picked.append(items[place - at])
            block += 1
        self._seen = end
        return picked

    def _adapt(self, rate: float, now_ms: float) -> None:
        wanted = _enough(rate / (self.limit * PATIENCE))
        if wanted >= self.every:
            self._lower_since_ms = None
        elif self._lower_since_ms is None:
            self._lower_since_ms = now_ms
        if wanted > self.every or (self._lower_since_ms is not None and now_ms - self._lower_since_ms >= CALM_MS):
            self.every = wanted
            self._lower_since_ms = None
            self._seen = 0


def _enough(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50… that is not less."""
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= least:
                return step * power
        power *= 10
