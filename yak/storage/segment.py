"""One segment of a log: the `.log` file, its two indexes, and its timestamps (Kafka's LogSegment.java).

Only the step writes a segment. The step reads from the page cache, threads read from the disk; threads use only the
file and positions that they were given, never mutable state.
"""

import struct
from dataclasses import dataclass, field

from yak.config.log_config import NEVER, LogConfig
from yak.ids import FilePosition, Offset
from yak.ports.disk import Disk, DiskFull, File
from yak.protocol.record_batch import HEADER_BYTES, NO_TIMESTAMP, read_header
from yak.storage.indexes import AbortedTxn, AbstractIndex, OffsetIndex, TimeIndex, TransactionIndex
from yak.storage.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)

RELATIVE_OFFSET_MAX = 2**31 - 1
FILE_BYTES_MAX = 2**31 - 1
UNKNOWN_TIMESTAMP = -2
"""`first_timestamp` while the first batch's header is unread."""


class IndexUnreadable(Exception):
    """An index file does not match the known entries: the segment's indexes must be rebuilt from the log."""


@dataclass(slots=True, eq=False, repr=False)
class Segment:
    """A run of batches from `base_offset` on. `size` is in bytes; timestamps are in ms, -1 when there is none."""

    disk: Disk
    folder: str
    base_offset: Offset
    created_ms: int
    aside: str = ""
    """Suffix of its files while it is no part of the log: before it replaces others, and once it is replaced."""
    file: File | None = None
    size: FilePosition = 0
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    max_timestamp_offset: Offset = field(init=False)
    index_due_position: FilePosition = 0
    """A batch that starts after this position gets an index entry."""
    offset_index: OffsetIndex = field(init=False)
    time_index: TimeIndex = field(init=False)
    transaction_index: TransactionIndex | None = None
    """The aborted transactions that end here; None while there never was one."""

    def __post_init__(self) -> None:
        self.max_timestamp_offset = self.base_offset
        self.offset_index, self.time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)

    @classmethod
    def create(cls, disk: Disk, folder: str, base_offset: Offset, config: LogConfig, now_ms: int) -> "Segment":
        """An empty segment with its three files. Raises OSError; after DiskFull none of them remains.

        A remaining `.log` would make the next start end the previous segment there, although it got more batches since.
        """
        segment = cls(disk, folder, base_offset, now_ms)
        segment.index_due_position = config.index_interval_bytes
        created: list[str] = []
        try:
            for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                path = segment.path(suffix)
                if not disk.exists(path):
                    created.append(path)
                file = disk.open(path, create=True)
                if suffix == LOG_SUFFIX:
                    segment.file = file
                else:
                    file.close()
        except DiskFull as error:
            try:
                for path in created:
                    disk.remove(path)
            except OSError:
                raise OSError(error.errno, error.strerror, error.filename) from None
            raise
        return segment

    def path(self, suffix: str) -> str:
        """The path of the segment's file with this suffix."""
        return f"{self.folder}/{offset_name(self.base_offset)}{suffix}{self.aside}"

    def open(self) -> File:
        """The `.log` file, opened at first use. Raises OSError."""
        if self.file is None:
            file = self.disk.open(self.path(LOG_SUFFIX))
            if self.file is None:
                # else the segment was replaced while a thread was here, and the name may be another file's now
                self.file = file
        return self.file

    def read_index(self, suffix: str) -> bytes:
        """An index file's bytes, for threads: the segment may be replaced during the read. Raises OSError."""
        while True:
            aside = self.aside
            data = self.disk.read_file(self.path(suffix))
            if self.aside == aside:
                return data

    def read_first_timestamp(self) -> int:
        """The largest timestamp of the first batch in the file, whose CRC is not checked. Raises OSError."""
        try:
            return read_header(self.open().read(HEADER_BYTES, 0)).max_timestamp
        except struct.error:
            return NO_TIMESTAMP

    def modified_ms(self) -> int | None:
        """When its `.log` file was last written; None if that cannot be read."""
        try:
            return self.disk.modified_ms(self.path(LOG_SUFFIX))
        except OSError:
            return None

    def largest_timestamp(self) -> int:
        """The time that retention and compaction go by (Kafka's LogSegment.largestTimestamp).

        Of records without timestamps it is the last write; a segment whose file says nothing is never old.
        """
        if self.max_timestamp >= 0:
            return self.max_timestamp
        modified_ms = self.modified_ms()
        return NEVER if modified_ms is None else modified_ms

    # ------------------------------------------------------------------------------------------------ indexes

    def is_index_full(self, config: LogConfig) -> bool:
        """Whether one more entry could exceed `segment.index.bytes` (the time index reserves its closing entry)."""
        limit = config.segment_index_bytes
        return (
            self.offset_index.count >= limit // OffsetIndex.ENTRY_BYTES
            or self.time_index.count >= limit // TimeIndex.ENTRY_BYTES - 1
        )

    def note_timestamp(self, timestamp_ms: int, offset: Offset) -> None:
        """Remember the largest timestamp and the last offset of its batch."""
        if timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
            self.max_timestamp_offset = offset

    def add_index_entry(self, last_offset: Offset, position: FilePosition, interval_bytes: int) -> None:
        """Index the batch that starts at `position`; both indexes must be loaded."""
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.index_due_position = position + interval_bytes

    def load_indexes(self) -> None:
        """Load both index files unless they are in memory. Raises OSError, IndexUnreadable."""
        for index, suffix in self._indexes():
            if index.entries is None and not index.load(self.disk.read_file(self.path(suffix))):
                raise IndexUnreadable(self.path(suffix))

    def load_indexes_or_forget(self) -> None:
        """Load both index files, or drop the entries of both if one is damaged: fewer entries only mean longer scans.

        Raises OSError.
        """
        try:
            self.load_indexes()
        except IndexUnreadable:
            self.offset_index.reset()
            self.time_index.reset()

    def add_aborted(self, aborted: AbortedTxn) -> None:
        """Index an aborted transaction whose marker was written here."""
        if self.transaction_index is None:
            self.transaction_index = TransactionIndex(self.base_offset)
        self.transaction_index.append(aborted)

    def reset_indexes(self) -> None:
        """Drop the entries of all indexes before a rebuild."""
        self.offset_index.reset()
        self.time_index.reset()
        if self.transaction_index is not None:
            self.transaction_index.reset()

    def _indexes(self) -> tuple[tuple[AbstractIndex, str], ...]:
        return (self.offset_index, OFFSET_INDEX_SUFFIX), (self.time_index, TIME_INDEX_SUFFIX)

    def load_offset_index_cached(self) -> bool:
        """Load the offset index from the page cache; returns whether it is in memory."""
        index = self.offset_index
        if index.entries is not None:
            return True
        size = index.count * OffsetIndex.ENTRY_BYTES
        data = self.disk.open(self.path(OFFSET_INDEX_SUFFIX)).read_cached(size, 0)
        if data is None or len(data) < size:
            return False
        if not index.load(data):
            raise IndexUnreadable(self.path(OFFSET_INDEX_SUFFIX))
        return True

    def close_for_appends(self) -> None:
        """End appends to the segment: add Kafka's closing time entry and write the indexes. Raises OSError."""
        if self.max_timestamp > self.time_index.last_timestamp:
            self.load_indexes_or_forget()
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.save_indexes()

    def save_indexes(self) -> None:
        """Write new index entries to the files, without a sync. Raises OSError."""
        for index, suffix in self._indexes():
            if index.entries is None or index.saved_count == index.count:
                continue
            path = self.path(suffix)
            if index.saved_count > 0:
                self.disk.open(path).append([bytes(index.entries[index.saved_count * index.ENTRY_BYTES :])])
            else:
                self.disk.write_file_lazily(path, bytes(index.entries))
            index.saved_count = index.count
        aborted = self.transaction_index
        if aborted is not None and aborted.saved_count != aborted.count:
            assert aborted.entries is not None
            self.disk.write_file_lazily(self.path(TRANSACTION_INDEX_SUFFIX), bytes(aborted.entries))
            aborted.saved_count = aborted.count

    # ------------------------------------------------------------------------------------------------- changes

    def truncate(self, offset: Offset, position: FilePosition, config: LogConfig) -> None:
        """Truncate the file and its indexes to `position`, where the batch with `offset` begins. Raises OSError."""
        self.load_indexes_or_forget()
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        if self.transaction_index is not None:
            self.transaction_index.truncate_to(offset)
        self.open().truncate(position)
        self.size = position
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        self.index_due_position = position + config.index_interval_bytes
        if position == 0:
            self.first_timestamp = NO_TIMESTAMP

    def remove_files(self) -> None:
        """Remove the files that exist. Raises OSError."""
        for suffix in SEGMENT_SUFFIXES:
            self.disk.remove(self.path(suffix))

    def set_aside(self, aside: str) -> list[str]:
        """Rename the segment's files to have the suffix `aside`; returns the new paths. Raises OSError.

        Files that a start deletes lose their `.log` first, others get it last: so where a start finds a `.log` that it
        keeps, its indexes are there too. Readers with the file open are not affected.
        """
        suffixes = SEGMENT_SUFFIXES if aside.endswith(DELETED_SUFFIX) else SEGMENT_SUFFIXES[::-1]
        before, self.aside = [self.path(suffix) for suffix in suffixes], aside
        renamed = []
        for old, suffix in zip(before, suffixes, strict=True):
            if not self.disk.exists(old):
                continue
            try:
                self.disk.rename(old, self.path(suffix))
                renamed.append(self.path(suffix))
            except DiskFull:
                if not aside.endswith(DELETED_SUFFIX):
                    raise
                # a full disk may have no room for another name, and must not keep what would make room
                self.disk.remove(old)
        return renamed


@dataclass(frozen=True, slots=True)
class FilesRemoval:
    """A plan to remove the files that `Segment.set_aside` renamed."""

    paths: tuple[str, ...]

    def run(self, disk: Disk) -> None:
        """Remove them. Raises OSError."""
        for path in self.paths:
            disk.remove(path)
