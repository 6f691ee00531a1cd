"""A histogram of latencies with a bounded relative error, like HdrHistogram.

Values up to 2047 have a bucket each; above, each power of two is split into 1024 buckets, so that a bucket is never
wider than a thousandth of its value. Only non-empty buckets take memory. Minimum, maximum and mean are exact.
"""

import math
from dataclasses import dataclass, field

SUB_BUCKET_BITS = 10
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
"""The percentiles of a result."""


def bucket_of(value: int) -> int:
    """The index of the bucket that counts this value (0 or more)."""
    shift = value.bit_length() - SUB_BUCKET_BITS - 1
    if shift <= 0:
        return value
    return (shift << SUB_BUCKET_BITS) + (value >> shift)


def bucket_top(index: int) -> int:
    """The highest value in this bucket."""
    shift = (index >> SUB_BUCKET_BITS) - 1
    if shift <= 0:
        return index
    return (((index & ((1 << SUB_BUCKET_BITS) - 1)) + (1 << SUB_BUCKET_BITS) + 1) << shift) - 1


def percentile_name(percent: float) -> str:
    """`p50`, `p99`, `p99.9`."""
    return f"p{percent:g}"


@dataclass(slots=True)
class Histogram:
    """Counts of whole nanoseconds."""

    counts: dict[int, int] = field(default_factory=dict)
    count: int = 0
    total: int = 0
    sum_of_squares: float = 0.0
    min: int = 0
    max: int = 0

    def record(self, value_ns: int) -> None:
        """Count one value; a negative one (after a clock change) counts as zero."""
        value_ns = max(value_ns, 0)
        index = bucket_of(value_ns)
        self.counts[index] = self.counts.get(index, 0) + 1
        self.min = value_ns if self.count == 0 or value_ns < self.min else self.min
        self.max = max(self.max, value_ns)
        self.count += 1
        self.total += value_ns
        self.sum_of_squares += float(value_ns) * value_ns

    def add(self, other: "Histogram") -> None:
        if other.count == 0:
            return
        for index, count in other.counts.items():
            self.counts[index] = self.counts.get(index, 0) + count
        self.min = other.min if self.count == 0 else min(self.min, other.min)
        self.max = max(self.max, other.max)
        self.count += other.count
        self.total += other.total
        self.sum_of_squares += other.sum_of_squares

    def percentile(self, percent: float) -> int:
        """The smallest bucket top that at least `percent` of the values do not exceed; 0 without values."""
        wanted = max(1, math.ceil(self.count * percent / 100))
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= wanted:
                return min(bucket_top(index), self.max)
        return 0

    @property
    def mean(self) -> float:
        """Average; 0 without values."""
        return self.total / self.count if self.count else 0.0

    @property
    def stddev(self) -> float:
        if not self.count:
            return 0.0
        return math.sqrt(max(self.sum_of_squares / self.count - self.mean**2, 0.0))

    def summary_ms(self) -> dict[str, float]:
        """Minimum, mean, deviation, percentiles and maximum in milliseconds, by the names of `--assert`."""
        figures = {"min": self.min / 1e6, "mean": self.mean / 1e6, "stddev": self.stddev / 1e6}
        figures |= {percentile_name(percent): self.percentile(percent) / 1e6 for percent in PERCENTILES}
        figures["max"] = self.max / 1e6
        return {name: round(value, 6) for name, value in figures.items()}

    def buckets(self) -> list[dict[str, float | int]]:
        """The non-empty buckets in order: each one's highest value in milliseconds, and its count."""
        return [{"upto_ms": bucket_top(index) / 1e6, "count": self.counts[index]} for index in sorted(self.counts)]
