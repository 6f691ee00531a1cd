"""The creation of empty logs: the step plans it, a thread runs the plan, and the step adds the logs to the store."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure, directory_failure
from yak.ids import TopicPartition
from yak.limits import NEW_LOG_BYTES_MIN
from yak.ports.disk import Disk, DiskFull
from yak.storage.checkpoints import format_partition_metadata
from yak.storage.log import Log
from yak.storage.names import NEW_LOG_MARK, PARTITION_METADATA, uncreated_name
from yak.storage.segment import Segment

FEW_LOGS: Final = 8
"""For more logs than this, one sync of the file system makes all of them durable, instead of several syncs for each."""
NewLog: TypeAlias = tuple[TopicPartition, uuid.UUID, LogConfig]
"""Partition, topic id and configuration of a log to create."""
Created: TypeAlias = dict[TopicPartition, Log | LogDirectoryFailure]


class CreationRunning(OSError):
    """Another job creates a log in the same folder: the creation may be repeated when that job has ended."""


@dataclass(frozen=True, slots=True)
class PlannedLog:
    """One log to create."""

    new: NewLog
    stray_name: str
    """The new name of a folder that is in the way: data of another topic is never deleted."""
    displaced_in: str | None
    """The directory with the folder of a log that this one replaces."""
    checkpointed_in: tuple[str, ...]
    """The directories whose checkpoints may hold offsets of an earlier log of this name."""
    is_found: bool
    """Whether the log itself is on disk already, and only the displaced folder gets another name."""
    is_marked: bool
    """Whether a mark says that the disk was full, and that the log was never created."""

    @property
    def mark(self) -> str:
        """The name of that mark."""
        return uncreated_name(self.new[1], self.new[0].partition)


@dataclass(frozen=True, slots=True)
class CreatedFolder:
    """The folder of a new log: its directory and path, and its empty segment."""

    directory: str
    path: str
    segment: Segment
    has_stale_checkpoints: bool


@dataclass(frozen=True, slots=True)
class CreationResult:
    """What a `LogCreation` did: for each planned log its folder (None if it was found) or a failure."""

    folders: dict[TopicPartition, CreatedFolder | LogDirectoryFailure | None]
    strays: dict[TopicPartition, str]
    """The new paths of the folders that were in the way."""


@dataclass(frozen=True, slots=True)
class LogCreation:
    """A plan to create logs, each in the directory with the fewest logs, if possible one with free space."""

    logs: tuple[PlannedLog, ...]
    counts: Mapping[str, int]
    """Online directory -> number of its logs."""
    now_ms: int

    def with_logs_of(self, earlier: Sequence[LogCreation]) -> LogCreation:
        """One plan for the logs of the `earlier` plans and of this one, so that one job and one sync create them."""
        return replace(self, logs=tuple(log for plan in (*earlier, self) for log in plan.logs))

    def run(self, disk: Disk) -> CreationResult:
        """Create the folders in a thread; waits for the device, only once for many logs."""
        return _Creating(self, disk).run()


class _Creating:
    """One run of a plan."""

    def __init__(self, plan: LogCreation, disk: Disk) -> None:
        self._plan, self._disk = plan, disk
        self._counts = dict(plan.counts)
        self._is_durable = len(plan.logs) <= FEW_LOGS
        self._result = CreationResult({}, {})

    def run(self) -> CreationResult:
        folders = self._result.folders
        for planned in self._plan.logs:
            topic_partition = planned.new[0]
            try:
                if planned.displaced_in is not None:
                    self._set_stray(planned, planned.displaced_in)
                folders[topic_partition] = None if planned.is_found else self._create(planned)
            except LogDirectoryFailure as failure:
                folders[topic_partition] = failure
        for unsynced in [] if self._is_durable else self._sync():
            for topic_partition, folder in folders.items():
                if isinstance(folder, CreatedFolder) and folder.directory == unsynced.directory:
                    folders[topic_partition] = unsynced
        return self._result

    def _create(self, planned: PlannedLog) -> CreatedFolder:
        directory = self._emptiest()
        try:
            path = f"{directory}/{planned.new[0]}"
            self._set_stray(planned, directory)
            folder = self._create_folder(planned, directory, path)
            # a mark that outlived this would hide a later loss of the log
            for marked in self._counts if planned.is_marked else ():
                self._disk.remove(f"{marked}/{planned.mark}")
        except OSError as error:
            if isinstance(error, DiskFull) and not planned.is_marked:
                # the metadata will name the log, so that a start without the mark would take it for a lost one
                with suppress(OSError):
                    self._disk.write_file(f"{directory}/{planned.mark}", b"")
            raise LogDirectoryFailure(directory, error) from error
        self._counts[directory] += 1
        return folder

    def _create_folder(self, planned: PlannedLog, directory: str, path: str) -> CreatedFolder:
        """Raises OSError; after DiskFull no folder remains."""
        disk, (_, topic_id, config) = self._disk, planned.new
        is_checkpointed = directory in planned.checkpointed_in
        disk.make_directory(path)
        try:
            segment = Segment.create(disk, path, 0, config, self._plan.now_ms)
            if is_checkpointed:
                disk.write_file_lazily(f"{path}/{NEW_LOG_MARK}", b"")
            write = disk.write_file if self._is_durable else disk.write_file_lazily
            write(f"{path}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
        except DiskFull:
            # otherwise each retry would turn the previous attempt's folder into a stray log
            disk.remove_tree(path)
            raise
        if self._is_durable:
            disk.sync_directory(directory)
        return CreatedFolder(directory, path, segment, is_checkpointed)

    def _set_stray(self, planned: PlannedLog, directory: str) -> None:
        """Rename the folder that is in the way, if there is one."""
        topic_partition = planned.new[0]
        path, aside = f"{directory}/{topic_partition}", f"{directory}/{planned.stray_name}"
        with directory_failure(directory):
            if not self._disk.exists(path):
                return
            try:
                self._disk.rename(path, aside)
            except DiskFull as error:
                # the creation is not repeated: the log that is in the way has left the store
                raise OSError(error.errno, error.strerror, path) from error
        self._result.strays[topic_partition] = aside

    def _emptiest(self) -> str:
        counts = self._counts
        if len(counts) == 1:
            return next(iter(counts))
        return min([each for each in counts if has_room(self._disk, each)] or counts, key=counts.__getitem__)

    def _sync(self) -> list[LogDirectoryFailure]:
        """Make all new logs durable at once; returns the directories' failures."""
        failures = []
        for directory in self._counts:
            try:
                self._disk.sync_file_system(directory)
            except OSError as error:
                failures.append(LogDirectoryFailure(directory, error))
        return failures


def has_room(disk: Disk, directory: str) -> bool:
    """Whether a log directory has space for a new log."""
    try:
        return disk.free_bytes(directory) >= NEW_LOG_BYTES_MIN
    except OSError:
        return False
