"""Counters of one node of the quorum since its start, for metrics."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from yak.ids import Offset

COMMIT_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_NONE: Final = -1


@dataclass(slots=True, eq=False)
class QuorumCounters:
    """Elections that this node started, and commands that it appended as the leader.

    The time from append to commit is that of one command at a time: the next one appended after it is committed.
    """

    elections: int = 0
    commands: int = 0
    commits_by_duration: list[int] = field(default_factory=lambda: [0] * (len(COMMIT_BOUNDS_MS) + 1))
    commits_ms: int = 0
    """Sum of the measured times."""
    _measured: Offset = _NONE
    _measured_since_ms: int = 0

    def appended(self, offset: Offset, now_ms: int) -> None:
        """Count a command."""
        self.commands += 1
        if self._measured == _NONE:
            self._measured, self._measured_since_ms = offset, now_ms

    def committed(self, offset: Offset, now_ms: int) -> None:
        """Note that a command is committed and applied."""
        if offset == self._measured:
            took_ms = now_ms - self._measured_since_ms
            self.commits_by_duration[bisect_left(COMMIT_BOUNDS_MS, took_ms)] += 1
            self.commits_ms += took_ms
            self._measured = _NONE

    def resigned(self) -> None:
        """Forget a command that is not committed: this node may never know when it is."""
        self._measured = _NONE
