"""All logs of a node, over one or several log directories: Kafka's LogManager.scala.

Opening examines every directory before it changes any. A directory that fails, then or later, goes offline with its logs
until restart; the other directories stay online.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure, StartRefused, directory_failure
from yak.ids import BrokerEpoch, NodeId, Offset, TopicPartition
from yak.ports.disk import Disk, DiskFull
from yak.storage.epoch_cache import EpochCache
from yak.storage.interrupted_moves import InterruptedMoves
from yak.storage.log import Log
from yak.storage.log_creation import (
    FEW_LOGS,
    Created,
    CreatedFolder,
    CreationResult,
    CreationRunning,
    LogCreation,
    NewLog,
    PlannedLog,
    has_room,
)
from yak.storage.log_directory import (
    CheckpointDraft,
    CheckpointResult,
    Checkpoints,
    ClusterIdPlan,
    DirectoryCheckpoint,
    DirectoryClose,
    FolderRemoval,
    LogDirectory,
    MarksSync,
    claim_all,
    note_older,
    other_cluster,
)
from yak.storage.log_loader import ALL_FLUSHED, NO_TOPIC_ID, LoadedLog, LogLoader
from yak.storage.log_move import switch
from yak.storage.names import (
    DELETE_FOLDER_SUFFIX,
    FUTURE_FOLDER_SUFFIX,
    STRAY_FOLDER_SUFFIX,
    UNCREATED_SUFFIX,
    parse_partition_folder,
    set_aside_name,
    uncreated_name,
)
from yak.storage.producer_state import ProducerState
from yak.storage.recovery import DamagedLog


@dataclass(slots=True)
class StoreEvent:
    """One log event about what opening found or did."""

    level: Literal["info", "warning", "error"]
    event: str
    fields: dict[str, object]


@dataclass(slots=True)
class OpenReport:
    """What `LogStore.open` found and did. `leftovers` are the folders whose deletion a stop interrupted.

    `lossy`: the machine rebooted without a clean stop, and records that were not synced one by one may be lost.
    """

    was_clean: bool = True
    lossy: bool = False
    logs: int = 0
    truncated_bytes: int = 0
    events: list[StoreEvent] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    on_event: Callable[[StoreEvent], None] | None = None
    """Gets the events after the start; without it they are added to `events`."""

    def note(self, level: Literal["info", "warning", "error"], event: str, **fields: object) -> None:
        """Add or report an event."""
        (self.on_event or self.events.append)(StoreEvent(level, event, fields))


@dataclass(slots=True)
class DirectoryUsage:
    """One log directory for DescribeLogDirs: sizes in bytes (-1 offline), its logs, and why it is offline."""

    path: str
    total_bytes: int
    usable_bytes: int
    logs: list[Log]
    failure: OSError | None


@dataclass(slots=True)
class Unavailable:
    """A log that stays as it was found: its directory, its topic (the zero id: unknown), and the reason.

    The three offsets are a damaged log's entries in its directory's checkpoints, which keep them. `short` is the log as
    far as it goes, if only its end is missing: the last replica in sync continues with it.
    """

    directory: str
    topic_id: uuid.UUID
    reason: str
    recovery_point: Offset | None = None
    log_start_offset: Offset | None = None
    cleaned_offset: Offset | None = None
    short: Log | None = None


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """A plan to write the checkpoint files of the log directories."""

    directories: tuple[DirectoryCheckpoint, ...]

    def run(self, disk: Disk) -> list[CheckpointResult]:
        """Write the files in a thread; returns a result for each directory."""
        return [directory.run(disk) for directory in self.directories]


@dataclass(frozen=True, slots=True)
class ClosePlan:
    """A plan to close the log directories."""

    directories: tuple[DirectoryClose, ...]

    def run(self, disk: Disk) -> None:
        """Close each. Raises the first LogDirectoryFailure after it closed the other directories."""
        failures = []
        for directory in self.directories:
            try:
                directory.run(disk)
            except LogDirectoryFailure as failure:
                failures.append(failure)
        if failures:
            raise failures[0]


class LogStore:
    """The logs of this node: `logs` can be served; `unavailable` are on a disk but damaged or offline.

    `high_watermarks` are the checkpointed ones of the logs on disk, as of the last stop.
    """

    def __init__(
        self,
        disk: Disk,
        directories: list[LogDirectory],
        node_id: NodeId,
        make_uuid: Callable[[], uuid.UUID],
        now_ms: int,
    ) -> None:
        self.disk = disk
        self.node_id = node_id
        self.directories = directories
        self.logs: dict[TopicPartition, Log] = {}
        self.rivals: dict[TopicPartition, Log] = {}
        """Second logs of a name, of another topic: it was deleted and created again while its directory was offline."""
        self.unavailable: dict[TopicPartition, Unavailable] = {}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        self.report = OpenReport()
        self.few_logs = FEW_LOGS
        """More logs than this are closed with one sync of the file system. The simulator lowers it."""
        self._has_unlisted = False
        """Whether a directory failed before its logs were known: it may hold any log that is in no other one."""
        self._creating: set[TopicPartition] = set()
        self._uncreated: set[str] = set()
        """The marks of logs that a full disk left uncreated."""
        self._make_uuid = make_uuid
        self._opened_ms = now_ms

    @classmethod
    def open(
        cls,
        disk: Disk,
        directories: Sequence[str],
        node_id: NodeId,
        make_uuid: Callable[[], uuid.UUID],
        now_ms: int,
        config_for: Callable[[str], LogConfig],
        progress: Callable[[int, int], None] | None = None,
        *,
        cluster_id: str | None = None,
        kernel_boot_id: str | None = None,
        is_replicated: Callable[[TopicPartition], bool] = lambda _topic_partition: False,
        last_epoch: Callable[[], BrokerEpoch] = lambda: 0,
    ) -> LogStore:
        """Lock, check and load everything; blocks, before the broker serves.

        `progress` is called with (logs done, total logs). `kernel_boot_id` differs after each boot of the machine; with
        None no reboot is detected. `is_replicated`: whether a partition has other replicas. `last_epoch`: the broker's
        last epoch in its metadata. Raises StartRefused, with nothing touched when the directories belong to another node
        or cluster.
        """
        found = [LogDirectory(disk, path.rstrip("/") or "/") for path in dict.fromkeys(directories)]
        claim_all(found, node_id, make_uuid, cluster_id)
        store = cls(disk, found, node_id, make_uuid, now_ms)
        try:
            store._load_all(config_for, progress, kernel_boot_id, is_replicated, last_epoch)
        except StartRefused:
            store.leave()
            raise
        except BaseException:
            store.release()
            raise
        return store

    # --------------------------------------------------------------------------------------------------- opening

    def _load_all(
        self,
        config_for: Callable[[str], LogConfig],
        progress: Callable[[int, int], None] | None,
        kernel_boot_id: str | None,
        is_replicated: Callable[[TopicPartition], bool],
        last_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        """Load every partition of every directory into the self. Raises StartRefused when no directory can be used."""
        work: list[tuple[LogDirectory, Checkpoints, list[str]]] = []
        InterruptedMoves(self.disk, self.directories, self.report).settle()
        for directory in self.directories:
            try:
                if directory.failure is not None:
                    raise directory.failure
                if kernel_boot_id is not None:
                    directory.take_boot_mark(kernel_boot_id)
                directory.take_clean_mark()
                checkpoints = Checkpoints(directory, self.report.note)
                folders = self._folders(directory)
                self._check_reboot(directory, folders, config_for)
                work.append((directory, checkpoints, folders))
            except OSError as error:
                self._fail(directory, error)
            self.report.was_clean &= directory.clean_epoch is not None
        for older in note_older(self.online(), last_epoch):
            self.report.lossy = True
            self.report.note("warning", "data-directory-older", **older)
        total = sum(len(folders) for _, _, folders in work)
        done = 0
        for directory, checkpoints, folders in work:
            for folder in folders:
                try:
                    self._load_one(directory, checkpoints, folder, config_for, is_replicated)
                except (OSError, LogDirectoryFailure) as error:
                    self._fail(directory, error, folders)
                    break
                done += 1
                if progress is not None:
                    progress(done, total)
            if folders and not checkpoints.was_clean and directory.failure is None:
                self._end_recovery(directory, checkpoints, folders)
        self.report.logs = len(self.logs)
        if not self.online():
            first = self.directories[0]
            raise StartRefused(
                "data-dir-failed",
                f"no data directory can be read: {first.path}: {first.failure}",
                why="each of them failed when it was opened",
                try_=(f"ls -l {first.path}", "check the system log for disk errors"),
            )

    def _end_recovery(self, directory: LogDirectory, saved: Checkpoints, folders: Sequence[str]) -> None:
        """Sync truncations of recovery or of the previous process, so that no power loss undoes them behind new records.

        Records may soon replace those that a log lacks. So no checkpoint may have offsets beyond the log's end.
        """
        shorter = [
            (where, log.recovery_point)
            for where, log in self.logs.items()
            if log.directory == directory.path
            and not log.has_stale_checkpoints
            and log.log_end_offset < max(saved.recovery_points.get(where, 0), saved.high_watermarks.get(where, 0))
        ]
        try:
            self.disk.sync_file_system(directory.path)
            if shorter:
                plan = directory.lowering_plan(shorter)
                plan.run(self.disk)
                directory.lowered(plan)
        except (OSError, LogDirectoryFailure) as error:
            # a full disk must not end the start: the next checkpoint has the offsets
            if not isinstance(error.__cause__, DiskFull):
                self._fail(directory, error, folders)

    def _check_reboot(
        self, directory: LogDirectory, folders: Sequence[str], config_for: Callable[[str], LogConfig]
    ) -> None:
        """After the machine went down uncleanly, only logs with `flush.messages=1` are known to be complete."""
        if not directory.machine_restarted:
            return
        topic_partitions = (parse_partition_folder(folder) for folder in folders)
        if all(config_for(each.topic).flush_messages == 1 for each in topic_partitions if each is not None):
            directory.renew_boot_mark()
            return
        self.report.lossy = True
        self.report.note(
            "warning",
            "machine-restarted",
            directory=directory.path,
            reason="the last shutdown was not clean: records that were not synced may be lost, so this broker leaves every "
            "ISR until it has caught up",
        )

    def _folders(self, directory: LogDirectory) -> list[str]:
        partitions, aside, others = directory.partition_folders()
        self._uncreated.update(name for name in self.disk.names(directory.path) if name.endswith(UNCREATED_SUFFIX))
        for name in others:
            self.report.note("warning", "folder-ignored", directory=directory.path, folder=name)
        for name in aside:
            if name.endswith(DELETE_FOLDER_SUFFIX):
                self.report.leftovers.append(directory.file(name))
            elif not name.endswith(FUTURE_FOLDER_SUFFIX):
                self.report.note("warning", "stray-log-kept", directory=directory.path, folder=name)
        return partitions

    def _load_one(
        self,
        directory: LogDirectory,
        checkpoints: Checkpoints,
        folder: str,
        config_for: Callable[[str], LogConfig],
        is_replicated: Callable[[TopicPartition], bool],
    ) -> None:
        topic_partition = parse_partition_folder(folder)
        assert topic_partition is not None
        known = checkpoints.recovery_points.get(topic_partition)
        recovery_point = ALL_FLUSHED if checkpoints.all_flushed else known
        loader = LogLoader(
            self.disk,
            directory.path,
            folder,
            topic_partition,
            config_for(topic_partition.topic),
            recovery_point=recovery_point,
            log_start_offset=checkpoints.log_starts.get(topic_partition),
            cleaned_offset=checkpoints.cleaned_offset(topic_partition),
            was_clean=checkpoints.was_clean,
            closed_bytes=checkpoints.sizes.get(topic_partition),
            keeps_written=directory.machine_stayed_up and is_replicated(topic_partition),
            high_watermark=checkpoints.high_watermarks.get(topic_partition, 0),
            is_replicated=is_replicated(topic_partition),
            now_ms=self._opened_ms,
        )
        try:
            loaded = loader.load()
        except DamagedLog as damaged:
            self.unavailable[topic_partition] = Unavailable(
                directory.path,
                loader.topic_id,
                str(damaged),
                recovery_point,
                checkpoints.log_starts.get(topic_partition),
                checkpoints.cleaned_offset(topic_partition),
            )
            self.report.note(
                "error", "log-damaged", partition=folder, directory=directory.path, reason=str(damaged), served=False
            )
            return
        finally:
            # of two folders of one name, which are of different topics, the metadata decides later which one counts
            known = self.high_watermarks.get(topic_partition, loader.high_watermark)
            self.high_watermarks[topic_partition] = min(known, loader.high_watermark)
        is_withheld = loaded.is_short and is_replicated(topic_partition)
        if is_withheld:
            # as the leader it would have the other replicas truncate what it lacks: first it has to leave the ISR
            log = loaded.log
            points = recovery_point, log.log_start_offset, log.cleaned_offset
            self.unavailable[topic_partition] = Unavailable(
                directory.path, log.topic_id, loaded.damage[-1], *points, short=log
            )
        else:
            self.adopt(loaded.log)
        self._report_repairs(loaded, folder, is_served=not is_withheld)

    def _report_repairs(self, loaded: LoadedLog, folder: str, *, is_served: bool) -> None:
        for warning in loaded.warnings:
            self.report.note("warning", "log-repaired", partition=folder, what=warning)
        for damage in loaded.damage:
            self.report.note("error", "log-damaged", partition=folder, reason=damage, served=is_served)
        recovered = loaded.recovered
        if recovered is None:
            return
        self.report.truncated_bytes += recovered.truncated_bytes
        if recovered.truncated_bytes:
            self.report.note(
                "warning",
                "log-tail-truncated",
                partition=folder,
                truncated_bytes=recovered.truncated_bytes,
                log_end_offset=loaded.log.log_end_offset,
                reason=recovered.truncated_because,
            )

    def _fail(
        self, directory: LogDirectory, error: OSError | LogDirectoryFailure, folders: Sequence[str] | None = None
    ) -> None:
        if isinstance(error, LogDirectoryFailure):
            error = error.error
        self.directory_failed(directory.path, error)
        if folders is None:
            try:
                folders = directory.partition_folders()[0]
            except OSError:
                self._has_unlisted, folders = True, ()
        for folder in folders:
            topic_partition = parse_partition_folder(folder)
            if topic_partition is not None and topic_partition not in self.unavailable:
                self.unavailable[topic_partition] = Unavailable(directory.path, NO_TOPIC_ID, directory.offline_reason)
        self.report.note("error", "log-directory-offline", directory=directory.path, error=str(error))

    # -------------------------------------------------------------------------------------------------- identity

    @property
    def cluster_id(self) -> str | None:
        """The cluster this data belongs to; None before it is known."""
        return next((directory.cluster_id for directory in self.directories if directory.cluster_id), None)

    def directory_ids(self) -> list[uuid.UUID]:
        """The ids of the directories that are online."""
        return [directory.directory_id for directory in self.online() if directory.directory_id is not None]

    def cluster_id_plan(self, cluster_id: str) -> ClusterIdPlan:
        """A plan to write the cluster's id into each `meta.properties` that lacks it, for `cluster_id_written`.

        Raises StartRefused when the data belongs to another cluster.
        """
        online = self.online() if cluster_id else []
        for directory in online:
            if directory.cluster_id not in (None, cluster_id):
                raise other_cluster(directory.path, directory.cluster_id, cluster_id)
        lacking = [directory for directory in online if directory.cluster_id is None]
        return ClusterIdPlan(cluster_id, {each.path: each.meta_properties(cluster_id) for each in lacking})

    def cluster_id_written(self, plan: ClusterIdPlan, failures: Sequence[LogDirectoryFailure]) -> None:
        """The files of a plan are written, except in the directories that failed."""
        failed = {failure.directory for failure in failures}
        for path in plan.files:
            if path not in failed:
                self.directory(path).cluster_id = plan.cluster_id

    def renew_boot_marks(self) -> None:
        """Write the boot marks once the cluster knows of the loss. Blocks on the device. Raises LogDirectoryFailure."""
        for directory in self.online():
            with directory_failure(directory.path):
                directory.renew_boot_mark()

    def leave(self) -> None:
        """End a start that is refused: leave the clean shutdown marks as they were found, and release all locks."""
        for directory in self.directories:
            with contextlib.suppress(OSError):
                directory.put_back_clean_mark()
        self.release()

    def release(self) -> None:
        """Release all locks; the store must not be used afterwards."""
        for directory in self.directories:
            directory.release()

    # ------------------------------------------------------------------------------------------------------ logs

    def creation_plan(
        self, wanted: Sequence[NewLog], *, is_new: bool = True, replaces_lost: bool = False
    ) -> tuple[LogCreation, Created]:
        """A plan to create these logs, for `adopt_created`; and what needs no disk call: logs that exist, and refusals.

        Data of another topic under the same name becomes a stray folder and is never deleted; with `replaces_lost` also
        the log itself, which is lost or damaged. Otherwise a log that is unavailable, or that may exist in an offline
        directory (unless it `is_new`), is refused: an empty log would hide its data, and two of them end the next start.
        """
        planned: list[PlannedLog] = []
        decided: Created = {}
        for new in wanted:
            try:
                log = self.log_or_plan(new, is_new=is_new, replaces_lost=replaces_lost)
            except LogDirectoryFailure as failure:
                decided[new[0]] = failure
                continue
            if isinstance(log, Log):
                decided[new[0]] = log
            else:
                planned.append(log)
                self._creating.add(new[0])
        counts = dict.fromkeys((directory.path for directory in self.online()), 0)
        if len(counts) > 1:
            for each in self.logs.values():
                if each.directory in counts:
                    counts[each.directory] += 1
        return LogCreation(tuple(planned), counts, self._opened_ms), decided

    def log_or_plan(self, new: NewLog, *, is_new: bool, replaces_lost: bool) -> Log | PlannedLog:
        """The log, if it exists, or the plan to create it. Raises LogDirectoryFailure."""
        topic_partition, topic_id, _config = new
        if not self.online():
            first = self.directories[0]
            raise LogDirectoryFailure(first.path, first.failure or OSError(errno.EIO, "offline"))
        if self.is_creating(topic_partition):
            raise LogDirectoryFailure(
                self.online()[0].path, CreationRunning(errno.EBUSY, "its folder is being created")
            )
        displaced_in = None
        hidden = self.unavailable.get(topic_partition)
        if replaces_lost and hidden is not None and self.directory(hidden.directory).failure is None:
            del self.unavailable[topic_partition]
            displaced_in, hidden = hidden.directory, None
        if hidden is not None and hidden.topic_id in (topic_id, NO_TOPIC_ID):
            raise LogDirectoryFailure(hidden.directory, OSError(errno.EIO, hidden.reason))
        existing = self.logs.get(topic_partition)
        if existing is not None and existing.topic_id == topic_id:
            return existing
        offline = next((directory for directory in self.directories if directory.failure is not None), None)
        if existing is None and offline is not None and (not is_new or (replaces_lost and self._has_unlisted)):
            raise LogDirectoryFailure(
                offline.path, OSError(errno.EIO, "the directory is offline and may hold this log")
            )
        is_found = False
        if existing is not None:
            displaced_in = existing.directory
            del self.logs[topic_partition]
            rival = self.rivals.pop(topic_partition, None)
            if rival is not None and rival.topic_id == topic_id and self.directory(rival.directory).failure is None:
                self.adopt(rival)
                is_found = True
        return PlannedLog(
            new,
            set_aside_name(topic_partition, self._make_uuid(), STRAY_FOLDER_SUFFIX),
            displaced_in,
            tuple(
                each.path
                for each in self.online()
                if each.is_checkpointed(topic_partition) or (hidden is not None and hidden.directory == each.path)
            ),
            is_found,
            uncreated_name(topic_id, topic_partition.partition) in self._uncreated,
        )

    def is_creating(self, topic_partition: TopicPartition) -> bool:
        """Whether a plan to create this log is under way. Of two such plans, one would set aside the other's log."""
        return topic_partition in self._creating

    def adopt_created(self, plan: LogCreation, result: CreationResult) -> Created:
        """Add the logs that a plan created to the store; returns the result for each log of the plan.

        The result may be that of several plans in one job.
        """
        created: Created = {}
        for planned in plan.logs:
            topic_partition = planned.new[0]
            self._creating.discard(topic_partition)
            folder = result.folders[topic_partition]
            if topic_partition in result.strays:
                if folder is not None:
                    self.unavailable.pop(topic_partition, None)
                aside = result.strays[topic_partition]
                self.report.note("warning", "stray-log-kept", partition=str(topic_partition), moved_to=aside)
            if folder is None:
                created[topic_partition] = self._found(topic_partition)
            elif isinstance(folder, LogDirectoryFailure):
                created[topic_partition] = folder
                if isinstance(folder.error, DiskFull):
                    self._uncreated.add(planned.mark)
            else:
                self._uncreated.discard(planned.mark)
                created[topic_partition] = log = self._new_log(planned.new, folder)
                self.adopt(log)
        return created

    def _found(self, topic_partition: TopicPartition) -> Log | LogDirectoryFailure:
        """The log that was on disk already, unless its directory failed during the job."""
        log = self.logs.get(topic_partition)
        if log is not None:
            return log
        held = self.unavailable[topic_partition]
        return LogDirectoryFailure(held.directory, OSError(errno.EIO, held.reason))

    def _new_log(self, new: NewLog, folder: CreatedFolder) -> Log:
        topic_partition, topic_id, config = new
        log = Log(
            self.disk,
            folder.directory,
            folder.path,
            topic_partition,
            topic_id,
            config,
            [folder.segment],
            epochs=EpochCache(),
            producers=ProducerState(),
            snapshot_offsets=[],
            log_start_offset=0,
            log_end_offset=0,
            recovery_point=0,
        )
        log.has_stale_checkpoints = folder.has_stale_checkpoints
        return log

    def create(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, config: LogConfig, *, is_new: bool = True
    ) -> Log:
        """Create one log at the start, or find it on disk; waits for the device. Raises LogDirectoryFailure."""
        plan, decided = self.creation_plan([(topic_partition, topic_id, config)], is_new=is_new)
        log = (decided | self.adopt_created(plan, plan.run(self.disk)))[topic_partition]
        if isinstance(log, LogDirectoryFailure):
            raise log
        return log

    def adopt(self, log: Log) -> None:
        """Add a log to the store; one that names no topic gives way to another of its name."""
        held = self.logs.get(log.topic_partition)
        if held is None or held.topic_id == NO_TOPIC_ID:
            self.logs[log.topic_partition] = log
        elif log.topic_id != NO_TOPIC_ID:
            self.rivals[log.topic_partition] = log

    def settle(self, log: Log) -> bool:
        """Whether a log that a thread created may be used: not when its directory failed in the meantime."""
        directory = self.directory(log.directory)
        if directory.failure is None:
            return True
        if self.logs.get(log.topic_partition) is log:
            self.make_unavailable(log, directory.offline_reason)
        return False

    def delete(self, log: Log, *, keep: bool = False) -> FolderRemoval:
        """Rename a log's folder; the returned plan deletes the folder, or with `keep` only syncs its new name (stray).

        Raises LogDirectoryFailure.
        """
        if self.logs.get(log.topic_partition) is log:
            del self.logs[log.topic_partition]
        self.high_watermarks.pop(log.topic_partition, None)
        suffix = STRAY_FOLDER_SUFFIX if keep else DELETE_FOLDER_SUFFIX
        path = self.aside_path(log.topic_partition, log.directory, suffix)
        try:
            self._rename(log, path)
        except LogDirectoryFailure as failure:
            if keep or not isinstance(failure.error, DiskFull):
                raise
            # a full disk may have no room for another name: the records go first
            log.drop_records()
            self._rename(log, path)
        return FolderRemoval(log.directory, log.path, keep)

    def stored(self) -> list[tuple[TopicPartition, uuid.UUID]]:
        """The partition and topic of each log, also of those that are damaged or second ones of their names."""
        held: tuple[Mapping[TopicPartition, Log | Unavailable], ...] = (self.logs, self.rivals, self.unavailable)
        return [(topic_partition, log.topic_id) for logs in held for topic_partition, log in logs.items()]

    def delete_unserved(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, *, keep: bool = False
    ) -> FolderRemoval | None:
        """As `delete`, a damaged log, or the second one of its name; None if no directory that is online has it."""
        held: Log | Unavailable | None = self.rivals.get(topic_partition)
        if held is None or held.topic_id != topic_id:
            held = self.unavailable.get(topic_partition)
        if held is None or held.topic_id != topic_id or self.directory(held.directory).failure is not None:
            return None
        if self.is_creating(topic_partition):
            # the folder of this name may be that of the new log by now
            return None
        (self.rivals if isinstance(held, Log) else self.unavailable).pop(topic_partition)
        aside = self.aside_path(topic_partition, held.directory, STRAY_FOLDER_SUFFIX if keep else DELETE_FOLDER_SUFFIX)
        with directory_failure(held.directory):
            self.disk.rename(f"{held.directory}/{topic_partition}", aside)
        return FolderRemoval(held.directory, aside, keep)

    def _rename(self, log: Log, path: str) -> None:
        with directory_failure(log.directory):
            self.disk.rename(log.path, path)
        log.path = path
        for segment in log.segments:
            segment.folder = path

    # -------------------------------------------------------------------------------- moves between directories

    def aside_path(self, topic_partition: TopicPartition, directory: str, suffix: str) -> str:
        """A path for a folder of a log that does not have the log's name."""
        return f"{directory}/{set_aside_name(topic_partition, self._make_uuid(), suffix)}"

    def set_aside(self, log: Log) -> FolderRemoval:
        """Take its name from a log that continues in a sealed copy: the next start deletes the folder.

        The log can be read, not written. The returned plan syncs the directory. Raises LogDirectoryFailure.
        """
        with directory_failure(log.directory):
            for segment in log.segments:
                # open now: a thread could not open the file by its old name after the rename
                segment.open()
        self._rename(log, self.aside_path(log.topic_partition, log.directory, DELETE_FOLDER_SUFFIX))
        return FolderRemoval(log.directory, log.path, keeps_files=True)

    def put_back(self, log: Log) -> FolderRemoval:
        """Undo `set_aside`; the returned plan syncs the directory. Raises LogDirectoryFailure."""
        self._rename(log, f"{log.directory}/{log.topic_partition}")
        return FolderRemoval(log.directory, log.path, keeps_files=True)

    def move(self, log: Log, directory: str, future: str) -> FolderRemoval:
        """Let a log that was set aside continue in its sealed copy, under its name.

        The returned plan syncs the directory. Raises LogDirectoryFailure.
        """
        path = f"{directory}/{log.topic_partition}"
        with directory_failure(directory):
            if (failed := self.directory(directory).failure) is not None:
                raise failed
            self.disk.rename(future, path)
        switch(log, directory, path)
        return FolderRemoval(directory, path, keeps_files=True)

    # ----------------------------------------------------------------------------------------------- directories

    def online(self) -> list[LogDirectory]:
        """Directories that have not failed."""
        return [directory for directory in self.directories if directory.failure is None]

    def has_room(self) -> bool:
        """Whether some directory has space for a new log."""
        return any(has_room(self.disk, directory.path) for directory in self.online())

    def directory(self, path: str) -> LogDirectory:
        """The log directory of this path."""
        return next(directory for directory in self.directories if directory.path == path)

    def directory_failed(self, path: str, error: OSError | None = None) -> list[Log]:
        """Take a directory offline until restart; returns the logs in it, none the second time."""
        directory = self.directory(path)
        if directory.failure is not None:
            return []
        directory.failure = error or OSError(errno.EIO, "Input/output error")
        lost = [log for log in self.logs.values() if log.directory == path]
        for log in lost:
            self.make_unavailable(log, directory.offline_reason)
        return lost

    def make_unavailable(self, log: Log, reason: str) -> None:
        """Stop serving a log; its files stay unchanged, and its offsets stay known."""
        log.generation += 1
        points = log.recovery_point, log.log_start_offset, log.cleaned_offset
        del self.logs[log.topic_partition]
        self.unavailable[log.topic_partition] = Unavailable(log.directory, log.topic_id, reason, *points)

    def take_short(self, topic_partition: TopicPartition, topic_id: uuid.UUID) -> Log | None:
        """Serve a log whose end is missing as far as it goes; None if there is no such log. Raises LogDirectoryFailure."""
        held = self.unavailable.get(topic_partition)
        if held is None or held.short is None or held.topic_id != topic_id or self.is_creating(topic_partition):
            return None
        if self.directory(held.directory).failure is not None:
            return None
        held.short.mark_offsets(self.high_watermarks.get(topic_partition, 0))
        del self.unavailable[topic_partition]
        self.adopt(held.short)
        return held.short

    def lacks_end_only(self, topic_partition: TopicPartition) -> bool:
        """Whether a log that is withheld has all that it had up to its end."""
        held = self.unavailable.get(topic_partition)
        if held is None or held.short is None or held.short.damage_at_load is None:
            return False
        return held.short.damage_at_load.offset == held.short.log_end_offset > held.short.log_start_offset

    def is_lost(self, topic_partition: TopicPartition) -> bool:
        """Whether an unusable log is lost or damaged, not merely in a directory that is offline."""
        held = self.unavailable.get(topic_partition)
        return not self._has_unlisted if held is None else self.directory(held.directory).failure is None

    def may_hold(self, topic_partition: TopicPartition) -> bool:
        """Whether a log that is not served may be on a disk all the same."""
        return self._has_unlisted or topic_partition in self.unavailable

    def is_uncreated(self, topic_partition: TopicPartition, topic_id: uuid.UUID) -> bool:
        """Whether a missing log was never created, because the disk was full."""
        return uncreated_name(topic_id, topic_partition.partition) in self._uncreated

    def keep_uncreated_marks(self, marks: set[str]) -> None:
        """Remove the other marks: their logs exist, or their partitions have left this broker."""
        for directory in self.online():
            directory.remove_uncreated_marks(self._uncreated - marks)
        self._uncreated &= marks

    def usage(self) -> list[DirectoryUsage]:
        """Each directory with its sizes and logs."""
        found = []
        for directory in self.directories:
            path, total, usable, failure = directory.path, -1, -1, directory.failure
            if failure is None:
                try:
                    total, usable = self.disk.total_bytes(path), self.disk.free_bytes(path)
                except OSError as error:
                    failure = error
            mine = [log for log in list(self.logs.values()) if log.directory == path]
            found.append(DirectoryUsage(path, total, usable, mine, failure))
        return found

    # ----------------------------------------------------------------------------------------------- checkpoints

    def begin_checkpoint(self) -> None:
        """Begin a checkpoint of all online directories. Raises LogDirectoryFailure."""
        for directory in self.online():
            directory.begin_checkpoint()

    def add_to_checkpoint(self, topic_partition: TopicPartition, high_watermark: Offset) -> None:
        """Add a log to the checkpoint that was begun; nothing if it was deleted meanwhile."""
        log = self.logs.get(topic_partition)
        draft = None if log is None else self.directory(log.directory).draft
        if log is not None and draft is not None:
            _draft_log(draft, log, log.recovery_point, high_watermark)

    def checkpoint_plan(self) -> CheckpointPlan:
        """A plan to write the checkpoint: recovery points, log starts, high watermarks and cleaner offsets."""
        return CheckpointPlan(
            tuple(
                self._directory_checkpoint(directory, directory.draft)
                for directory in self.online()
                if directory.draft is not None
            )
        )

    def checkpointed(self, plan: CheckpointPlan, results: Sequence[CheckpointResult]) -> None:
        """Take the results of a checkpoint."""
        for directory_plan, result in zip(plan.directories, results, strict=True):
            self.directory(directory_plan.path).checkpointed(directory_plan, result)

    def remove_marks(self, most: int) -> list[MarksSync]:
        """See `LogDirectory.remove_marks`; call it again until it returns nothing. Raises LogDirectoryFailure."""
        return [directory.remove_marks(most) for directory in self.online() if directory.obsolete_marks]

    def _directory_checkpoint(self, directory: LogDirectory, draft: CheckpointDraft) -> DirectoryCheckpoint:
        # damaged logs keep their offsets: without them the next recovery would truncate the damage as an incomplete tail
        for tp, held in self._damaged_in(directory):
            saved = self.high_watermarks.get(tp)
            for offsets, offset in (
                (draft.recovery_points, held.recovery_point),
                (draft.log_starts, held.log_start_offset),
                (draft.high_watermarks, saved),
                (draft.cleaned, held.cleaned_offset),
            ):
                if offset is not None:
                    offsets[tp] = offset
        return directory.checkpoint_plan(draft)

    def _damaged_in(self, directory: LogDirectory) -> list[tuple[TopicPartition, Unavailable]]:
        return [(tp, held) for tp, held in list(self.unavailable.items()) if held.directory == directory.path]

    def close_plan(
        self, broker_epoch: BrokerEpoch, high_watermarks: Mapping[TopicPartition, Offset] | None = None
    ) -> ClosePlan:
        """A plan for a clean stop: sync everything, write indexes, snapshots, checkpoints, then the clean shutdown mark.

        No append may follow. A directory gets the mark only when all of its logs were closed, none in it is damaged (the
        next start must check that one again), and the cluster knows of the loss that this start found.
        """
        logs = list(self.logs.values())
        marks = high_watermarks if high_watermarks is not None else self.high_watermarks
        plans = []
        for directory in self.online():
            mine = [log for log in logs if log.directory == directory.path]
            closes = [log.close_plan() for log in mine]
            draft = directory.begin_checkpoint()
            for log in mine:
                _draft_log(draft, log, log.log_end_offset, marks.get(log.topic_partition, 0))
            checkpoint = self._directory_checkpoint(directory, draft)
            is_clean = not self._damaged_in(directory) and not directory.has_unreported_loss
            plans.append(
                directory.close_plan(
                    [each for each in closes if each is not None],
                    checkpoint,
                    [(log.topic_partition, log.size_bytes) for log in mine],
                    broker_epoch if is_clean else None,
                    self.few_logs,
                )
            )
        return ClosePlan(tuple(plans))

    def closed(self) -> None:
        """A `ClosePlan` has run without a failure: all records are durable."""
        for log in self.logs.values():
            log.recovery_point = log.log_end_offset


def _draft_log(draft: CheckpointDraft, log: Log, recovery_point: Offset, high_watermark: Offset) -> None:
    """Write what a checkpoint says of a log into its draft."""
    topic_partition = log.topic_partition
    draft.recovery_points[topic_partition] = recovery_point
    if log.log_start_offset:
        # also when the first segment begins there: a power loss may bring the removed ones back
        draft.log_starts[topic_partition] = log.log_start_offset
    draft.high_watermarks[topic_partition] = min(high_watermark, log.log_end_offset)
    if log.cleaned_offset is not None:
        draft.cleaned[topic_partition] = log.cleaned_offset
    if log.has_stale_checkpoints:
        draft.marked[log] = log.generation
