"""Compares the producer's totals with Spark's results, window by window; they must be equal to the last digit. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

WINDOW_MS: Final = 5_000


@dataclass(slots=True)
class Sums:
    """The values of one metric in one window."""

    count: int = 0
    total: Decimal = Decimal(0)
    least: float = 0.0
    most: float = 0.0

    def add(self, number: float) -> None:
        """Add a value."""
        self.least = number if self.count == 0 else min(self.least, number)
        self.most = number if self.count == 0 else max(self.most, number)
        self.count += 1
        self.total += Decimal(str(number))

    @property
    def mean(self) -> float:
        """The mean. The sum is exact, so it does not depend on the order of the values."""
        return float(self.total) / self.count


Place = tuple[str, int]
"""A metric and the start of a window in ms."""


@dataclass(slots=True)
class Sent:
    """Totals of the acknowledged records, by metric and window."""

    places: dict[Place, Sums] = field(default_factory=dict)

    def add(self, metric: str, timestamp_ms: int, number: float) -> None:
        """Add an acknowledged record."""
        place = metric, timestamp_ms // WINDOW_MS * WINDOW_MS
        self.places.setdefault(place, Sums()).add(number)

    @property
    def count(self) -> int:
        """Number of acknowledged records."""
        return sum(each.count for each in list(self.places.values()))


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """One metric: records sent, records in the results of `counts` and `stats`, windows, differing windows."""

    metric: str
    sent: int
    counted: int
    in_stats: int
    windows: int
    differing: int

    @property
    def holds(self) -> bool:
        """Whether all numbers are equal."""
        return self.sent == self.counted == self.in_stats and self.differing == 0


def compare(
    sent: Sent, counts: Mapping[Place, int], stats: Mapping[Place, Mapping[str, object]]
) -> tuple[MetricCounts, ...]:
    """Compare every window that has sent records or a result; return the counts of each metric."""
    places = {*sent.places, *counts, *stats}
    return tuple(
        _counts(metric, sorted(place for place in places if place[0] == metric), sent, counts, stats)
        for metric in sorted({metric for metric, _ in places})
    )


def _counts(
    metric: str,
    places: Iterable[Place],
    sent: Sent,
    counts: Mapping[Place, int],
    stats: Mapping[Place, Mapping[str, object]],
) -> MetricCounts:
    mine = list(places)
    differing = sum(
        not _is_equal(sent.places.get(place, Sums()), counts.get(place, 0), stats.get(place)) for place in mine
    )
    return MetricCounts(
        metric,
        sum(sent.places[place].count for place in mine if place in sent.places),
        sum(counts.get(place, 0) for place in mine),
        sum(int(str(stats[place]["count"])) for place in mine if place in stats),
        len(mine),
        differing,
    )


def _is_equal(sums: Sums, count: int, stats: Mapping[str, object] | None) -> bool:
    if sums.count == 0 or stats is None:
        return False
    found = (count, stats["count"], stats["malformed"], stats["mean"], stats["min"], stats["max"])
    return found == (sums.count, sums.count, 0, sums.mean, sums.least, sums.most)
