"""Mutants of compaction."""

from __future__ import annotations

from typing import Any

from yak.partitions import log_cleaner
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.batch_filter import BatchFilter
from yak.storage.compaction import cleanable
from yak.storage.log import Log
from yak.storage.offset_map import OffsetMap


def _compact_past_the_watermark(swaps: Swaps) -> None:
    def judged(log: Log, _high_watermark: int, now_ms: int) -> Any:
        return cleanable(log, log.log_end_offset, now_ms)

    swaps.put(log_cleaner, "cleanable", judged)


def _drop_the_last_record(swaps: Swaps) -> None:
    real = OffsetMap.get

    def get(self: OffsetMap, key: bytes) -> int:
        newest = real(self, key)
        return newest if newest < 0 else newest + 1

    swaps.put(OffsetMap, "get", get)


def _drop_tombstones_at_once(swaps: Swaps) -> None:
    real = BatchFilter._left  # noqa: SLF001

    def left(self: BatchFilter, header: Any, records: bytes) -> Any:
        if header.delete_horizon_ms is None:
            header = _Due(header)
        return real(self, header, records)

    swaps.put(BatchFilter, "_left", left)


class _Due:
    """A header whose delete horizon has passed."""

    delete_horizon_ms = 0

    def __init__(self, header: Any) -> None:
        self._header = header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)


def _keep_them_no_time(swaps: Swaps) -> None:
    real = BatchFilter.__init__

    def init(self: BatchFilter, offsets: Any, last: Any, now_ms: int, _retention_ms: int, *rest: Any) -> None:
        real(self, offsets, last, now_ms, 0, *rest)

    swaps.put(BatchFilter, "__init__", init)


def _take_the_beginnings_of_epochs(swaps: Swaps) -> None:
    real = BatchFilter.__init__

    def init(
        self: BatchFilter, offsets: Any, last: Any, now_ms: int, retention_ms: int, _starts: Any, *rest: Any
    ) -> None:
        real(self, offsets, last, now_ms, retention_ms, (), *rest)

    swaps.put(BatchFilter, "__init__", init)


MUTANTS = (
    Mutant(
        "compacted-past-the-watermark",
        "only what is committed is compacted",
        _compact_past_the_watermark,
        100,
    ),
    Mutant("last-record-compacted", "of each key the last record stays", _drop_the_last_record, 20),
    Mutant("tombstones-gone-at-once", "a tombstone outlives the first compaction", _drop_tombstones_at_once, 30),
    Mutant(
        "epoch-starts-compacted-away", "the first batch of a leader epoch stays", _take_the_beginnings_of_epochs, 100
    ),
    Mutant("tombstones-kept-no-time", "a tombstone is kept for delete.retention.ms", _keep_them_no_time, 30),
)
