"""Compares the producer's totals with Spark's results, window by window; they must be equal to the last digit. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

WINDOW_MS: Final = 5_000

MetricWindow = tuple[str, int]
"""A metric and the start of a window in ms."""


class AcknowledgedValues:
    """The values of the acknowledged records, by metric and window."""

    def __init__(self) -> None:
        self.windows: dict[MetricWindow, list[float]] = defaultdict(list)
        self.count = 0

    def add(self, metric: str, timestamp_ms: int, value: float) -> None:
        self.windows[metric, timestamp_ms // WINDOW_MS * WINDOW_MS].append(value)
        self.count += 1


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
    sent: AcknowledgedValues, counts: Mapping[MetricWindow, int], stats: Mapping[MetricWindow, Mapping[str, object]]
) -> tuple[MetricCounts, ...]:
    """Compare every window that has sent records or a result; return the counts of each metric."""
    found = []
    windows = {*sent.windows, *counts, *stats}
    for metric in sorted({metric for metric, _ in windows}):
        mine = [window for window in windows if window[0] == metric]
        values = {window: sent.windows.get(window, []) for window in mine}
        found.append(
            MetricCounts(
                metric,
                sum(map(len, values.values())),
                sum(counts.get(window, 0) for window in mine),
                sum(int(str(stats[window]["count"])) for window in mine if window in stats),
                len(mine),
                sum(not _is_equal(values[window], counts.get(window, 0), stats.get(window)) for window in mine),
            )
        )
    return tuple(found)


def mean(values: list[float]) -> float:
    """The mean. The sum is exact, so it does not depend on the order of the values."""
    return float(sum(Decimal(str(value)) for value in values)) / len(values)


def _is_equal(values: list[float], count: int, stats: Mapping[str, object] | None) -> bool:
    if not values or stats is None:
        return False
    found = (count, stats["count"], stats["malformed"], stats["mean"], stats["min"], stats["max"])
    return found == (len(values), len(values), 0, mean(values), min(values), max(values))
