"""A cache of reads for followers: with three replicas each byte is read once.

Followers that keep up fetch the same offset within a moment of each other. The cache is bounded in bytes and in entries; an
entry is dropped at its last use. A truncation or a compaction outdates it: records from before a compaction, followed by records
from after it, may lack the marker of their transaction.
"""

from __future__ import annotations

from collections import OrderedDict

from yak.ids import Offset
from yak.ports.disk import Buffer
from yak.storage.log import Log

BYTES_MAX = 8 << 20
READS_MAX = 4096
"""Each takes 0.5 KB beside its bytes, and keeps the log of a deleted replica in memory."""


class RecentReads:
    """The newest reads of leaders' logs, by log and offset."""

    def __init__(self) -> None:
        self._reads: OrderedDict[tuple[Log, Offset], tuple[tuple[int, int], Buffer, int]] = OrderedDict()
        """(log, offset) -> the log's generation and swaps, the bytes, and the remaining uses."""
        self._bytes = 0

    def take(self, log: Log, offset: Offset, max_bytes: int) -> Buffer | None:
        """The batches from `offset` on, if they are cached and no longer than `max_bytes`."""
        held = self._reads.get((log, offset))
        if held is None:
            return None
        state, found, uses = held
        if state != (log.generation, log.swaps):
            self._drop((log, offset))
            return None
        if len(found) > max_bytes:
            return None
        if uses <= 1:
            self._drop((log, offset))
        else:
            self._reads[log, offset] = (state, found, uses - 1)
        return found

    def keep(self, log: Log, offset: Offset, found: Buffer, uses: int) -> None:
        """Cache a read for `uses` more followers."""
        if uses <= 0 or not len(found):
            return
        key = (log, offset)
        if key in self._reads:
            self._drop(key)
        self._reads[key] = ((log.generation, log.swaps), found, uses)
        self._bytes += len(found)
        while self._bytes > BYTES_MAX or len(self._reads) > READS_MAX:
            self._drop(next(iter(self._reads)))

    def _drop(self, key: tuple[Log, Offset]) -> None:
        _state, found, _uses = self._reads.pop(key)
        self._bytes -= len(found)
