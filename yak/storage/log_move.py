"""The move of a log to another log directory of this broker (KIP-113): the plans of its jobs, and the switch in memory.

The copy grows in a folder `<topic>-<partition>.<id>-future` while the log serves. `MoveSeal` completes it while nothing
is written to the log, syncs it, and writes the seal: a `NEW_LOG_MARK` with the log's offsets. Then the folder of the log
is renamed and its directory synced, and only then the copy gets the log's name. So a start finds the log under its name,
or else a sealed copy that holds all of it (`yak.storage.interrupted_moves`). Never are both named as the log.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

from yak.errors import LogDirectoryFailure, ProtocolViolation
from yak.ids import FilePosition, LeaderEpoch, Offset
from yak.limits import MOVE_PIECE_BYTES
from yak.ports.disk import Disk
from yak.protocol.record_batch import HEADER_BYTES, BatchHeader, Buffer, compute_crc, read_header
from yak.storage.checkpoints import MovedLog, format_moved, format_partition_metadata
from yak.storage.epoch_cache import UNKNOWN_EPOCH, EpochCache
from yak.storage.log import Log
from yak.storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    NEW_LOG_MARK,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from yak.storage.segment import Segment


@contextmanager
def _failing(directory: str) -> Iterator[None]:
    """Turn an OSError into the LogDirectoryFailure of a directory, except that a file is gone: the step knows why."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LogDirectoryFailure(directory, error) from error


@dataclass(frozen=True, slots=True)
class Folders:
    """The folder of a log and that of its copy, each with its log directory."""

    directory: str
    path: str
    new_directory: str
    new_path: str


class CopyPosition(NamedTuple):
    """How far a segment is copied: a position in its file, and the offset that follows there."""

    position: FilePosition
    next_offset: Offset


@dataclass(frozen=True, slots=True)
class RecordsCopy:
    """A plan to copy the next batches of a segment, about `MOVE_PIECE_BYTES`, from the end of what is copied.

    The segment's file is only appended to while the log's generation stays the same and the segment is in the log. The
    step drops the copy otherwise.
    """

    folders: Folders
    base_offset: Offset
    copied: CopyPosition
    size: FilePosition
    epochs: tuple[tuple[LeaderEpoch, Offset], ...]
    may_have_gaps: bool

    def run(self, disk: Disk) -> CopyPosition:
        """Raises LogDirectoryFailure, FileNotFoundError, and ProtocolViolation for a damaged batch."""
        name, folders = offset_name(self.base_offset) + LOG_SUFFIX, self.folders
        try:
            data, copied = self._read(disk, f"{folders.path}/{name}")
        except ProtocolViolation:
            # a disk may return wrong bytes once
            data, copied = self._read(disk, f"{folders.path}/{name}")
        with _failing(folders.new_directory):
            target = f"{folders.new_path}/{name}"
            if not self.copied.position:
                disk.make_directory(folders.new_path)
                disk.remove(target)
            file = disk.open(target, create=True)
            if file.size() != self.copied.position:
                raise OSError(errno.EIO, "the copy has another size than was written", target)
            file.append((data,))
        return copied

    def _read(self, disk: Disk, path: str) -> tuple[Buffer, CopyPosition]:
        position, expected = self.copied
        left = self.size - position
        with _failing(self.folders.directory):
            file = disk.open(path)
            data = memoryview(file.read(min(MOVE_PIECE_BYTES, left), position))
            if len(data) >= HEADER_BYTES and len(data) < (need := read_header(data).size_bytes) <= left:
                data = memoryview(file.read(need, position))
        at, epochs = 0, EpochCache(list(self.epochs))
        while at + HEADER_BYTES <= len(data):
            header = read_header(data, at)
            if at and at + header.size_bytes > len(data) and position + len(data) < self.size:
                break
            if reason := self._damage(data, at, header, expected, epochs):
                raise ProtocolViolation(f"{path} at {position + at}: {reason}")
            at, expected = at + header.size_bytes, header.next_offset
        if not at:
            raise ProtocolViolation(f"{path} at {position}: no complete batch")
        return data[:at], CopyPosition(position + at, expected)

    def _damage(self, data: Buffer, at: int, header: BatchHeader, expected: Offset, epochs: EpochCache) -> str:
        """How a batch differs from the appended one, else "". The CRC covers neither the offset nor the leader epoch."""
        if not HEADER_BYTES <= header.size_bytes <= len(data) - at:
            return "not a complete batch"
        if header.base_offset < expected or (header.base_offset != expected and not self.may_have_gaps):
            return f"offset {header.base_offset}, expected {expected}"
        if compute_crc(data, at, header.size_bytes) != header.crc:
            return "the CRC-32C does not match"
        epoch, known = header.partition_leader_epoch, epochs.epoch_for(header.base_offset)
        if UNKNOWN_EPOCH not in (epoch, known) and epoch != known:
            return f"leader epoch {epoch}, but the epoch cache says {known}"
        return ""


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """A plan to copy the indexes of a segment, and the producer snapshot at its start, and to sync all its files."""

    folders: Folders
    base_offset: Offset
    size: FilePosition
    aborted: bytes
    """The transaction index."""

    def run(self, disk: Disk) -> None:
        """Raises LogDirectoryFailure."""
        folders, name = self.folders, offset_name(self.base_offset)
        with _failing(folders.new_directory):
            disk.make_directory(folders.new_path)
            file = disk.open(f"{folders.new_path}/{name}{LOG_SUFFIX}", create=True)
            if file.size() != self.size:
                raise OSError(errno.EIO, "the copy is not complete", file.path)
            file.sync()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX):
            _copy_file(disk, folders, name + suffix)
        if self.aborted:
            _write(disk, folders, name + TRANSACTION_INDEX_SUFFIX, self.aborted)
        else:
            _remove(disk, folders, name + TRANSACTION_INDEX_SUFFIX)


@dataclass(frozen=True, slots=True)
class MoveSeal:
    """A plan to complete the copy of a log that nothing changes meanwhile, to make it durable, and to seal it."""

    records: RecordsCopy
    """The rest of the active segment."""
    active: SegmentCopy
    names: frozenset[str]
    """The files of the log's segments, and its producer snapshots."""
    snapshots: tuple[Offset, ...]
    metadata: bytes
    epochs: bytes
    moved: bytes

    def run(self, disk: Disk) -> None:
        """Raises LogDirectoryFailure, FileNotFoundError, and ProtocolViolation for a damaged batch."""
        folders, records = self.active.folders, self.records
        while records.copied.position < records.size:
            records = replace(records, copied=records.run(disk))
        self.active.run(disk)
        for offset in self.snapshots:
            _copy_file(disk, folders, f"{offset_name(offset)}{SNAPSHOT_SUFFIX}")
        _write(disk, folders, LEADER_EPOCH_CHECKPOINT, self.epochs)
        _write(disk, folders, PARTITION_METADATA, self.metadata)
        with _failing(folders.new_directory):
            for name in disk.names(folders.new_path):
                if name not in self.names:
                    disk.remove(f"{folders.new_path}/{name}")
            disk.sync_directory(folders.new_path)
            disk.write_file(f"{folders.new_path}/{NEW_LOG_MARK}", self.moved)
            disk.sync_directory(folders.new_directory)


@dataclass(frozen=True, slots=True)
class FutureRemoval:
    """A plan to remove the copy of a move that ended without it; a copy in removal is not sealed."""

    path: str

    def run(self, disk: Disk) -> None:
        """Raises OSError."""
        disk.remove(f"{self.path}/{NEW_LOG_MARK}")
        if disk.exists(self.path):
            # else a power loss could bring a seal back beside that of a later move
            disk.sync_directory(self.path)
        disk.remove_tree(self.path)


def _copy_file(disk: Disk, folders: Folders, name: str) -> None:
    """Copy and sync a small file; without it the copy has none: the start writes indexes and snapshots again."""
    with _failing(folders.directory):
        try:
            data = disk.read_file(f"{folders.path}/{name}")
        except FileNotFoundError:
            _remove(disk, folders, name)
            return
    _write(disk, folders, name, data)


def _remove(disk: Disk, folders: Folders, name: str) -> None:
    """Remove what an earlier copy of a segment left, before the log was truncated or compacted."""
    with _failing(folders.new_directory):
        disk.remove(f"{folders.new_path}/{name}")


def _write(disk: Disk, folders: Folders, name: str, data: bytes) -> None:
    with _failing(folders.new_directory):
        disk.write_file_lazily(f"{folders.new_path}/{name}", data)
        disk.open(f"{folders.new_path}/{name}").sync()


# ------------------------------------------------------------------------------------------------- plans from a log


def records_copy(log: Log, folders: Folders, segment: Segment, copied: CopyPosition | None) -> RecordsCopy:
    """The plan for the next batches of a segment."""
    start, epochs = CopyPosition(0, segment.base_offset), tuple(log.epochs.entries)
    return RecordsCopy(folders, segment.base_offset, copied or start, segment.size, epochs, log.may_have_gaps)


def segment_copy(folders: Folders, segment: Segment) -> SegmentCopy:
    """The plan for the other files of a segment whose records are copied."""
    index = segment.transaction_index
    aborted = b"" if index is None or index.entries is None else bytes(index.entries)
    return SegmentCopy(folders, segment.base_offset, segment.size, aborted)


def move_seal(log: Log, folders: Folders, copied: CopyPosition | None, high_watermark: Offset) -> MoveSeal:
    """The plan to complete the copy, after the indexes of the active segment are written. Raises LogDirectoryFailure."""
    active = log.active
    with _failing(log.directory):
        active.save_indexes()
    bases = {segment.base_offset for segment in log.segments}
    names = {offset_name(base) + suffix for base in bases for suffix in SEGMENT_SUFFIXES}
    names.update(offset_name(offset) + SNAPSHOT_SUFFIX for offset in log.snapshot_offsets)
    moved = MovedLog(
        str(log.topic_partition), log.log_end_offset, log.log_start_offset, high_watermark, log.cleaned_offset
    )
    return MoveSeal(
        records_copy(log, folders, active, copied),
        segment_copy(folders, active),
        frozenset((*names, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)),
        tuple(offset for offset in log.snapshot_offsets if offset not in bases),
        format_partition_metadata(log.topic_id),
        log.epochs.to_bytes(),
        format_moved(moved),
    )


def switch(log: Log, directory: str, path: str) -> None:
    """Let a log continue in the folder of its complete copy, all of which is durable.

    Reads under way keep the old segments, whose files stay for file.delete.delay.ms.
    """
    segments = [copy(segment) for segment in log.segments]
    for segment in segments:
        segment.folder, segment.file = path, None
    log.segments, log.active = segments, segments[-1]
    log.directory, log.path = directory, path
    log.recovery_point, log.unsynced_truncation = log.log_end_offset, None
    log.positions.clear()
    # the epochs may have changed since the seal; the next flush writes them
    log.has_stale_checkpoints = log.names_changed = log.epochs.dirty = True
    log.update_config(log.config)
