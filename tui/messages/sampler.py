"""Shows one of every n records when more arrive than a user can follow, and reports n. Pure: times come in.

n is one of 1, 2, 5, 10, 20, 50…, so that it is stable while the rate varies. Of each n records one is taken at a
varying position: always taking the first would show the same partition for ever if partitions are read in turn.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeVar

from yak.tui.formatter import round_up

T = TypeVar("T")

WINDOW_MS: Final = 1000.0
PATIENCE: Final = 1.1
"""n stays while the limit is exceeded by less than this factor: a rate of about ten thousand a second stays 1 of 20."""
CALM_MS: Final = 3000.0
"""How long a smaller n must suffice before it is used."""
_STRIDE: Final = 7919


class RateMeter:
    """Measures a rate over the last second."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()
        self._total = 0
        self._since_ms: float | None = None

    def add(self, count: int, now_ms: float) -> None:
        if self._since_ms is None:
            # It is unknown how long the first ones had been waiting.
            self._since_ms = now_ms
        elif count:
            self._counts.append((now_ms, count))
            self._total += count
        self._forget(now_ms)

    def rate(self, now_ms: float) -> float:
        self._forget(now_ms)
        if self._since_ms is None:
            return 0.0
        # At the start divide by at least a tenth of a second: one record is not a thousand a second.
        seen_ms = min(WINDOW_MS, max(now_ms - self._since_ms, WINDOW_MS / 10))
        return self._total * 1000.0 / seen_ms

    def _forget(self, now_ms: float) -> None:
        while self._counts and self._counts[0][0] <= now_ms - WINDOW_MS:
            self._total -= self._counts.popleft()[1]


class Sampler:
    """Selects about `limit` records per second at most; `every` is n, and 1 if all are shown."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.every = 1
        self._meter = RateMeter()
        self._seen = 0
        self._lower_since_ms: float | None = None

    def pick(self, items: Sequence[T], now_ms: float) -> Sequence[T]:
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
        wanted = round_up(rate / (self.limit * PATIENCE))
        if wanted >= self.every:
            self._lower_since_ms = None
        elif self._lower_since_ms is None:
            self._lower_since_ms = now_ms
        if wanted > self.every or (self._lower_since_ms is not None and now_ms - self._lower_since_ms >= CALM_MS):
            self.every = wanted
            self._lower_since_ms = None
            self._seen = 0
