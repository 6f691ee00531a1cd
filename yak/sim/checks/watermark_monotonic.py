"""I6: a high watermark never falls within a leader epoch, no follower's is above the committed end, and no start raises one.

It may fall where a follower that is not in sync copies an open transaction again. With one broker it does not fall
between leader epochs either. A start reads it from a checkpoint, and raises it to the log start offset only.
"""

from __future__ import annotations

from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History, Watcher


class WatermarkMonotonic(Watcher):
    """Remembers the high watermark of each copy in its present incarnation and epoch."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._is_alone = len(history.nodes) == 1
        self._seen: dict[Copy, tuple[tuple[int, ...], int]] = {}

    def watermark(self, copy: Copy, before: int) -> None:  # noqa: ARG002
        self._check(copy)

    def role(self, copy: Copy) -> None:
        """A new epoch begins with the present high watermark."""
        self._check(copy)

    def _check(self, copy: Copy) -> None:
        if copy.key in self._history.forfeited:
            return
        role = () if self._is_alone else (copy.leader_epoch, copy.is_leader)
        disks_count, high_watermark = copy.node.disks_count, copy.high_watermark
        term = (copy.life, copy.births, disks_count, *role)
        last_term, last = self._seen.get(copy, (term, 0))
        is_here = copy.partition is not None and copy.partition.log is not None
        if not is_here:  # a start that finds its directory offline knows none; a later one reads it again
            high_watermark = max(last, high_watermark)
        self._seen[copy] = (term, high_watermark)
        # The checkpoint may still have that of a log that was replaced, because its disk had lost records.
        is_replaced = last_term[1] > 0 or last_term[2] != disks_count
        if last_term[0] != copy.life and not is_replaced and high_watermark > max(last, copy.log_start):
            raise Violation(f"I6: {copy}: a start raised the high watermark from {last} to {high_watermark}")
        if last_term == term and high_watermark < last and not copy.copies_again:
            raise Violation(
                f"I6: {copy}: the high watermark fell from {last} to {high_watermark} in epoch {copy.leader_epoch}"
            )
        if is_here and not copy.log_start <= high_watermark <= max(copy.end, copy.log_start):
            raise Violation(
                f"I6: {copy}: the high watermark {high_watermark} is outside of {copy.log_start}..{copy.end}"
            )
        committed = self._history.committed.get(copy.key)
        known = 0 if committed is None else committed.end
        if not copy.is_leader and high_watermark > max(known, copy.log_start):
            raise Violation(f"I6: {copy}, a follower, has the high watermark {high_watermark}, above {known}")
