"""What the leader elections of this broker as controller came to."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Upper bounds of the histogram's buckets; one more bucket counts longer rounds."""


@dataclass(slots=True, eq=False)
class ElectionCounts:
    """Totals since this broker's start.

    A round is all elections that one event, such as the loss of a broker, made necessary.
    """

    by_cause: dict[str, int] = field(default_factory=dict)
    """Partitions that got a leader, by `Cause`."""
    without_leader: int = 0
    """Partitions that were left without a leader."""
    unclean: int = 0
    """Elected leaders that may lack committed records."""
    controller_elections: int = 0
    """Times this broker became the controller."""
    rounds_by_duration: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))
    rounds_ms: int = 0
    """Sum of the durations, in ms."""

    def round_took(self, took_ms: int) -> None:
        """Record a finished round."""
        self.rounds_by_duration[bisect_left(BOUNDS_MS, took_ms)] += 1
        self.rounds_ms += took_ms
