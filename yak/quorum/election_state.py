"""The part of a quorum node's state that must survive a crash: its epoch and its vote (Kafka's `quorum-state` file)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from yak.core.context import Context
from yak.core.events import DisksLost
from yak.errors import FailStop, LogDirectoryFailure, StartRefused
from yak.ids import LeaderEpoch, NodeId
from yak.ports.disk import Disk, DiskFull
from yak.storage.checkpoints import id_from_text, id_to_text

_DATA_VERSION = 1


@dataclass(slots=True, frozen=True)
class ElectionState:
    """The newest epoch that this node knows, and its vote in it. A node votes at most once in an epoch.

    The leader is not part of it: a node that restarts finds the leader again, and a leader that restarts has resigned.
    """

    leader_epoch: LeaderEpoch = 0
    voted_id: NodeId = -1
    voted_directory_id: uuid.UUID | None = None

    def encode(self) -> bytes:
        """The file's content, in the JSON of Kafka's QuorumStateData, version 1."""
        fields = {
            "leaderId": -1,
            "leaderEpoch": self.leader_epoch,
            "votedId": self.voted_id,
            "votedDirectoryId": id_to_text(self.voted_directory_id or uuid.UUID(int=0)),
            "data_version": _DATA_VERSION,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def read(cls, disk: Disk, path: str) -> ElectionState:
        """Read the file, which a new node does not have. Raises StartRefused if it is unreadable, OSError."""
        if not disk.exists(path):
            return cls()
        data = disk.read_file(path)
        try:
            fields = json.loads(data)
            if fields["data_version"] != _DATA_VERSION:
                raise ValueError(f"data_version {fields['data_version']}, and this YAK reads {_DATA_VERSION}")
            directory_id = id_from_text(fields["votedDirectoryId"])
            return cls(int(fields["leaderEpoch"]), int(fields["votedId"]), directory_id if directory_id.int else None)
        except (ValueError, KeyError, TypeError) as error:
            raise StartRefused(
                "quorum-state-unreadable",
                f"{path} cannot be read",
                why=f"{error}; without it this node could vote twice in one epoch, so nothing was changed",
                try_=(
                    "yak quorum remove NODE, an empty data directory, and yak quorum add NODE",
                    "restore the file from a backup only if the node has not voted since",
                ),
            ) from error


@dataclass(slots=True, frozen=True)
class StateWrite:
    """A plan to replace the file durably."""

    path: str
    state: ElectionState

    def run(self, disk: Disk) -> None:
        """Write it. Raises OSError."""
        disk.write_file(self.path, self.state.encode())


def disk_lost(path: str, error: BaseException) -> DisksLost:
    """The end of a node that cannot keep its promises: its process stops at once, as with its last log directory."""
    if not isinstance(error, OSError | LogDirectoryFailure):
        raise FailStop("the metadata quorum's files") from error
    return DisksLost(path, str(error))


def may_repeat(context: Context, folder: str, failure: LogDirectoryFailure) -> bool:
    """Whether a write to the log changed nothing, for want of room. A disk that failed ends the node: what it wrote may be in
    the file, and later entries would come behind it.
    """
    is_full = isinstance(failure.error, DiskFull)
    if not is_full:
        context.emit(disk_lost(folder, failure))
    return is_full


class DurableElection:
    """The election state of a running node, and what waits until its newest form is durable."""

    def __init__(self, context: Context, path: str, state: ElectionState) -> None:
        self._context, self._path = context, path
        self.state = state
        self._durable = state
        self._is_writing = False
        self._waiting: list[Callable[[], None]] = []

    def set(self, state: ElectionState) -> None:
        """Change the state, and write it in a job."""
        self.state = state
        if state != self._durable and not self._is_writing:
            self._write()

    def when_durable(self, action: Callable[[], None]) -> None:
        """Call `action` when the present state is durable: at once if it is."""
        if self._is_writing:
            self._waiting.append(action)
        else:
            action()

    def _write(self) -> None:
        written, self._is_writing = self.state, True

        def done(_result: Any, error: BaseException | None) -> None:
            if error is not None:
                self._context.emit(disk_lost(self._path, error))
                return
            self._is_writing, self._durable = False, written
            if self.state != written:
                self._write()
                return
            waiting, self._waiting = self._waiting, []
            for action in waiting:
                action()

        self._context.jobs.run("quorum", StateWrite(self._path, written), done)
