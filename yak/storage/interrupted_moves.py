"""The moves between log directories that the end of a process interrupted, settled at the next start.

A move whose log still has its name is void, and the copy is removed. Otherwise a sealed copy becomes the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yak.ids import LeaderEpoch, Offset
from yak.ports.disk import Disk
from yak.storage.checkpoints import BadCheckpoint, MovedLog, parse_epochs, parse_moved
from yak.storage.log_directory import LogDirectory
from yak.storage.names import FUTURE_FOLDER_SUFFIX, LEADER_EPOCH_CHECKPOINT, NEW_LOG_MARK

if TYPE_CHECKING:
    from yak.storage.log_store import OpenReport


class InterruptedMoves:
    """The `-future` folders of all log directories."""

    def __init__(self, disk: Disk, directories: Sequence[LogDirectory], report: OpenReport) -> None:
        self._disk, self._directories, self._report = disk, directories, report

    def settle(self) -> None:
        """Give sealed copies the names of their logs, and report the other copies as leftovers.

        A copy replaces a log only if no directory has that log. While a directory cannot be read, the copy is kept. A void
        copy loses its seal at once and for good: it may outlast this start, and the log goes on without it.
        """
        named: set[str] = set()
        futures: list[tuple[LogDirectory, str]] = []
        is_certain = True
        for directory in self._directories:
            try:
                partitions, aside, _others = directory.partition_folders()
            except OSError:
                is_certain = False
                continue
            named.update(partitions)
            futures += [(directory, name) for name in aside if name.endswith(FUTURE_FOLDER_SUFFIX)]
        sealed: dict[str, list[tuple[LogDirectory, str]]] = {}
        for directory, name in futures:
            path = directory.file(name)
            try:
                moved = self._seal_of(path)
                if moved is None:
                    self._report.leftovers.append(path)
                elif moved.partition in named:
                    self._void(path)
                else:
                    sealed.setdefault(moved.partition, []).append((directory, name))
            except OSError as error:
                self._keep(directory, name, error)
        for partition, copies in sealed.items():
            self._choose(partition, copies, is_certain=is_certain)

    def _choose(self, partition: str, copies: list[tuple[LogDirectory, str]], *, is_certain: bool) -> None:
        """Let the newest copy become the log; only a directory that came back has another one."""
        try:
            ranks = [self._rank(directory.file(name)) for directory, name in copies] if is_certain else []
        except OSError:
            ranks = []
        if not ranks:
            for directory, name in copies:
                self._keep(directory, name)
            return
        newest = ranks.index(max(ranks))
        directory, name = copies[newest]
        try:
            self._complete(directory, directory.file(name), partition)
            for number, (other, void) in enumerate(copies):
                if number != newest:
                    self._void(other.file(void))
        except OSError as error:
            self._keep(directory, name, error)

    def _keep(self, directory: LogDirectory, name: str, error: OSError | None = None) -> None:
        if error is not None:
            self._report.note("error", "replica-move-failed", directory=directory.path, failure=str(error))
        self._report.note("warning", "stray-log-kept", directory=directory.path, folder=name)

    def _void(self, path: str) -> None:
        """Raises OSError."""
        self._disk.remove(f"{path}/{NEW_LOG_MARK}")
        self._disk.sync_directory(path)
        self._report.leftovers.append(path)

    def _rank(self, path: str) -> tuple[LeaderEpoch, Offset]:
        """The newest leader epoch of a sealed copy, and its end: of two copies of one log the greater is newer.

        Raises OSError.
        """
        moved = self._seal_of(path)
        try:
            epochs = parse_epochs(self._disk.read_file(f"{path}/{LEADER_EPOCH_CHECKPOINT}"))
        except BadCheckpoint:
            epochs = []
        return epochs[-1][0] if epochs else -1, -1 if moved is None else moved.recovery_point

    def _seal_of(self, path: str) -> MovedLog | None:
        """The seal of a copy; None when the copy is not complete. Raises OSError."""
        mark = f"{path}/{NEW_LOG_MARK}"
        try:
            return parse_moved(self._disk.read_file(mark)) if self._disk.exists(mark) else None
        except BadCheckpoint:
            return None

    def _complete(self, directory: LogDirectory, path: str, name: str) -> None:
        """Rename a sealed copy, once no power loss can bring the log back under its name. Raises OSError."""
        for each in self._directories:
            self._disk.sync_directory(each.path)
        self._disk.rename(path, directory.file(name))
        self._disk.sync_directory(directory.path)
        self._report.note("info", "replica-moved", partition=name, directory=directory.path)
