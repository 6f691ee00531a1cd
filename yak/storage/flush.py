"""Making a log durable: the step plans the sync, a thread runs it, and the step then moves the recovery point.

A failed fsync is never retried, because the page may be marked clean and its data lost: the log directory goes offline.
"""

from __future__ import annotations

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
from yak.storage.segment import Segment

if TYPE_CHECKING:
    from yak.ports.disk import Disk
    from yak.storage.log import Log


class FlushPlan:
    """Files to sync so that everything below `up_to_offset` is durable."""

    __slots__ = ("_active", "_closed", "_directory", "_disk", "_dropped_snapshots", "_epochs", "_log", "_snapshots", "_sync_names", "active_base_offset", "covers_closed", "generation",
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
        self._disk: Disk = log.disk
        self._directory = log.directory
        self._log = log
        self._closed = closed
        self._active = active
        self._epochs = epochs
        self._snapshots = snapshots
        self._dropped_snapshots = dropped_snapshots
        self._sync_names = sync_names

    def run(self) -> None:
        """Sync, in a thread. Raises LogDirectoryFailure."""
        disk = self._disk
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


def sync_if_exists(disk: Disk, path: str) -> None:
    """Sync a file, unless it was removed in the meantime together with its segment."""
    try:
        disk.open(path).sync()
    except FileNotFoundError:
        return
