"""The moves between log directories that the end of a process interrupted, settled at the next start.

A move whose log still has its name is void, and the copy is removed. Otherwise a sealed copy becomes the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from yak.ids import LeaderEpoch, Offset
from yak.ports.disk import Disk
from yak.storage.checkpoints import BadCheckpoint, MovedLog, parse_epochs, parse_moved
from yak.storage.epoch_cache import UNKNOWN_EPOCH
from yak.storage.flush import topic_of_folder
from yak.storage.log_directory import LogDirectory
from yak.storage.names import FUTURE_FOLDER_SUFFIX, LEADER_EPOCH_CHECKPOINT, NEW_LOG_MARK

if TYPE_CHECKING:
    from yak.storage.log_store import OpenReport


class _Copy(NamedTuple):
    """A sealed copy of a log whose name no folder has."""

    directory: LogDirectory
    name: str
    moved: MovedLog
    latest_epoch: LeaderEpoch

    @property
    def path(self) -> str:
        """Its folder."""
        return self.directory.file(self.name)

    def rank(self) -> tuple[LeaderEpoch, Offset]:
        """Of two copies of one log the greater is newer: it has later records, or more of the same."""
        return self.latest_epoch, self.moved.recovery_point


class InterruptedMoves:
    """The `-future` folders of all log directories."""

    def __init__(self, disk: Disk, directories: Sequence[LogDirectory], report: OpenReport) -> None:
        self._disk, self._directories, self._report = disk, directories, report

    def settle(self) -> None:
        """Give sealed copies the names of their logs, and report the other copies as leftovers.

        A copy replaces a log only if no directory has that log; a folder of that name of another topic is none. While a
        directory cannot be read, the copy stays. A void copy loses its seal at once and for good: it may outlast this
        start, and the log goes on without it.
        """
        named: dict[str, list[str]] = {}
        futures: list[tuple[LogDirectory, str]] = []
        is_certain = True
        for directory in self._directories:
            try:
                partitions, aside, _others = directory.partition_folders()
            except OSError:
                is_certain = False
                continue
            for name in partitions:
                named.setdefault(name, []).append(directory.file(name))
            futures += [(directory, name) for name in aside if name.endswith(FUTURE_FOLDER_SUFFIX)]
        sealed: dict[tuple[str, uuid.UUID], list[_Copy]] = {}
        for directory, name in futures:
            path = directory.file(name)
            try:
                moved = self._seal_of(path)
                if moved is None:
                    self._report.leftovers.append(path)
                    continue
                topic_id = topic_of_folder(self._disk, path)
                logs = [topic_of_folder(self._disk, log) for log in named.get(moved.partition, ())]
                if topic_id is None:
                    self._keep(directory, name)
                elif topic_id in logs:
                    self._void(path)
                else:
                    copy = _Copy(directory, name, moved, self._latest_epoch(path))
                    sealed.setdefault((moved.partition, topic_id), []).append(copy)
            except (OSError, BadCheckpoint) as error:
                self._keep(directory, name, error)
        for copies in sealed.values():
            self._choose(copies, is_certain=is_certain)

    def _choose(self, copies: list[_Copy], *, is_certain: bool) -> None:
        """Let the newest copy of a log become the log; only a directory that came back has another one."""
        newest = max(copies, key=_Copy.rank)
        for copy in sorted(copies, key=_Copy.rank, reverse=True):
            try:
                if not is_certain:
                    self._keep(copy.directory, copy.name)
                elif copy is newest:
                    self._complete(copy)
                else:
                    self._void(copy.path)
            except OSError as error:
                self._keep(copy.directory, copy.name, error)
                is_certain = False

    def _keep(self, directory: LogDirectory, name: str, error: Exception | None = None) -> None:
        if error is not None:
            self._report.note("error", "replica-move-failed", directory=directory.path, failure=str(error))
        self._report.note("warning", "stray-log-kept", directory=directory.path, folder=name)

    def _void(self, path: str) -> None:
        """Raises OSError."""
        self._disk.remove(f"{path}/{NEW_LOG_MARK}")
        self._disk.sync_directory(path)
        self._report.leftovers.append(path)

    def _latest_epoch(self, path: str) -> LeaderEpoch:
        """The newest leader epoch of a sealed copy. Raises OSError."""
        try:
            epochs = parse_epochs(self._disk.read_file(f"{path}/{LEADER_EPOCH_CHECKPOINT}"))
        except BadCheckpoint:
            epochs = []
        return epochs[-1][0] if epochs else UNKNOWN_EPOCH

    def _seal_of(self, path: str) -> MovedLog | None:
        """The seal of a copy; None when the copy is not complete. Raises OSError, BadCheckpoint."""
        mark = f"{path}/{NEW_LOG_MARK}"
        if not self._disk.exists(mark):
            return None
        # an empty mark is that of a new log, and here a damaged seal
        return parse_moved(self._disk.read_file(mark) or b"-")

    def _complete(self, copy: _Copy) -> None:
        """Rename a sealed copy, once no power loss can bring the log back under its name. Raises OSError."""
        directory, partition = copy.directory, copy.moved.partition
        for each in self._directories:
            self._disk.sync_directory(each.path)
        self._disk.rename(copy.path, directory.file(partition))
        self._disk.sync_directory(directory.path)
        self._report.note("info", "replica-moved", partition=partition, directory=directory.path)
