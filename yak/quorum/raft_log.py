"""The quorum's log: Kafka's segment format on disk, everything since the last but one snapshot in memory as well.

The folder is `__cluster_metadata-0`, as Kafka's. It has segments, and snapshots named `<end offset>-<epoch>.checkpoint`
(KIP-630), of which the newest counts. A batch has one command, or control records. The log is short, since a snapshot
replaces it every `SNAPSHOT_BYTES`, so a start reads all of it and checks each batch: there is no recovery point to keep.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure, StartRefused
from yak.ids import LeaderEpoch, Offset, TopicPartition
from yak.ports.disk import Disk
from yak.protocol.record_batch import LENGTH_OVERHEAD, BatchHeader, iterate_headers, read_header
from yak.protocol.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from yak.storage.checkpoints import format_partition_metadata
from yak.storage.flush import FlushPlan
from yak.storage.log import Log
from yak.storage.log_loader import LogLoader
from yak.storage.names import PARTITION_METADATA
from yak.storage.recovery import DamagedLog
from yak.storage.segment import FilesRemoval, Segment

FOLDER: Final = f"{METADATA_TOPIC}-0"
SNAPSHOT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of committed batches after which a new snapshot replaces them (metadata.log.max.record.bytes.between.snapshots)."""
READ_BYTES_MAX: Final = 8 * 1024 * 1024
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SEGMENT_BYTES: Final = 64 * 1024 * 1024
_PREFIX: Final = struct.Struct(">qii")
"""Base offset, batch length and leader epoch: what the leader sets in a batch."""


class SnapshotId(NamedTuple):
    """The offset after the last one that a snapshot contains, and the epoch of that last one."""

    end_offset: Offset
    epoch: LeaderEpoch


NO_SNAPSHOT: Final = SnapshotId(0, -1)


@dataclass(slots=True, frozen=True)
class Entry:
    """One batch of the log."""

    base_offset: Offset
    next_offset: Offset
    epoch: LeaderEpoch
    is_control: bool
    batch: bytes


@dataclass(slots=True, frozen=True)
class SnapshotWrite:
    """A plan to write a snapshot durably, and then to remove the snapshots that it replaces."""

    folder: str
    snapshot_id: SnapshotId
    data: bytes

    def run(self, disk: Disk) -> None:
        """Write it. Raises OSError."""
        disk.write_file(snapshot_path(self.folder, self.snapshot_id), self.data)
        for name in disk.names(self.folder):
            match = _SNAPSHOT_NAME.fullmatch(name)
            if match and SnapshotId(int(match[1]), int(match[2])) < self.snapshot_id:
                disk.remove(f"{self.folder}/{name}")


class RaftLog:
    """The log of one node. Appends and truncations run in the step, and are durable after `flush_plan`."""

    def __init__(self, log: Log, snapshot_id: SnapshotId, snapshot: bytes, entries: list[Entry]) -> None:
        """Private: use `open`."""
        self._log = log
        self.snapshot_id = snapshot_id
        self.snapshot = snapshot
        """The newest snapshot's file; empty when there is none."""
        self._retained_from = snapshot_id
        """The end of an earlier snapshot, where the log begins: a follower that installed that one continues there."""
        self._entries = entries
        self.flushed_offset: Offset = log.log_end_offset
        """Everything below it is durable: a start leaves nothing unsynced."""

    @classmethod
    def open(cls, disk: Disk, directory: str, now_ms: int, *, keeps_written: bool = False) -> RaftLog:
        """Open the log in `directory`, or create it; waits for the device. Raises StartRefused, OSError.

        `keeps_written`: only the process ended, and the machine did not, so a damaged batch is no incomplete write.
        """
        folder = f"{directory}/{FOLDER}"
        if not disk.exists(f"{folder}/{PARTITION_METADATA}"):
            disk.make_directory(folder)
            disk.write_file(f"{folder}/{PARTITION_METADATA}", format_partition_metadata(METADATA_TOPIC_ID))
            disk.sync_directory(directory)
        snapshot_id = newest_snapshot(disk, folder)
        config = LogConfig(segment_bytes=_SEGMENT_BYTES)
        loader = LogLoader(
            disk,
            directory,
            FOLDER,
            TopicPartition(METADATA_TOPIC, 0),
            config,
            recovery_point=None,
            log_start_offset=None,
            was_clean=False,
            keeps_written=keeps_written,
            now_ms=now_ms,
        )
        try:
            log = loader.load().log
            entries = _read_entries(log)
            if not _continues(entries, log, snapshot_id):
                # a snapshot that came from the leader replaced the log, and the process ended before the log did
                log.lower_recovery_point(0)
                log.truncate_fully_and_start_at(snapshot_id.end_offset, now_ms)
                log.sync_truncation()
                entries = []
            # truncations and repairs of this start, or of the process before it, may not be on the device
            plan = log.flush_plan()
            log.flushed(plan, plan.run(disk))
            disk.sync_file_system(folder)
        except LogDirectoryFailure as failure:  # a full disk, for one: the log is sound
            raise failure.error from failure
        except DamagedLog as error:
            raise unreadable(folder, error) from error
        data = b"" if snapshot_id == NO_SNAPSHOT else disk.read_file(snapshot_path(folder, snapshot_id))
        return cls(log, snapshot_id, data, entries)

    # ------------------------------------------------------------------------------------------------- views

    @property
    def folder(self) -> str:
        """The folder on disk."""
        return self._log.path

    @property
    def start_offset(self) -> Offset:
        """The first offset that `read` can return."""
        return self._entries[0].base_offset if self._entries else self._log.log_end_offset

    @property
    def end_offset(self) -> Offset:
        """The log end offset."""
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last batch, or of the snapshot if no batch follows it; -1 for an empty log."""
        return self._entries[-1].epoch if self._entries else self.snapshot_id.epoch

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """(largest epoch at or below `epoch`, its end offset), from the start of the log on (KIP-595)."""
        index = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if index:
            return self._entries[index - 1].epoch, self._entries[index - 1].next_offset
        if self.snapshot_id.end_offset == self.start_offset and 0 <= self.snapshot_id.epoch <= epoch:
            return self.snapshot_id.epoch, self.snapshot_id.end_offset
        return -1, self.start_offset

    def epoch_before(self, offset: Offset) -> LeaderEpoch | None:
        """The epoch of the batch that ends at `offset`; None if there is none, or it is unknown."""
        if offset == self.snapshot_id.end_offset:
            return self.snapshot_id.epoch
        if offset == self._retained_from.end_offset:
            return self._retained_from.epoch
        index = self._index(offset)
        before = self._entries[index - 1] if index else None
        return before.epoch if before is not None and before.next_offset == offset else None

    def read(self, offset: Offset, max_bytes: int = READ_BYTES_MAX) -> bytes:
        """Batches from `offset` on, at least one if there is one, at most about `max_bytes`."""
        found: list[bytes] = []
        size = 0
        for entry in self._entries[self._index(offset) :]:
            if found and size + len(entry.batch) > max_bytes:
                break
            found.append(entry.batch)
            size += len(entry.batch)
        return b"".join(found)

    def entries(self, start: Offset, end: Offset) -> list[Entry]:
        """The batches in a range of offsets."""
        return self._entries[self._index(start) : self._index(end)]

    def first_entries(self, start: Offset, end: Offset, max_bytes: int) -> list[Entry]:
        """The first batches in a range of offsets, up to the one with which they have `max_bytes`."""
        found, size_bytes = list[Entry](), 0
        for index in range(self._index(start), self._index(end)):
            found.append(self._entries[index])
            size_bytes += len(found[-1].batch)
            if size_bytes >= max_bytes:
                break
        return found

    def _index(self, offset: Offset) -> int:
        return bisect_left(self._entries, offset, key=lambda entry: entry.base_offset)

    # ------------------------------------------------------------------------------------------------- changes

    def append(self, batch: bytes, epoch: LeaderEpoch, now_ms: int) -> Offset:
        """Append one batch as the leader of `epoch`; returns its base offset. Raises LogDirectoryFailure."""
        base_offset = self._log.append(read_header(batch), batch, epoch, now_ms)
        self._note(_PREFIX.pack(base_offset, len(batch) - LENGTH_OVERHEAD, epoch) + batch[_PREFIX.size :])
        return base_offset

    def append_fetched(self, batches: bytes, epoch: LeaderEpoch, now_ms: int) -> None:
        """Append batches as the leader of `epoch` sent them. Raises ProtocolViolation, LogDirectoryFailure."""
        before = self._log.log_end_offset
        try:
            self._log.append_as_follower(batches, now_ms, epoch)
        finally:
            end = self._log.log_end_offset
            for position, header in iterate_headers(memoryview(batches)):
                if before <= header.base_offset and header.next_offset <= end:
                    self._note(batches[position : position + header.size_bytes])

    def _note(self, batch: bytes) -> None:
        self._entries.append(_entry(read_header(batch), batch))

    def truncate_to(self, offset: Offset, now_ms: int) -> None:
        """Remove everything from `offset` on, unsynced. Raises LogDirectoryFailure."""
        del self._entries[self._index(offset) :]
        self._log.lower_recovery_point(offset)
        self._log.truncate_to(offset, now_ms)
        self.flushed_offset = min(self.flushed_offset, self._log.log_end_offset)

    @property
    def is_flushed(self) -> bool:
        """Whether everything in the log is durable, and no truncation can be undone by a power loss."""
        return self.flushed_offset == self._log.log_end_offset and self._log.unsynced_truncation is None

    def flush_plan(self) -> FlushPlan:
        """What makes a truncation durable, or else everything in the log."""
        return self._log.flush_plan() if self._log.unsynced_truncation is None else self._log.truncation_sync_plan()

    def flushed(self, plan: FlushPlan, missing: Sequence[Segment]) -> None:
        """Note that a plan ran. Raises LogDirectoryFailure."""
        if self._log.unsynced_truncation is not None:
            self._log.truncation_synced(plan, missing)
            return
        self._log.flushed(plan, missing)
        if plan.generation == self._log.generation:
            self.flushed_offset = max(self.flushed_offset, min(plan.up_to_offset, self._log.log_end_offset))

    # ------------------------------------------------------------------------------------------------- snapshots

    def write_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> SnapshotWrite:
        """The plan to write a snapshot; `snapshot_written` follows."""
        return SnapshotWrite(self._log.path, snapshot_id, data)

    def snapshot_written(
        self, plan: SnapshotWrite, now_ms: int, keep_from: Offset | None = None
    ) -> FilesRemoval | None:
        """Use a snapshot of this log's own state, and drop what the one before it covers, and not what follows `keep_from`.

        The batches between both stay, so that a follower which is only a little behind needs no snapshot. Returns the
        plan that removes the files. Raises LogDirectoryFailure.
        """
        before = self.snapshot_id.end_offset
        keep_from = before if keep_from is None else min(before, keep_from)
        epoch = self.epoch_before(keep_from)
        if epoch is not None:
            self._retained_from = SnapshotId(keep_from, epoch)
        self.snapshot_id, self.snapshot = plan.snapshot_id, plan.data
        if self._log.active.size:
            self._log.roll(now_ms)
        old = [
            segment
            for segment, following in zip(self._log.segments, self._log.segments[1:], strict=False)
            if following.base_offset <= keep_from
        ]
        del self._entries[: self._index(keep_from)]
        return self._log.remove_segments(old, now_ms) if old else None

    def contains(self, snapshot_id: SnapshotId) -> bool:
        """Whether the log continues from a snapshot: it has the batch with which the snapshot ends."""
        return self.epoch_before(snapshot_id.end_offset) == snapshot_id.epoch

    def start_at_snapshot(self, plan: SnapshotWrite, now_ms: int) -> None:
        """Replace the whole log by a snapshot of the leader, which is durable.

        Raises LogDirectoryFailure; DiskFull leaves the log unchanged.
        """
        self._log.lower_recovery_point(0)
        self._log.truncate_fully_and_start_at(plan.snapshot_id.end_offset, now_ms)
        self.snapshot_id, self.snapshot = plan.snapshot_id, plan.data
        self._retained_from = plan.snapshot_id
        self._entries = []
        self.flushed_offset = plan.snapshot_id.end_offset


def unreadable(folder: str, error: Exception) -> StartRefused:
    """The error for a log or a snapshot that is damaged."""
    return StartRefused(
        "quorum-log-unreadable",
        f"the metadata quorum's log in {folder} cannot be read",
        why=f"{error}; nothing was changed",
        try_=("yak quorum remove NODE; start it on an empty data directory; then yak quorum add NODE",),
    )


def snapshot_path(folder: str, snapshot_id: SnapshotId) -> str:
    """The path of a snapshot."""
    return f"{folder}/{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


def newest_snapshot(disk: Disk, folder: str) -> SnapshotId:
    """The newest snapshot in a folder. Each is whole, since it got its name when it was durable."""
    found = [match for name in disk.names(folder) if (match := _SNAPSHOT_NAME.fullmatch(name))]
    return max((SnapshotId(int(match[1]), int(match[2])) for match in found), default=NO_SNAPSHOT)


def _read_entries(log: Log) -> list[Entry]:
    entries = []
    for segment in log.segments:
        data = segment.open().read(segment.size, 0) if segment.size else b""
        for position, header in iterate_headers(memoryview(data)):
            entries.append(_entry(header, data[position : position + header.size_bytes]))
    return entries


def _entry(header: BatchHeader, batch: bytes) -> Entry:
    return Entry(header.base_offset, header.next_offset, header.partition_leader_epoch, header.is_control, bytes(batch))


def _continues(entries: list[Entry], log: Log, snapshot_id: SnapshotId) -> bool:
    """Whether the log has everything that follows the snapshot, and no gap before it.

    A power loss may undo a part of the log's replacement by a snapshot: then older segments come before its empty one.
    """
    start = entries[0].base_offset if entries else log.log_end_offset
    if not start <= snapshot_id.end_offset <= log.log_end_offset:
        return False
    has_gap = any(entry.next_offset != following.base_offset for entry, following in pairwise(entries))
    before = [entry for entry in entries if entry.next_offset <= snapshot_id.end_offset]
    joins = not before or (before[-1].next_offset, before[-1].epoch) == snapshot_id
    return joins and not has_gap
