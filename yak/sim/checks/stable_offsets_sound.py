"""I10: no replica's last stable offset passes the first record of a transaction without a committed marker.

Each replica computes it on its own, and any of them may serve readers with `read_committed`, or lead next. A marker that is in
a log when it is loaded counts as committed, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from yak.ids import Offset, ProducerId
from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History, NewBatch, Watcher


class StableOffsetsSound(Watcher):
    """Follows the transactions of every copy."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._open: dict[Copy, dict[ProducerId, Offset]] = {}
        """The first offset of each transaction without a marker."""
        self._ended: dict[Copy, list[tuple[Offset, Offset]]] = {}
        """First offset and marker of those whose marker was not committed at the last check."""

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        """Transactions may have begun or ended."""
        self._take(copy, batches)
        self._check(copy)

    def _take(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        opened = self._open.setdefault(copy, {})
        for batch in batches:
            if batch.producer_id is not None:
                opened.setdefault(batch.producer_id, batch.base_offset)
            elif batch.decision is not None and batch.decision[0] in opened:
                self._ended.setdefault(copy, []).append((opened.pop(batch.decision[0]), batch.base_offset))

    def may_have_less(self, copy: Copy) -> None:
        """Read the copy again, if there is one."""
        self._open.pop(copy, None)
        self._ended.pop(copy, None)
        if copy.log is not None and copy.is_held:
            self._take(copy, copy.batches())
            self._ended.pop(copy, None)
            self._check(copy)

    def watermark(self, copy: Copy, before: Offset) -> None:  # noqa: ARG002
        """Markers may be committed."""
        self._check(copy)

    def _check(self, copy: Copy) -> None:
        partition, log, opened = copy.partition, copy.log, self._open.get(copy, {})
        if partition is None or log is None or partition.log is not log or copy.key in self._history.forfeited:
            return
        if log.damage_at_load is not None or copy.key in self._history.rotten:
            return  # a marker may be damaged
        ended = self._ended[copy] = [each for each in self._ended.get(copy, ()) if each[1] >= partition.high_watermark]
        firsts = (*opened.values(), *(first for first, _marker in ended))
        if not firsts:
            return
        self._history.counts["stable offsets checked"] += 1
        first, stable = min(firsts), partition.last_stable_offset
        if stable > max(first, log.log_start_offset):
            raise Violation(
                f"I10: the last stable offset of {copy} is {stable}, and a transaction from {first} on is not decided"
            )
