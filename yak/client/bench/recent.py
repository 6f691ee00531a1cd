"""The recent latencies of a running benchmark, for display: a few figures per client in shared memory."""

import math
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from yak.client.bench.histogram import Histogram, bucket_top

FIGURES: Final = ("p50_ms", "p99_ms", "max_ms")
LOOK_SECONDS: Final = 0.5


class Moment(NamedTuple):
    """The records of all clients, and the slowest client's latencies in the last half second; 0.0 where none was
    timed."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class RecentLatency:
    """Computes a client's latencies of the last half second, and writes the figures to `shared` from `place` on."""

    __slots__ = ("_before", "_due_s", "_latency", "_place", "_shared")

    def __init__(self, latency: Histogram, shared: Any, place: int) -> None:
        self._latency = latency
        self._shared = shared
        self._place = place
        self._before: dict[int, int] = {}
        self._due_s = time.monotonic() + LOOK_SECONDS

    def look(self) -> None:
        """Update the figures; cheap unless half a second has passed."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_SECONDS
        counts = self._latency.counts.copy()  # another thread records meanwhile
        grown = {bucket: count - self._before.get(bucket, 0) for bucket, count in counts.items()}
        self._before = counts
        for at, value in enumerate(recent_ms({bucket: count for bucket, count in grown.items() if count})):
            self._shared[self._place + at] = value


def recent_ms(counts: dict[int, int]) -> tuple[float, float, float]:
    """Median, p99 and maximum of the buckets in milliseconds; zeros without values."""
    if not counts:
        return (0.0, 0.0, 0.0)
    ordered = sorted(counts)
    total = sum(counts.values())
    found = [_at(ordered, counts, math.ceil(total * share)) for share in (0.5, 0.99)]
    return (found[0] / 1e6, found[1] / 1e6, bucket_top(ordered[-1]) / 1e6)


def _at(ordered: Sequence[int], counts: dict[int, int], wanted: int) -> int:
    seen = 0
    for bucket in ordered:
        seen += counts[bucket]
        if seen >= wanted:
            return bucket_top(bucket)
    return bucket_top(ordered[-1])


def worst(shared: Sequence[float]) -> tuple[float, float, float]:
    """The maximum of each figure over all clients."""
    count = len(FIGURES)
    p50, p99, longest = (max(shared[at::count], default=0.0) for at in range(count))
    return p50, p99, longest
