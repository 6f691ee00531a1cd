"""I8: leader epochs rise with the offset, the epoch cache has their first offsets, and truncation stays above the own
HW, except where a follower that is not in sync copies an open transaction again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from yak.ids import Offset
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, History, NewBatch, Watcher


class EpochCacheSound(Watcher):
    """Compares the cache with the batches when an epoch begins, after a truncation, and after a restart."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._epochs: dict[Copy, int] = {}
        self._shortened: set[Copy] = set()
        """Copies whose log start has moved; a crash may have taken it back, as it is not synced at once."""

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        """A batch of an older epoch must not follow a newer one."""
        epoch = self._epochs.get(copy, -1)
        for base, batch_epoch, *_more in batches:
            if batch_epoch < epoch:
                raise Violation(f"I8: {copy}@{base}: epoch {batch_epoch} after {epoch}")
            if batch_epoch > epoch:
                epoch = batch_epoch
                self._epochs[copy] = epoch
                self._compare(copy)

    def log_start(self, copy: Copy, before: Offset | None) -> None:  # noqa: ARG002
        """Compaction no longer keeps the first batches of what is below."""
        if copy.log_start > 0:
            self._shortened.add(copy)

    def role(self, copy: Copy) -> None:
        """A leader adds its epoch to the cache.

        The log of a failed directory is skipped: its truncation may be incomplete.
        """
        if copy.partition is not None and copy.partition.log is not None:
            self._compare(copy)

    def reopened(self, copy: Copy, before: Chain) -> None:  # noqa: ARG002
        """The cache was read from disk, or rebuilt."""
        self._compare(copy)

    def cut(self, copy: Copy, before: Chain, high_watermark: Offset) -> None:
        """Only uncommitted batches may be truncated."""
        self._compare(copy)
        agreed = copy.chain.agreement(before)
        is_excused = copy.copies_again or copy.key in self._history.forfeited
        if agreed < min(high_watermark, before.end) and not is_excused:
            raise Violation(f"I8: {copy} was cut at {agreed}, below its own high watermark {high_watermark}")

    def _compare(self, copy: Copy) -> None:
        log = copy.log
        assert log is not None
        starts = copy.epoch_starts
        self._epochs[copy] = starts[-1][0] if starts else -1
        entries = log.epochs.entries
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start <= start:
                raise Violation(f"I8: {copy}: the epoch cache {entries} does not rise")
        if [epoch for epoch, _start in starts] != sorted({epoch for epoch, _start in starts}):
            raise Violation(f"I8: {copy}: the batches' epochs {starts} do not rise")
        cached = dict(entries)
        # Of a log that retention shortened, compaction may have removed the first batches. The cache then has a log start,
        # perhaps one that a crash took back.
        is_shortened = copy.originals is not None and copy in self._shortened
        shortened_epoch = starts[0][0] if is_shortened and starts else None
        # where a bad disk hides the first batch of an epoch, opening the log finds the epoch behind it
        is_hidden = self._history.rotten.get(copy.key) == copy.node.node_id
        for epoch, start in starts:
            found = cached.get(epoch, -1)
            if (
                start >= copy.log_start
                and found != start
                and not (epoch == shortened_epoch and copy.log_start <= found < start)
                and not (is_hidden and found > start)
            ):
                raise Violation(f"I8: {copy}: epoch {epoch} begins at {start}, the cache says {cached.get(epoch)}")
