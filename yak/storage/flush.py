"""Making a log durable: the step plans the sync, a thread runs the plan, and the step then moves the recovery point.

A failed fsync is never retried, because the page may be marked clean and its data lost: the log directory goes offline.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from yak.errors import directory_failure
from yak.ids import Offset
from yak.ports.disk import Disk
from yak.storage.checkpoints import BadCheckpoint, parse_partition_metadata
from yak.storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from yak.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """A plan to sync the files of a log, so that everything below `up_to_offset` is durable.

    It shares the segments with the step, and only syncs their files. A segment that is renamed or removed meanwhile keeps
    its open file. `path` may be the folder of another topic's log by then, whose files stay as they are.
    """

    directory: str
    path: str
    topic_id: uuid.UUID
    generation: int
    up_to_offset: Offset
    active_base_offset: Offset
    closed: tuple[Segment, ...] = ()
    active: Segment | None = None
    """None: only the closed segments are synced."""
    epochs: bytes | None = None
    """The leader epoch file, if it changed."""
    snapshots: tuple[Offset, ...] = ()
    dropped_snapshots: tuple[Offset, ...] = ()
    sync_names: bool = False

    def run(self, disk: Disk) -> tuple[Segment, ...]:
        """Sync; returns the segments that have no file, for `Log.flushed`. Raises LogDirectoryFailure."""
        with directory_failure(self.directory):
            missing = [segment for segment in self.segments() if not _sync_records(segment)]
            for segment in self.closed:
                sync_indexes(disk, segment)
            for offset in self.snapshots:
                sync_if_exists(disk, f"{self.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")
            has_changes = self.dropped_snapshots or self.epochs is not None
            if has_changes and topic_of_folder(disk, self.path) in (self.topic_id, None):
                self.change_files(disk, disk.write_file)
            if self.sync_names:
                disk.sync_directory(self.path)
        return tuple(missing)

    def segments(self) -> tuple[Segment, ...]:
        """The segments whose records are synced."""
        return self.closed if self.active is None else (*self.closed, self.active)

    def change_files(self, disk: Disk, write_file: Callable[[str, bytes], None]) -> None:
        """Remove and write the small files. Raises OSError."""
        for offset in self.dropped_snapshots:
            # after a truncation it may be one that was written again: the start then reads an older one
            disk.remove(f"{self.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")
        if self.epochs is not None:
            write_file(f"{self.path}/{LEADER_EPOCH_CHECKPOINT}", self.epochs)


def _sync_records(segment: Segment) -> bool:
    """Sync a segment's records; False if it has no file. The step knows whether retention or a truncation removed it."""
    try:
        segment.open().sync()
    except FileNotFoundError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class LogClose:
    """A plan to sync a log completely, so that the next start knows its end without reading it.

    It shares the active segment, whose indexes `run` completes: no append and no step of this log may follow.
    """

    path: str
    truncation: FlushPlan | None
    snapshot: tuple[str, bytes] | None
    """The path of the producer snapshot at the log end, and what it holds; None when it is written."""
    active: Segment
    flush: FlushPlan
    epochs: bytes
    """The leader epoch file, to write if it is absent; empty if there are no epochs."""

    def run(self, disk: Disk) -> None:
        """Write and sync the files. Raises OSError, LogDirectoryFailure."""
        if self.truncation is not None:
            self.truncation.run(disk)
        self._complete_active(disk)
        if missing := self.flush.run(disk):
            raise FileNotFoundError(errno.ENOENT, "a segment is gone", missing[0].path(LOG_SUFFIX))
        sync_indexes(disk, self.active)
        self._replace_missing_epochs(disk, disk.write_file)

    def write(self, disk: Disk) -> None:
        """Only write the files: one sync of the file system follows for all logs, then `check_synced`. Raises OSError."""
        self._complete_active(disk)
        self.flush.change_files(disk, disk.write_file_lazily)
        self._replace_missing_epochs(disk, disk.write_file_lazily)

    def check_synced(self) -> None:
        """Raise OSError if the sync of the file system did not make the records durable, or if a segment is gone."""
        for plan in (self.truncation, self.flush):
            for segment in () if plan is None else plan.segments():
                segment.open().check_synced()

    def _complete_active(self, disk: Disk) -> None:
        if self.snapshot is not None:
            disk.write_file_lazily(*self.snapshot)
        self.active.close_for_appends()

    def _replace_missing_epochs(self, disk: Disk, write_file: Callable[[str, bytes], None]) -> None:
        epoch_file = f"{self.path}/{LEADER_EPOCH_CHECKPOINT}"
        if self.epochs and not disk.exists(epoch_file):
            write_file(epoch_file, self.epochs)


def sync_indexes(disk: Disk, segment: Segment) -> None:
    """Sync the index files of a segment. Raises OSError."""
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        sync_if_exists(disk, segment.path(suffix))
    if segment.transaction_index is not None:
        sync_if_exists(disk, segment.path(TRANSACTION_INDEX_SUFFIX))


def sync_if_exists(disk: Disk, path: str) -> None:
    """Sync a file, unless it was removed in the meantime together with its segment."""
    with suppress(FileNotFoundError):
        disk.open(path).sync()


def topic_of_folder(disk: Disk, folder: str) -> uuid.UUID | None:
    """The topic of the log in a folder, whose name may be that of a later log by now; None if it is not known."""
    try:
        return parse_partition_metadata(disk.read_file(f"{folder}/{PARTITION_METADATA}"))
    except (FileNotFoundError, BadCheckpoint):
        return None
