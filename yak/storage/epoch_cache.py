"""The start offset of each leader epoch in one log; followers request it to find where their logs diverged.

Rules: Kafka's LeaderEpochFileCache.java (KIP-101, KIP-279). The file is `leader-epoch-checkpoint`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from yak.ids import LeaderEpoch, Offset
from yak.storage.checkpoints import format_epochs
from yak.storage.reader import marked_headers_within
from yak.storage.segment import Segment

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1
_start_offset = itemgetter(1)


class EpochCache:
    """Ascending (epoch, start offset) pairs. `dirty`: the file is out of date. `latest` is -1 when empty.

    `saved` has the pairs that the file had when it was last read or planned.
    """

    __slots__ = ("dirty", "entries", "latest", "saved")

    def __init__(self, entries: list[tuple[LeaderEpoch, Offset]] | None = None) -> None:
        self.entries = entries or []
        self.latest = self.entries[-1][0] if self.entries else UNKNOWN_EPOCH
        self.dirty = False
        self.saved = tuple(self.entries)

    def is_saved(self, log_end_offset: Offset) -> bool:
        """Whether a load of the file results in these pairs, without those of epochs that have no records."""
        if not self.dirty:
            return True
        with_records, saved = (
            [entry for entry in entries if entry[1] < log_end_offset] for entries in (self.entries, self.saved)
        )
        return with_records == saved

    def take_changes(self) -> bytes | None:
        """The content that the file gets now; None if it is not out of date."""
        if not self.dirty:
            return None
        self.dirty, self.saved = False, tuple(self.entries)
        return self.to_bytes()

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Begin `epoch` at `start_offset` and drop entries that contradict it. The latest epoch changes nothing."""
        entries = self.entries
        if epoch < 0 or (entries and epoch == entries[-1][0] and start_offset >= entries[-1][1]):
            return
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        self.latest = epoch
        self.dirty = True

    def end_offset_for(self, requested_epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """(epoch, end offset) of the largest epoch at or below the requested one; (-1, -1) when unknown."""
        entries = self.entries
        if requested_epoch == UNKNOWN_EPOCH or not entries:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        if requested_epoch == self.latest:
            return requested_epoch, log_end_offset
        if requested_epoch > self.latest:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        floor_epoch = requested_epoch
        for epoch, start_offset in entries:
            if epoch > requested_epoch:
                return floor_epoch, start_offset
            floor_epoch = epoch
        raise AssertionError("the latest epoch is above the requested one")

    def epoch_for(self, offset: Offset) -> LeaderEpoch:
        """The epoch that wrote `offset`; -1 when the offset is before all entries."""
        entries = self.entries
        if entries and entries[-1][1] <= offset:
            return self.latest
        behind = bisect_right(entries, offset, key=_start_offset)
        return entries[behind - 1][0] if behind else UNKNOWN_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Drop epochs that begin at or above `end_offset`."""
        entries = self.entries
        while entries and entries[-1][1] >= end_offset:
            entries.pop()
            self.dirty = True
        self.latest = entries[-1][0] if entries else UNKNOWN_EPOCH

    def restore_front(self, segments: Sequence[Segment], log_start_offset: Offset) -> None:
        """Extend the entries down to the log start from the batch headers, unless there are none.

        When deleted records move the log start, the epoch cache is truncated first and the log start checkpoint is
        written later. After a crash the log may begin earlier again, before the first cached epoch. Followers need the
        end of such epochs too. Reads the disk; raises OSError, DamagedBatch.
        """
        entries = self.entries
        if not entries or entries[0][1] <= log_start_offset:
            return
        first_epoch, first_start = entries[0]
        found: list[tuple[LeaderEpoch, Offset]] = []
        for index, segment in enumerate(segments):
            if segment.base_offset >= first_start:
                break
            is_before = index + 1 < len(segments) and segments[index + 1].base_offset <= log_start_offset
            if not segment.size or is_before:
                continue
            for header, _marker in marked_headers_within(segment, log_start_offset, first_start):
                epoch = header.partition_leader_epoch
                if header.last_offset >= log_start_offset and (not found or epoch > found[-1][0]):
                    found.append((epoch, max(header.base_offset, log_start_offset)))
        earlier = [each for each in found if each[0] <= first_epoch]
        if earlier:
            is_first_among_them = earlier[-1][0] == first_epoch
            self.entries = [*earlier, *(entries[1:] if is_first_among_them else entries)]
            self.dirty = True

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Drop epochs that ended at or below `start_offset`; the one that contains it now begins there."""
        entries = self.entries
        gone = 0
        while gone < len(entries) and entries[gone][1] <= start_offset:
            gone += 1
        if not gone or (gone == 1 and entries[0][1] == start_offset):
            return
        entries[:gone] = [(entries[gone - 1][0], start_offset)]
        self.dirty = True

    def clear(self) -> None:
        """Forget all epochs."""
        self.dirty = self.dirty or bool(self.entries)
        self.entries = []
        self.latest = UNKNOWN_EPOCH

    def to_bytes(self) -> bytes:
        """The content of `leader-epoch-checkpoint`."""
        return format_epochs(self.entries)
