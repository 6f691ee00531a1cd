"""Moves of replicas between the log directories of this broker (AlterReplicaLogDirs, KIP-113), one at a time.

1. Jobs copy the log into a `-future` folder of the target directory, piece by piece, while the log serves.
2. When little is missing, the partition is handed over: until the end of the move nothing is written to the log. Appends
   of the leader wait, the follower fetches nothing, flushes, retention and compaction leave the log out. Those under way
   end first. A job completes, syncs and seals the copy.
3. The step renames the folder of the log, a job syncs that, and the step gives the copy the log's name and lets the log
   continue there (`yak.storage.log_move` says why no end of the process loses anything). The old files are removed
   `file.delete.delay.ms` later, because reads may use them.

Kafka's future log also catches up piece by piece, and replaces the log while appends wait
(`Partition.maybeReplaceCurrentWithFutureReplica`). Unlike there, a restart ends a move.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from yak.core.context import Context
from yak.core.events import Plan
from yak.errors import LogDirectoryFailure
from yak.ids import NodeId, Offset, TopicPartition
from yak.limits import COMPACTION_SPARE_BYTES, MOVE_PIECE_BYTES
from yak.partitions.maintenance import Maintenance
from yak.ports.disk import DiskFull
from yak.replication.flusher import Flusher
from yak.replication.log_failures import MOVE, LogFailures
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.replication.throttle import Throttle
from yak.storage.log import Log
from yak.storage.log_directory import FolderRemoval
from yak.storage.log_move import CopyPosition, Folders, FutureRemoval, move_seal, records_copy, segment_copy
from yak.storage.log_store import LogStore
from yak.storage.names import FUTURE_FOLDER_SUFFIX
from yak.storage.segment import Segment

PIECE_GAP_MS = 1
"""Pause after each piece, and between two checks whether the log is idle."""
THROTTLED_GAP_MS = 100
"""Pause between two checks whether `replica.alter.log.dirs.io.max.bytes.per.second` lets a move go on."""


class FutureReplica(NamedTuple):
    """A replica in the directory that it moves to, for DescribeLogDirs."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int


class _Move:
    """The move under way, and what of the log is copied."""

    def __init__(self, partition: Partition, log: Log, folders: Folders, now_ms: int) -> None:
        self.partition, self.log, self.folders, self.began_ms = partition, log, folders, now_ms
        self.generation = log.generation
        self.copied: dict[Segment, CopyPosition] = {}
        self.whole: set[Segment] = set()
        """Closed segments of which all files are copied and synced."""
        self.is_aside = False
        """Whether the log has lost its name: the move can no longer be cancelled."""

    def is_log_changed(self) -> bool:
        """Whether the log was truncated since its copy began."""
        return self.log.generation != self.generation

    def next_piece(self) -> tuple[Segment, Plan] | None:
        """What to copy next; None when so little is missing that the partition can be handed over."""
        log = self.log
        if self.is_log_changed():
            self.generation = log.generation
            self.copied.clear()
            self.whole.clear()
        for segment in log.segments:
            if segment in self.whole:
                continue
            copied = self.copied.get(segment)
            missing = segment.size - (0 if copied is None else copied.position)
            if missing > (MOVE_PIECE_BYTES if segment is log.active else 0):
                return segment, records_copy(log, self.folders, segment, copied)
            if segment is not log.active:
                return segment, segment_copy(self.folders, segment)
        return None

    def note(self, segment: Segment, result: CopyPosition | None) -> int:
        """A piece is copied, unless the log was truncated, or compaction or retention replaced the segment meanwhile.

        Returns the bytes of its records.
        """
        before = self.copied.get(segment)
        if self.is_log_changed() or segment not in self.log.segments:
            self.copied.pop(segment, None)
        elif result is None:
            self.whole.add(segment)
        else:
            self.copied[segment] = result
            return result.position - (0 if before is None else before.position)
        return 0

    def described(self) -> FutureReplica:
        """How far the copy is."""
        copied = [each for segment in self.log.segments if (each := self.copied.get(segment)) is not None]
        end = max((each.next_offset for each in copied), default=self.log.log_start_offset)
        lag = self.log.log_end_offset - end
        return FutureReplica(self.partition.topic_partition, sum(each.position for each in copied), lag)


class LogMoves:
    """The moves that were requested, and the one under way."""

    def __init__(
        self,
        context: Context,
        node_id: NodeId,
        partitions: Mapping[TopicPartition, Partition],
        log_store: LogStore,
        log_failures: LogFailures,
        flusher: Flusher,
        maintenance: Maintenance,
        emit: EmitPartitionEvent,
    ) -> None:
        self._context, self._partitions, self._log_store = context, partitions, log_store
        self._log_failures, self._flusher, self._maintenance = log_failures, flusher, maintenance
        self._emit = emit
        self.throttle = Throttle(context, node_id, "replica.alter.log.dirs.io.max.bytes.per.second")
        self._wanted: dict[Partition, str] = {}
        """Partition -> the directory to move it to; the first is under way."""
        self._move: _Move | None = None

    def request(self, partition: Partition, directory: str) -> None:
        """Move a replica to a directory, in the background; to its own directory ends a move of it."""
        log, move = partition.log, self._move
        assert log is not None
        is_leaving = move is not None and move.partition is partition and move.is_aside
        if log.directory == directory and not is_leaving:
            self._wanted.pop(partition, None)
        else:
            self._wanted[partition] = directory
        self._begin_soon()

    def futures(self, directory: str) -> list[FutureReplica]:
        """The replicas that move to a directory, or are about to."""
        move, found = self._move, []
        for partition, target in self._wanted.items():
            if target != directory or partition.log is None:
                continue
            if move is not None and move.partition is partition and move.folders.new_directory == directory:
                found.append(move.described())
            else:
                lag = partition.log.log_end_offset - partition.log.log_start_offset
                found.append(FutureReplica(partition.topic_partition, 0, lag))
        return found

    # ------------------------------------------------------------------------------------------------------ the copy

    def _begin_soon(self) -> None:
        if self._move is None and self._wanted:
            self._context.after(self, 0, self._begin)

    def _begin(self) -> None:
        """Begin the first of the wanted moves that is possible."""
        while self._wanted and not self._context.is_stopping:
            partition, directory = next(iter(self._wanted.items()))
            log = partition.log
            if log is None or log.directory == directory or self._partitions.get(log.topic_partition) is not partition:
                del self._wanted[partition]
                continue
            future = self._log_store.aside_path(log.topic_partition, directory, FUTURE_FOLDER_SUFFIX)
            folders = Folders(log.directory, log.path, directory, future)
            move = self._move = _Move(partition, log, folders, self._context.clock.now_ms)
            self._notice(move, "info", "replica-move-started", bytes=log.size_bytes)
            if obstacle := self._obstacle(move):
                self._end(move, "warning", "replica-move-failed", failure=obstacle)
            else:
                self._resume(move)
            return

    def _obstacle(self, move: _Move) -> str:
        """Why the target directory cannot take the log, else ""; one that cannot say fails at the first piece."""
        disk, directory = self._log_store.disk, move.folders.new_directory
        if disk.exists(f"{directory}/{move.log.topic_partition}"):
            return "the target directory has a folder of that name, of an earlier topic"
        try:
            free_bytes = disk.free_bytes(directory)
        except OSError:
            return ""
        has_room = free_bytes >= move.log.size_bytes + COMPACTION_SPARE_BYTES
        return "" if has_room else "the target directory has too little free space"

    def _resume(self, move: _Move) -> None:
        """Copy the next piece, or hand over."""
        if self._is_over(move):
            self._cancel(move)
            return
        if self.throttle.is_full():
            self._context.after(self, THROTTLED_GAP_MS, partial(self._resume, move))
            return
        piece = move.next_piece()
        if piece is None:
            move.partition.is_handed_over = True
            self._seal_when_idle(move)
            return
        segment, plan = piece

        def copied(result: Any, error: BaseException | None) -> None:
            is_current = segment in move.log.segments and not move.is_log_changed()
            if isinstance(error, LogDirectoryFailure) or (error is not None and is_current):
                self._failed(move, error)
                return
            if error is None:
                self.throttle.took(move.note(segment, result))
            self._context.after(self, PIECE_GAP_MS, partial(self._resume, move))

        self._context.jobs.run("move", plan, copied)

    def _is_over(self, move: _Move) -> bool:
        """Whether the move is no longer wanted or possible."""
        return (
            self._context.is_stopping
            or self._wanted.get(move.partition) != move.folders.new_directory
            or not self._has_log(move)
            or all(each.path != move.folders.new_directory for each in self._log_store.online())
        )

    def _has_log(self, move: _Move) -> bool:
        """Whether the partition is on this broker, and serves the log that moves."""
        partition = move.partition
        is_known = self._partitions.get(partition.topic_partition) is partition
        return is_known and partition.log is move.log is self._log_store.logs.get(partition.topic_partition)

    # -------------------------------------------------------------------------------------------------- the hand-over

    def _seal_when_idle(self, move: _Move) -> None:
        """Complete the copy, once no job writes to the log. No new one begins."""
        partition, log = move.partition, move.log
        if self._is_over(move):
            self._cancel(move)
        elif move.is_log_changed() or move.next_piece() is not None:
            # a truncation was under way: copy again, and serve meanwhile
            self._release(move)
            self._resume(move)
        elif partition.flush_running or partition.truncation is not None:
            self._context.after(self, PIECE_GAP_MS, partial(self._seal_when_idle, move))
        else:
            try:
                plan = move_seal(log, move.folders, move.copied.get(log.active), partition.high_watermark)
            except LogDirectoryFailure as failure:
                self._failed(move, failure)
                return
            # appends wait, so the next move waits for the throttle in place of this piece
            self.throttle.took(plan.records.size - plan.records.copied.position)
            self._context.jobs.run("move", plan, partial(self._sealed, move, log.log_start_offset))

    def _sealed(self, move: _Move, log_start: Offset, _result: object, error: BaseException | None) -> None:
        if error is not None:
            self._failed(move, error)
        elif self._is_over(move):
            self._cancel(move)
        elif move.log.log_start_offset != log_start:
            # DeleteRecords: the seal must have the new log start offset
            move.copied[move.log.active] = CopyPosition(move.log.active.size, move.log.log_end_offset)
            self._seal_when_idle(move)
        else:
            try:
                removal = self._log_store.set_aside(move.log)
            except LogDirectoryFailure as failure:
                # the copy stays: should the rename have happened, the next start finds no other
                self._failed(move, failure, keeps_copy=not isinstance(failure.error, DiskFull))
                return
            move.is_aside = True
            self._context.jobs.run("move", removal, partial(self._switch, move))

    def _switch(self, move: _Move, _result: object, error: BaseException | None) -> None:
        """No power loss brings the old folder back: the log continues in the copy."""
        context, log, directory = self._context, move.log, move.folders.new_directory
        if not self._has_log(move):
            # offline: the next start completes the move; deleted: it has no use
            is_offline = log.topic_partition in self._log_store.unavailable
            self._end(move, "info", "replica-move-cancelled", reason=_GONE, keeps_copy=is_offline)
            return
        if error is not None:
            self._failed(move, error, keeps_copy=True)
            return
        old = FolderRemoval(log.directory, log.path, keeps_files=False)
        try:
            named = self._log_store.move(log, directory, move.folders.new_path)
        except LogDirectoryFailure as failure:
            self._log_failures.write_failed(MOVE, failure)
            self._put_back(move, failure)
            return
        context.jobs.run("move", named, self._log_failures.files_changed)
        self._maintenance.delete_later(old, log.config.file_delete_delay_ms)
        self._maintenance.checkpoint_soon()
        took_ms = context.clock.now_ms - move.began_ms
        self._end(move, "info", "replica-moved", bytes=log.size_bytes, took_ms=took_ms, keeps_copy=True)

    def _put_back(self, move: _Move, reason: LogDirectoryFailure) -> None:
        """The copy could not be renamed: give the log its name back, durably, before it is written again."""

        def done(result: object, error: BaseException | None) -> None:
            self._log_failures.files_changed(result, error)
            may_be_named = not isinstance(reason.error, DiskFull)
            self._end(move, "warning", "replica-move-failed", failure=str(reason), keeps_copy=may_be_named)

        try:
            named = self._log_store.put_back(move.log)
        except LogDirectoryFailure as failure:
            done(None, failure)
            return
        self._context.jobs.run("move", named, done)

    # ------------------------------------------------------------------------------------------------------- the end

    def _failed(self, move: _Move, error: BaseException, *, keeps_copy: bool = False) -> None:
        if isinstance(error, FileNotFoundError) and not self._has_log(move):
            self._cancel(move)
            return
        if isinstance(error, LogDirectoryFailure):
            self._log_failures.write_failed(MOVE, error)
        self._end(move, "warning", "replica-move-failed", failure=str(error), keeps_copy=keeps_copy)

    def _cancel(self, move: _Move) -> None:
        reason = _GONE if not self._has_log(move) else "another request or the stop of the broker ended it"
        self._end(move, "info", "replica-move-cancelled", reason=reason)

    def _end(
        self, move: _Move, level: Literal["info", "warning"], event: str, *, keeps_copy: bool = False, **fields: object
    ) -> None:
        """The move is over: the log may be written again."""
        self._notice(move, level, event, **fields)
        if self._wanted.get(move.partition) == move.folders.new_directory:
            del self._wanted[move.partition]
        self._move = None
        if not keeps_copy and not self._context.is_stopping:
            self._context.jobs.run("delete", FutureRemoval(move.folders.new_path), self._log_failures.files_changed)
        self._release(move)
        self._begin_soon()

    def _release(self, move: _Move) -> None:
        """Let appends, fetches, flushes and the rest go on after a hand-over."""
        partition = move.partition
        if not partition.is_handed_over:
            return
        partition.is_handed_over = False
        if partition.log is None:
            return
        if partition.pending_appends is not None:
            partition.pending_appends.resume()
        self._flusher.want(partition)
        self._maintenance.retain(partition)
        self._emit(partition, PartitionEvent.LOG_MOVED)

    def _notice(self, move: _Move, level: Literal["info", "warning"], event: str, **fields: object) -> None:
        folders = move.folders
        self._context.notice(
            level,
            event,
            partition=str(move.partition.topic_partition),
            from_directory=folders.directory,
            to_directory=folders.new_directory,
            **fields,
        )


_GONE = "its log is deleted or offline"
