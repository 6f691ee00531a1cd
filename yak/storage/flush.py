"""Making a log durable: the step plans the sync, a thread runs the plan, and the step then moves the recovery point.

A failed fsync is never retried, because the page may be marked clean and its data lost: the log directory goes offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yak.errors import LogDirectoryFailure
from yak.ids import Offset
from yak.storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_name,
)
from yak.storage.producer_state import ProducerSnapshotEntry, format_snapshot
from yak.storage.segment import IndexUnreadable, Segment

if TYPE_CHECKING:
    from yak.ports.disk import Disk
    from yak.storage.log import Log


class FlushPlan:
    """Files to sync so that everything below `up_to_offset` is durable."""

    __slots__ = ("_active", "_closed", "_directory", "_dropped_snapshots", "_epochs", "_log", "_snapshots", "_sync_names", "active_base_offset", "covers_closed", "generation",
                 "up_to_offset")  # fmt: skip

    def __init__(
        self,
        log: Log,
        up_to_offset: Offset,
        closed: list[Segment],
        active: Segment | None,
        epochs: bytes | None,
        snapshots: list[Offset],
        dropped_snapshots: list[Offset],
        *,
        sync_names: bool,
    ) -> None:
        self.up_to_offset = up_to_offset
        self.generation = log.generation
        self.active_base_offset = log.active.base_offset
        self.covers_closed = bool(closed)
        self._directory = log.directory
        self._log = log
        self._closed = closed
        self._active = active
        self._epochs = epochs
        self._snapshots = snapshots
        self._dropped_snapshots = dropped_snapshots
        self._sync_names = sync_names

    def run(self, disk: Disk) -> None:
        """Sync. Raises LogDirectoryFailure."""
        try:
            for segment in self._closed:
                self._sync_records(segment)
                sync_if_exists(disk, segment.path(OFFSET_INDEX_SUFFIX))
                sync_if_exists(disk, segment.path(TIME_INDEX_SUFFIX))
            if self._active is not None:
                self._sync_records(self._active)
            # read late: a deleted topic's folder was renamed, and its old path may belong to a new log of that name
            path = self._log.path
            for offset in self._snapshots:
                sync_if_exists(disk, f"{path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")
            for offset in self._dropped_snapshots:
                # after a truncation it may be one that was written again: the start then reads an older one
                disk.remove(f"{path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")
            if self._epochs is not None:
                disk.write_file(f"{path}/{LEADER_EPOCH_CHECKPOINT}", self._epochs)
            if self._sync_names:
                disk.sync_directory(path)
        except OSError as error:
            raise LogDirectoryFailure(self._directory, error) from error

    def _sync_records(self, segment: Segment) -> None:
        """Sync a segment, unless retention removed it in the meantime: then it need not be durable."""
        try:
            segment.open().sync()
        except FileNotFoundError:
            if segment in self._log.segments:
                raise


@dataclass(frozen=True, slots=True)
class LogClose:
    """A plan to sync a log completely, so that the next start knows its end without reading it.

    It shares the active segment, whose indexes `run` completes: no append and no step of this log may follow.
    """

    path: str
    truncation: FlushPlan | None
    snapshot: tuple[str, Sequence[ProducerSnapshotEntry]] | None
    """The path of the producer snapshot at the log end, and what it holds; None when it is written."""
    active: Segment
    flush: FlushPlan
    epochs: bytes
    """The leader epoch file, to write if it is absent; empty if there are no epochs."""

    def run(self, disk: Disk) -> None:
        """Write and sync the files. Raises OSError, LogDirectoryFailure."""
        if self.truncation is not None:
            self.truncation.run(disk)
        if self.snapshot is not None:
            path, entries = self.snapshot
            disk.write_file_lazily(path, format_snapshot(entries))
        try:
            self.active.close_for_appends()
        except IndexUnreadable:
            # an index of an impossible size: the next start rebuilds it
            self.active.reset_indexes()
        self.flush.run(disk)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            sync_if_exists(disk, self.active.path(suffix))
        epoch_file = f"{self.path}/{LEADER_EPOCH_CHECKPOINT}"
        if self.epochs and not disk.exists(epoch_file):
            disk.write_file(epoch_file, self.epochs)


def sync_if_exists(disk: Disk, path: str) -> None:
    """Sync a file, unless it was removed in the meantime together with its segment."""
    try:
        disk.open(path).sync()
    except FileNotFoundError:
        return
