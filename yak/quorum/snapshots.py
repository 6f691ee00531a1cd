"""Snapshots of one node: written from its own commands, fetched from the leader, and served to followers (KIP-630)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from yak.core.context import Context
from yak.errors import ErrorCode, FailStop, LogDirectoryFailure, ProtocolViolation
from yak.ports.disk import Disk
from yak.protocol.topic_names import METADATA_TOPIC
from yak.quorum.election_state import may_repeat
from yak.quorum.raft_log import SnapshotId, SnapshotWrite
from yak.quorum.state_machine import StateMachine, read_snapshot, value_of, write_snapshot
from yak.quorum.transport import FETCH_SNAPSHOT, Address
from yak.quorum.voters import VoterSet

if TYPE_CHECKING:
    from yak.quorum.quorum import Quorum

PIECE_BYTES: Final = 1024 * 1024


@dataclass(slots=True, frozen=True)
class SnapshotBuild:
    """A plan to make a snapshot from the one before it and the committed batches since, and to write it."""

    write: SnapshotWrite
    base: bytes
    batches: tuple[bytes, ...]
    voters: VoterSet
    timestamp_ms: int

    def run(self, disk: Disk) -> SnapshotWrite:
        """Execute the commands on the state of the old snapshot, in this thread. Raises OSError."""
        machine = StateMachine()
        if self.base:
            machine, _voters = read_snapshot(self.base)
        for batch in self.batches:
            machine.apply(value_of(batch))
        write = replace(self.write, data=write_snapshot(machine, self.voters, self.timestamp_ms))
        write.run(disk)
        return write


@dataclass(slots=True, frozen=True)
class SnapshotInstall:
    """A plan to check and to write a snapshot that came from the leader."""

    write: SnapshotWrite

    def run(self, disk: Disk) -> tuple[StateMachine, VoterSet]:
        """Decode it, then write it. Raises ProtocolViolation, OSError."""
        found = read_snapshot(self.write.data)
        self.write.run(disk)
        return found


@dataclass(slots=True)
class _Download:
    """A snapshot that is being fetched."""

    address: Address
    snapshot_id: SnapshotId
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Served:
    """A snapshot that followers are fetching."""

    data: bytes
    last_read_ms: int


class Snapshots:
    """The snapshots of one node. `fetch_again_in` fetches from the leader after a pause in ms."""

    def __init__(self, context: Context, quorum: Quorum, fetch_again_in: Callable[[int], None]) -> None:
        self._context, self._quorum, self._fetch_again_in = context, quorum, fetch_again_in
        self._download: _Download | None = None
        self._served: dict[SnapshotId, _Served] = {}
        self._is_building = False
        self._bytes_since = 0
        """Bytes of the batches that were applied since the last snapshot."""

    @property
    def is_downloading(self) -> bool:
        """Whether a snapshot of the leader is under way, and so nothing else may be fetched."""
        return self._download is not None

    # ------------------------------------------------------------------------------------------------- written

    def applied(self, size_bytes: int) -> None:
        """Count a batch that was applied."""
        self._bytes_since += size_bytes

    def build_if_due(self) -> None:
        """Make a snapshot of what is applied, once `snapshot_bytes` of batches were applied since the last one."""
        log, end = self._quorum.log, self._quorum.applied_offset
        is_due = self._bytes_since >= self._quorum.config.snapshot_bytes and end == self._quorum.high_watermark
        if not is_due or self._is_building:
            return
        entries = log.entries(log.snapshot_id.end_offset, end)
        build = SnapshotBuild(
            log.write_snapshot(SnapshotId(end, entries[-1].epoch), b""),
            log.snapshot,
            tuple(entry.batch for entry in entries if not entry.is_control),
            self._quorum.committed_voters,
            self._context.clock.wall_ms,
        )
        self._is_building, self._bytes_since = True, 0
        self._context.jobs.run("image", build, self._on_built)

    def _on_built(self, write: Any, error: BaseException | None) -> None:
        self._is_building = False
        log = self._quorum.log
        if isinstance(error, OSError):
            # nothing depends on it: the log has everything, and the next batch tries again
            self._context.notice("warning", "quorum-snapshot-not-written", reason=str(error))
            self._bytes_since = self._quorum.config.snapshot_bytes
            return
        if error is not None:
            raise FailStop("a snapshot of the quorum") from error
        if write.snapshot_id.end_offset <= log.snapshot_id.end_offset:
            return  # the leader's came meanwhile
        try:
            removal = log.snapshot_written(write, self._context.clock.wall_ms, self._first_served())
        except LogDirectoryFailure as failure:
            # the snapshot counts, and the next one drops what this one could not
            if not may_repeat(self._context, log.folder, failure):
                return
            self._context.notice("warning", "quorum-log-not-trimmed", reason=str(failure))
            removal = None
        self._context.notice("info", "quorum-snapshot-written", offset=write.snapshot_id.end_offset)
        if removal is not None:
            self._context.jobs.run("delete", removal, lambda _result, _error: None)
        self._quorum.flush()

    # ------------------------------------------------------------------------------------------------- fetched

    def forget_download(self) -> None:
        """Give up what is being fetched: the leader has changed."""
        self._download = None

    def download(self, address: Address, snapshot_id: SnapshotId) -> None:
        """Fetch a snapshot of the leader, piece by piece."""
        if snapshot_id.end_offset <= self._quorum.high_watermark:
            self._context.notice("warning", "quorum-snapshot-refused", leader=address.node_id, offset=snapshot_id[0])
            self._fetch_again_in(PAUSE_MS)
            return
        self._download = _Download(address, snapshot_id)
        self._fetch_piece(self._download)

    def _fetch_piece(self, download: _Download) -> None:
        config = self._quorum.config
        partition = {
            "partition": 0,
            "current_leader_epoch": self._quorum.epoch,
            "snapshot_id": download.snapshot_id._asdict(),
            "position": len(download.data),
            "replica_directory_id": config.directory_id,
        }
        fields = {
            "cluster_id": config.cluster_id,
            "replica_id": config.node_id,
            "max_bytes": PIECE_BYTES,
            "topics": [{"name": METADATA_TOPIC, "partitions": [partition]}],
        }
        self._quorum.send(download.address, FETCH_SNAPSHOT, fields, partial(self._on_piece, download))

    def _on_piece(self, download: _Download, response: Any | None) -> None:
        if self._download is not download:
            return
        piece = response.topics[0].partitions[0] if response is not None and response.topics else None
        if piece is None or piece.error_code != ErrorCode.none or piece.position != len(download.data):
            # begin again with a fetch, which names the leader's present snapshot
            self._download = None
            self._fetch_again_in(PAUSE_MS)
            return
        self._quorum.leader_answered()
        download.data += bytes(piece.unaligned_records or b"")
        if len(download.data) < piece.size:
            self._fetch_piece(download)
            return
        write = self._quorum.log.write_snapshot(download.snapshot_id, bytes(download.data))
        self._context.jobs.run("image", SnapshotInstall(write), partial(self._on_installed, download, write))

    def _on_installed(self, download: _Download, write: SnapshotWrite, found: Any, error: BaseException | None) -> None:
        is_current = self._download is download
        if is_current:
            self._download = None
        if isinstance(error, ProtocolViolation | OSError):
            self._quorum.say_refused("quorum-snapshot-unusable", reason=str(error))
            if is_current:
                self._fetch_again_in(PAUSE_MS)
            return
        if error is not None:
            raise FailStop("a snapshot of the quorum") from error
        # The file is there, and a restart would begin with it: it counts even if the leader has changed meanwhile. All of
        # it is committed, so no leader can diverge from it. But a node that has fetched farther from the new leader, or
        # leads, keeps its log: what follows the snapshot there may be committed by this node's fetches.
        log = self._quorum.log
        if write.snapshot_id.end_offset > self._quorum.high_watermark and not log.contains(write.snapshot_id):
            try:
                log.start_at_snapshot(write, self._context.clock.wall_ms)
            except LogDirectoryFailure as failure:
                if may_repeat(self._context, log.folder, failure):
                    self._quorum.say_refused("quorum-snapshot-unusable", reason=str(failure))
                    self._fetch_again_in(PAUSE_MS)
                return
            self._bytes_since = 0
            self._context.notice("info", "quorum-snapshot-installed", offset=write.snapshot_id.end_offset)
            self._quorum.installed(*found)
        self._quorum.flush()
        self._fetch_again_in(0)

    # ------------------------------------------------------------------------------------------------- served

    def piece(self, request: Any) -> tuple[ErrorCode, bytes, int]:
        """The bytes for a FetchSnapshot of a follower, or an error; and the size of that snapshot.

        A snapshot that is being fetched stays, with the log behind it, though newer ones replace it: otherwise a slow
        follower of a busy quorum begins again with each of them (Kafka's KafkaMetadataLog keeps snapshots likewise).
        """
        requested, log, now_ms = request.topics[0].partitions[0], self._quorum.log, self._context.clock.now_ms
        self._forget_served(now_ms)
        snapshot_id = SnapshotId(requested.snapshot_id.end_offset, requested.snapshot_id.epoch)
        if snapshot_id == log.snapshot_id and log.snapshot:
            self._served.setdefault(snapshot_id, _Served(log.snapshot, now_ms))
        served = self._served.get(snapshot_id)
        if served is None:
            return ErrorCode.snapshot_not_found, b"", len(log.snapshot)
        served.last_read_ms = now_ms
        size_bytes = len(served.data)
        if not 0 <= requested.position < size_bytes:
            return ErrorCode.position_out_of_range, b"", size_bytes
        most = min(PIECE_BYTES, max(1, request.max_bytes))
        return ErrorCode.none, served.data[requested.position : requested.position + most], size_bytes

    def _first_served(self) -> int | None:
        """The end offset of the oldest snapshot that is being fetched."""
        self._forget_served(self._context.clock.now_ms)
        return min((each.end_offset for each in self._served), default=None)

    def _forget_served(self, now_ms: int) -> None:
        """Forget the snapshots whose followers are gone, or have long fetched on from their ends."""
        for each in [each for each, served in self._served.items() if now_ms - served.last_read_ms > CACHED_MS]:
            del self._served[each]


CACHED_MS: Final = 30_000
"""So long after its last piece a snapshot stays, and the log behind it: its follower installs it, and fetches on there."""
PAUSE_MS: Final = 100
"""Before the next fetch from a leader whose snapshot was no use."""
