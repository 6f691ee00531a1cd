"""One log directory: its owner (`meta.properties`), its lock, its checkpoints, and the clean shutdown mark.

`examine` changes nothing; `claim` is the first write. Formats and names are Kafka's (MetaProperties.java,
LogManager.scala).
"""

import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from yak.errors import LogDirectoryFailure, StartRefused, directory_failure
from yak.ids import BrokerEpoch, NodeId, Offset, TopicPartition
from yak.ports.disk import Disk, Lock
from yak.storage.checkpoints import (
    BadCheckpoint,
    NewerVersion,
    check_checkpoint_version,
    format_clean_shutdown,
    format_offsets,
    format_properties,
    id_from_text,
    id_to_text,
    parse_clean_shutdown,
    parse_offsets,
    parse_properties,
)
from yak.storage.flush import LogClose, topic_of_folder
from yak.storage.log import Log
from yak.storage.log_creation import FEW_LOGS
from yak.storage.names import (
    BOOT_MARK,
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCAL_CLUSTER_STATE,
    LOCK,
    LOG_SIZES,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    NEW_LOG_MARK,
    OWN_FOLDER_PREFIX,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    is_set_aside,
    parse_partition_folder,
)

META_VERSION = "1"
LOWERED_RECOVERY_POINTS = RECOVERY_POINT_CHECKPOINT + ".lowered"
"""Recovery points that truncations lowered since the last checkpoint. YAK's file; Kafka ignores it."""
_OFFSET_FILES = (
    RECOVERY_POINT_CHECKPOINT,
    LOWERED_RECOVERY_POINTS,
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
)


@dataclass(frozen=True, slots=True)
class ClusterIdPlan:
    """A plan to write the cluster's id: log directory -> content of its `meta.properties`."""

    cluster_id: str
    files: Mapping[str, bytes]

    def run(self, disk: Disk) -> list[LogDirectoryFailure]:
        """Write the files in a thread; returns the failures."""
        failures = []
        for path, data in self.files.items():
            try:
                disk.write_file(f"{path}/{META_PROPERTIES}", data)
            except OSError as error:
                failures.append(LogDirectoryFailure(path, error))
        return failures


@dataclass(frozen=True, slots=True)
class LoweringPlan:
    """A plan to write the file of lowered recovery points; later files have higher numbers."""

    path: str
    data: bytes
    number: int

    def run(self, disk: Disk) -> None:
        """Write the file in a thread. Raises LogDirectoryFailure."""
        with directory_failure(self.path):
            disk.write_file(f"{self.path}/{LOWERED_RECOVERY_POINTS}", self.data)


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """The checkpoint files as they are now, and the failure that ended the run."""

    written: Mapping[str, bytes]
    failure: LogDirectoryFailure | None


@dataclass(slots=True)
class CheckpointDraft:
    """What a checkpoint of a log directory will say. It is gathered log by log: a step has no time for thousands."""

    lowerings: int
    """How many lowerings of recovery points there were at its begin. It may lack later ones."""
    recovery_points: dict[TopicPartition, Offset] = field(default_factory=dict)
    log_starts: dict[TopicPartition, Offset] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, Offset] = field(default_factory=dict)
    cleaned: dict[TopicPartition, Offset] = field(default_factory=dict)
    marked: dict[Log, int] = field(default_factory=dict)
    """Logs with a `NEW_LOG_MARK`, which these offsets make obsolete, and their generations."""

    def offsets(self) -> dict[str, dict[TopicPartition, Offset]]:
        """File name -> offsets, in the order in which the files are written.

        Log starts come first. Retention moves a recovery point above segments that were never flushed; should a power
        loss bring such a segment back, a start that knows the recovery point only takes its incomplete end for damage.
        """
        return {
            LOG_START_CHECKPOINT: self.log_starts,
            RECOVERY_POINT_CHECKPOINT: self.recovery_points,
            HIGH_WATERMARK_CHECKPOINT: self.high_watermarks,
            CLEANER_CHECKPOINT: self.cleaned,
        }


@dataclass(frozen=True, slots=True)
class DirectoryCheckpoint:
    """A plan to write the checkpoint files of one log directory whose content differs from `written`."""

    path: str
    offsets: Mapping[str, Mapping[TopicPartition, Offset]]
    """File name -> offsets."""
    written: Mapping[str, bytes]
    lowerings: int
    """How many lowerings of recovery points these offsets include."""

    def run(self, disk: Disk) -> CheckpointResult:
        """Write the files in a thread."""
        written = dict(self.written)
        try:
            for name, offsets in self.offsets.items():
                data = format_offsets(offsets.items())
                path = f"{self.path}/{name}"
                if written.get(name) == data:
                    continue
                if name == CLEANER_CHECKPOINT and not offsets and not disk.exists(path):
                    continue
                disk.write_file(path, data)
                written[name] = data
        except OSError as error:
            return CheckpointResult(written, LogDirectoryFailure(self.path, error))
        return CheckpointResult(written, None)


@dataclass(frozen=True, slots=True)
class MarksSync:
    """A plan to make the removal of marks durable: one that a power loss brought back would void all later checkpoints."""

    path: str
    folders: tuple[str, ...]

    def run(self, disk: Disk) -> None:
        """Sync the folders of the logs. Raises LogDirectoryFailure."""
        with directory_failure(self.path):
            if len(self.folders) > FEW_LOGS:
                disk.sync_file_system(self.path)
                return
            for folder in self.folders:
                # the log may be deleted by now
                with suppress(FileNotFoundError):
                    disk.sync_directory(folder)


@dataclass(frozen=True, slots=True)
class DirectoryClose:
    """A plan to close the logs of a directory, write its checkpoints, and then the clean shutdown mark."""

    path: str
    logs: tuple[LogClose, ...]
    syncs_at_once: bool
    """Whether one sync of the file system makes all logs durable, instead of several syncs for each."""
    checkpoint: DirectoryCheckpoint
    marks: MarksSync
    """The folders of the logs whose marks the checkpoint makes obsolete. No step writes them again."""
    lowered: str | None
    """The file of lowered recovery points, if the checkpoint covers them."""
    sizes: bytes
    mark: bytes | None

    def run(self, disk: Disk) -> None:
        """Write everything; the mark is the last write of all. Raises LogDirectoryFailure."""
        with directory_failure(self.path):
            self._close_logs(disk)
            result = self.checkpoint.run(disk)
            if result.failure is not None:
                raise result.failure
            for folder in self.marks.folders:
                disk.remove(f"{folder}/{NEW_LOG_MARK}")
            self.marks.run(disk)
            if self.lowered is not None:
                disk.remove(self.lowered)
            if self.mark is not None:
                disk.write_file(f"{self.path}/{LOG_SIZES}", self.sizes)
                disk.write_file(f"{self.path}/{CLEAN_SHUTDOWN}", self.mark)

    def _close_logs(self, disk: Disk) -> None:
        if not self.syncs_at_once:
            for log in self.logs:
                log.run(disk)
            return
        for log in self.logs:
            log.write(disk)
        disk.sync_file_system(self.path)
        for log in self.logs:
            log.check_synced()


@dataclass(frozen=True, slots=True)
class FolderRemoval:
    """A plan to delete the renamed folder of a log, or with `keeps_files` (a stray) only to sync its new name."""

    directory: str
    path: str
    keeps_files: bool

    def run(self, disk: Disk) -> None:
        """Delete it. Raises OSError when files are left, and LogDirectoryFailure when the sync fails."""
        if not self.keeps_files:
            disk.remove_tree(self.path)
        with directory_failure(self.directory):
            disk.sync_directory(self.directory)


class LogDirectory:
    """One log directory. `failure` is None while it is online; `cluster_id` is None before the node joins a cluster."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.cluster_id: str | None = None
        self.directory_id: uuid.UUID | None = None
        self.failure: OSError | None = None
        self.clean_epoch: BrokerEpoch | None = None
        """Broker epoch of the clean stop before this start; None when the stop was unclean."""
        self.machine_restarted = False
        """Whether the stop was unclean and the machine rebooted since: unsynced writes may be lost."""
        self.machine_stayed_up = False
        """Whether the machine certainly did not reboot: all writes are there, except perhaps the last one."""
        self._clean_mark: bytes | None = None
        self._node_id: NodeId = -1
        self._lock: Lock | None = None
        self._kernel_boot_id: str | None = None
        self._boot_to_mark: str | None = None
        self._written: Mapping[str, bytes] = {}
        self.draft: CheckpointDraft | None = None
        """What was gathered of the next checkpoint."""
        self._checkpointed: tuple[Mapping[TopicPartition, Offset], ...] = ()
        self._being_checkpointed: tuple[Mapping[TopicPartition, Offset], ...] = ()
        self._marked: dict[Log, int] = {}
        """Logs whose marks the checkpoint under way makes obsolete, and their generations."""
        self.obsolete_marks: dict[Log, int] = {}
        """Likewise, of finished checkpoints."""
        self._lowered: dict[TopicPartition, Offset] = {}
        """Recovery points that truncations lowered since a checkpoint had them all; some may not be on the disk yet."""
        self._lowerings = self._lowerings_written = self._lowerings_covered = 0
        """Numbers of the last lowering that was planned, that is in the file, and that a finished checkpoint has."""

    @property
    def offline_reason(self) -> str:
        """Why the directory's logs cannot be served."""
        return f"its log directory is offline: {self.failure}"

    def file(self, name: str) -> str:
        """Path of a file of this directory."""
        return f"{self.path}/{name}"

    # ------------------------------------------------------------------------------------------------- ownership

    def examine(self, node_id: NodeId) -> None:
        """Read `meta.properties` and refuse another node's directory; changes nothing. Raises StartRefused, OSError."""
        disk = self.disk
        self._node_id = node_id
        if not disk.exists(self.path):
            return
        if not disk.is_directory(self.path):
            raise StartRefused(
                "data-dir-not-a-directory",
                f"{self.path} is not a directory",
                why="a file with this name exists; it was not changed",
                try_=("name a directory with --data-dir",),
            )
        if not disk.exists(self.file(META_PROPERTIES)):
            self._refuse_unmarked()
            return
        properties = parse_properties(disk.read_file(self.file(META_PROPERTIES)))
        self._check_properties(properties)
        self._check_versions()

    def _check_versions(self) -> None:
        """Refuse the files of a newer version, before anything is changed. Raises StartRefused, OSError."""
        checks = {**dict.fromkeys(_OFFSET_FILES, check_checkpoint_version), CLEAN_SHUTDOWN: parse_clean_shutdown}
        for name, check in checks.items():
            path = self.file(name)
            try:
                if self.disk.exists(path):
                    check(self.disk.read_file(path))
            except NewerVersion as newer:
                raise newer.refusal(path) from newer

    def _refuse_unmarked(self) -> None:
        if self.disk.exists(self.file(LOCAL_CLUSTER_STATE)):
            raise StartRefused(
                "data-dir-of-a-cluster",
                f"{self.path} is the directory of a local cluster, not of one broker",
                why=f"it holds {LOCAL_CLUSTER_STATE}, as yak up writes it; nothing was changed",
                try_=("yak up", "name another directory with --data-dir"),
            )
        for name in self.disk.names(self.path):
            if parse_partition_folder(name) and self.disk.exists(f"{self.path}/{name}/{PARTITION_METADATA}"):
                raise StartRefused(
                    "data-dir-unmarked",
                    f"{self.path} holds partitions ({name}, ...) but no {META_PROPERTIES}",
                    why="without it the node and cluster of this data are unknown; nothing was changed",
                    try_=(f"restore {self.file(META_PROPERTIES)}", "name another, empty directory with --data-dir"),
                )

    def _check_properties(self, properties: Mapping[str, str]) -> None:
        marked = self.file(META_PROPERTIES)
        version = properties.get("version", "0")
        if version != META_VERSION:
            raise StartRefused(
                "data-dir-version",
                f"{marked} has version {version}",
                why=f"this YAK reads version {META_VERSION} only; nothing was changed",
                try_=("name another, empty directory with --data-dir", "use the program that created this directory"),
            )
        node_id = properties.get("node.id", "")
        if node_id != str(self._node_id):
            raise StartRefused(
                "data-dir-other-node",
                f"{self.path} belongs to node {node_id or '?'}, this is node {self._node_id}",
                why=f"{marked} says node.id={node_id}; two nodes must never write to one directory; nothing was changed",
                try_=(f"--node-id {node_id or 'ID'}", "name this node's own directory with --data-dir"),
            )
        self.cluster_id = properties.get("cluster.id") or None
        try:
            self.directory_id = id_from_text(properties["directory.id"]) if "directory.id" in properties else None
        except BadCheckpoint as error:
            raise StartRefused(
                "data-dir-bad-meta",
                f"{marked} cannot be read: {error}",
                why="the directory.id is invalid; nothing was changed",
                try_=(f"restore {marked} from a backup",),
            ) from error

    def claim(self, make_uuid: Callable[[], uuid.UUID]) -> None:
        """Take the lock and complete `meta.properties`. Raises StartRefused, OSError."""
        try:
            self.disk.make_directory(self.path)
            self._lock = self.disk.lock(self.file(LOCK))
            self.examine(self._node_id)
            if self.directory_id is None:
                self.directory_id = make_uuid()
                self.disk.write_file(self.file(META_PROPERTIES), self.meta_properties(self.cluster_id))
        except BlockingIOError as error:
            raise StartRefused(
                "data-dir-locked",
                f"{self.path} is in use by another process",
                why=f"its lock is {self.file(LOCK)}",
                try_=("yak down", "stop the other broker, or name another directory with --data-dir"),
            ) from error

    def meta_properties(self, cluster_id: str | None) -> bytes:
        """The content of `meta.properties`."""
        properties = [("version", META_VERSION), ("node.id", str(self._node_id))]
        if self.directory_id is not None:
            properties.append(("directory.id", id_to_text(self.directory_id)))
        if cluster_id is not None:
            properties.append(("cluster.id", cluster_id))
        return format_properties(properties)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -------------------------------------------------------------------------------------------------- contents

    def partition_folders(self) -> tuple[list[str], list[str], list[str]]:
        """(folders of partitions, folders set aside by a delete or as stray, other folders). Raises OSError."""
        partitions: list[str] = []
        aside: list[str] = []
        others: list[str] = []
        for name in self.disk.names(self.path):
            if not self.disk.is_directory(self.file(name)):
                continue
            if is_set_aside(name):
                aside.append(name)
            elif parse_partition_folder(name) is not None:
                partitions.append(name)
            elif not name.startswith(OWN_FOLDER_PREFIX):
                others.append(name)
        return partitions, aside, others

    def remove_uncreated_marks(self, names: Iterable[str]) -> None:
        """Remove these marks; the next start removes one that cannot be removed now."""
        for name in names:
            with suppress(OSError):
                self.disk.remove(self.file(name))

    def take_clean_mark(self) -> None:
        """Read whether the last stop was clean, and durably remove the mark while the broker runs. Raises OSError."""
        path = self.file(CLEAN_SHUTDOWN)
        if self.disk.exists(path):
            self._clean_mark = self.disk.read_file(path)
            self.clean_epoch = parse_clean_shutdown(self._clean_mark)
            self.disk.remove(path)
            self.disk.sync_directory(self.path)

    def put_back_clean_mark(self) -> None:
        """A start that is refused leaves the mark as it found it. Raises OSError."""
        if self._clean_mark is not None:
            self.disk.write_file(self.file(CLEAN_SHUTDOWN), self._clean_mark)

    def take_boot_mark(self, kernel_boot_id: str) -> None:
        """Detect a reboot of the machine since an unclean stop; call it before `take_clean_mark`.

        Without such a reboot the mark is renewed at once. Otherwise it stays until `renew_boot_mark`, so that a crash
        before the cluster knows of the loss cannot hide it. Raises OSError.
        """
        path = self.file(BOOT_MARK)
        marked = self.disk.read_file(path).decode("ascii", "replace").strip() if self.disk.exists(path) else ""
        self._kernel_boot_id = kernel_boot_id
        if marked == kernel_boot_id:
            self.machine_stayed_up = True
            return
        self._boot_to_mark = kernel_boot_id
        self.machine_restarted = bool(marked) and not self.disk.exists(self.file(CLEAN_SHUTDOWN))
        if not self.machine_restarted:
            self.renew_boot_mark()

    def note_loss(self) -> None:
        """The records are older than the cluster knows: as after a reboot, until `renew_boot_mark`. Raises OSError."""
        self.machine_restarted, self.machine_stayed_up = True, False
        if self._kernel_boot_id is not None:
            self._boot_to_mark = self._kernel_boot_id
            self.disk.write_file(self.file(BOOT_MARK), b"older\n")

    @property
    def has_unreported_loss(self) -> bool:
        """Whether this start found an unclean reboot or older records, and `renew_boot_mark` was not called yet."""
        return self.machine_restarted and self._boot_to_mark is not None

    def renew_boot_mark(self) -> None:
        """Durably write the machine's present boot id, unless the mark has it. Raises OSError."""
        if self._boot_to_mark is not None:
            self.disk.write_file(self.file(BOOT_MARK), f"{self._boot_to_mark}\n".encode())
            self._boot_to_mark = None

    # ----------------------------------------------------------------------------------------------- checkpoints

    def read_offsets(self, name: str, *, is_checkpoint: bool = True) -> dict[TopicPartition, Offset]:
        """The offsets, or sizes, in one file of this format; empty when it is absent. Raises OSError, BadCheckpoint."""
        path = self.file(name)
        offsets = parse_offsets(self.disk.read_file(path)) if self.disk.exists(path) else {}
        if is_checkpoint:
            self._checkpointed += (offsets,)
        return offsets

    def is_checkpointed(self, topic_partition: TopicPartition) -> bool:
        """Whether a checkpoint on disk has an entry of this partition, or may soon."""
        gathered = () if self.draft is None else self.draft.offsets().values()
        known = (*self._checkpointed, *self._being_checkpointed, *gathered, self._lowered)
        return any(topic_partition in offsets for offsets in known)

    def read_recovery_points(self) -> dict[TopicPartition, Offset]:
        """The recovery point checkpoint, lowered by truncations since. Raises OSError, BadCheckpoint."""
        self._lowered = self.read_offsets(LOWERED_RECOVERY_POINTS)  # first: it bounds other offsets too
        self._lowerings = self._lowerings_written = len(self._lowered)
        points = self.read_offsets(RECOVERY_POINT_CHECKPOINT)
        for topic_partition, offset in self._lowered.items():
            points[topic_partition] = min(offset, points.get(topic_partition, offset))
        return points

    def bound(self, offsets: dict[TopicPartition, Offset]) -> None:
        """Lower the offsets of a checkpoint to where truncations lowered the recovery points since."""
        for topic_partition in self._lowered.keys() & offsets.keys():
            offsets[topic_partition] = min(offsets[topic_partition], self._lowered[topic_partition])

    def lowering_plan(self, points: Iterable[tuple[TopicPartition, Offset]]) -> LoweringPlan:
        """A plan to make lowered recovery points durable, before the truncations; `lowered` gets it after its run.

        Only one may run at a time, because they write the same file.
        """
        for topic_partition, offset in points:
            self._lowered[topic_partition] = min(offset, self._lowered.get(topic_partition, offset))
        self._lowerings += 1
        return LoweringPlan(self.path, format_offsets(sorted(self._lowered.items())), self._lowerings)

    def lowered(self, plan: LoweringPlan) -> None:
        """The file of lowered recovery points is written."""
        self._lowerings_written = plan.number

    def begin_checkpoint(self) -> CheckpointDraft:
        """Begin the draft of a checkpoint, in place of one that was not finished. Raises LogDirectoryFailure."""
        self.forget_lowered()
        self.draft = CheckpointDraft(self._lowerings)
        return self.draft

    def checkpoint_plan(self, draft: CheckpointDraft) -> DirectoryCheckpoint:
        """A plan to write the checkpoint files that changed; `checkpointed` gets it and its result."""
        self.draft = None
        offsets = draft.offsets()
        self._being_checkpointed, self._marked = tuple(offsets.values()), draft.marked
        return DirectoryCheckpoint(self.path, offsets, self._written, draft.lowerings)

    def checkpointed(self, plan: DirectoryCheckpoint, result: CheckpointResult) -> None:
        """Some files of a checkpoint are written, or without a failure all of them."""
        self._written = result.written
        if result.failure is None:
            self._lowerings_covered = plan.lowerings
            self._checkpointed = tuple(plan.offsets.values())
            self.obsolete_marks |= self._marked

    def remove_marks(self, most: int) -> MarksSync:
        """Remove marks that a checkpoint has made obsolete, except where the log was truncated or moved meanwhile.

        A full resync writes the mark again. So the step that knows of it removes the mark, and no job. Raises
        LogDirectoryFailure.
        """
        folders = []
        with directory_failure(self.path):
            for log in list(islice(self.obsolete_marks, most)):
                if log.generation == self.obsolete_marks.pop(log) and log.directory == self.path:
                    self.disk.remove(f"{log.path}/{NEW_LOG_MARK}")
                    log.has_stale_checkpoints = False
                    folders.append(log.path)
        return MarksSync(self.path, tuple(folders))

    def close_plan(
        self,
        logs: Sequence[LogClose],
        checkpoint: DirectoryCheckpoint,
        sizes: Iterable[tuple[TopicPartition, int]],
        clean_epoch: BrokerEpoch | None,
        few_logs: int,
    ) -> DirectoryClose:
        """A plan for a clean stop, with the clean shutdown mark unless `clean_epoch` is None."""
        covers_lowered = bool(self._lowered) and self._lowerings_written == self._lowerings
        lowered = self.file(LOWERED_RECOVERY_POINTS) if covers_lowered else None
        mark = None if clean_epoch is None else format_clean_shutdown(clean_epoch)
        marks = MarksSync(self.path, tuple(log.path for log in self._marked))
        syncs_at_once = len(logs) > few_logs
        return DirectoryClose(
            self.path, tuple(logs), syncs_at_once, checkpoint, marks, lowered, format_offsets(sizes), mark
        )

    def forget_lowered(self) -> None:
        """Remove the file of lowered points once a finished checkpoint covers them all. Raises LogDirectoryFailure."""
        if self._lowered and self._lowerings_covered == self._lowerings_written == self._lowerings:
            self._lowered.clear()
            with directory_failure(self.path):
                self.disk.remove(self.file(LOWERED_RECOVERY_POINTS))


class Checkpoints:
    """The offsets in one directory's checkpoint files; a damaged file counts as absent, and `note` gets an error event.

    Raises OSError.
    """

    def __init__(self, directory: LogDirectory, note: Callable[..., None]) -> None:
        self._directory, self._note = directory, note
        self._damaged: set[str] = set()
        self.log_starts = self._read(LOG_START_CHECKPOINT)
        self.high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT)
        self._cleaned = self._read(CLEANER_CHECKPOINT)
        self.was_clean = directory.clean_epoch is not None
        self.sizes = self._read(LOG_SIZES, is_checkpoint=False) if self.was_clean else {}
        self.recovery_points: dict[TopicPartition, Offset] = {}
        self.all_flushed = False
        """The recovery points cannot be read, and are the log ends."""
        try:
            self.recovery_points = directory.read_recovery_points()
        except BadCheckpoint as error:
            self.all_flushed = self.was_clean
            note("error", "checkpoint-damaged", directory=directory.path, error=str(error))
        directory.bound(self.high_watermarks)
        directory.bound(self._cleaned)

    def cleaned_offset(self, topic_partition: TopicPartition) -> Offset | None:
        """The offset below which a log is compacted; None when it never was.

        Without a readable file it is 0: any log of the directory may be compacted, whatever its policy is now, and have
        gaps.
        """
        return self._cleaned.get(topic_partition, 0 if CLEANER_CHECKPOINT in self._damaged else None)

    def _read(self, name: str, *, is_checkpoint: bool = True) -> dict[TopicPartition, Offset]:
        try:
            return self._directory.read_offsets(name, is_checkpoint=is_checkpoint)
        except BadCheckpoint as error:
            self._damaged.add(name)
            self._note("error", "checkpoint-damaged", directory=self._directory.path, file=name, error=str(error))
            return {}


def other_cluster(path: str, found: str, wanted: str) -> StartRefused:
    """The StartRefused for a directory with another cluster's data."""
    return StartRefused(
        "data-dir-other-cluster",
        f"{path} belongs to cluster {found}, not {wanted}",
        why=f"{path}/{META_PROPERTIES} says cluster.id={found}; nothing was changed",
        try_=("point the broker at that cluster's Redis", "name an empty directory with --data-dir"),
    )


def claim_all(
    directories: Sequence[LogDirectory], node_id: NodeId, make_uuid: Callable[[], uuid.UUID], cluster_id: str | None
) -> None:
    """Examine all directories, then lock and mark them; releases all when one is refused. Raises StartRefused.

    One that fails goes offline, as in Kafka. The first one must not fail: it has the copy of the metadata.
    """

    def attempt(directory: LogDirectory, action: Callable[[], None]) -> None:
        try:
            if directory.failure is None:
                action()
        except OSError as error:
            if directory is directories[0]:
                raise StartRefused(
                    "data-dir-not-usable",
                    f"{directory.path} cannot be used: {error.strerror or error}",
                    why="the broker must be able to read and write its data directory",
                    try_=(f"ls -ld {directory.path}", "name another directory with --data-dir"),
                ) from error
            directory.failure = error

    for directory in directories:
        attempt(directory, partial(directory.examine, node_id))
    _check_agreement(directories, cluster_id)
    try:
        for directory in directories:
            attempt(directory, partial(directory.claim, make_uuid))
        _check_agreement(directories, cluster_id)
    except BaseException:
        for directory in directories:
            directory.release()
        raise


def _check_agreement(directories: Sequence[LogDirectory], cluster_id: str | None) -> None:
    wanted = cluster_id
    for directory in directories:
        if directory.cluster_id is None:
            continue
        if wanted is not None and directory.cluster_id != wanted:
            raise other_cluster(directory.path, directory.cluster_id, wanted)
        wanted = directory.cluster_id
    ids = [directory.directory_id for directory in directories if directory.directory_id is not None]
    if len(set(ids)) != len(ids):
        raise StartRefused(
            "data-dir-copied",
            f"{' and '.join(directory.path for directory in directories)} have the same directory.id",
            why="one is a copy of the other; nothing was changed",
            try_=("name only one of them with --data-dir",),
        )
    folders: dict[str, list[LogDirectory]] = {}
    for directory in directories:
        try:
            names = directory.partition_folders()[0] if directory.disk.exists(directory.path) else []
        except OSError:
            continue
        for name in names:
            folders.setdefault(name, []).append(directory)
    for name, holders in folders.items():
        if len(holders) > 1:
            _check_copies(name, holders)


def _check_copies(name: str, holders: Sequence[LogDirectory]) -> None:
    """Refuse two folders of one name, unless they are of different topics: then the metadata decides which one counts.

    A folder that names no topic and has no records is no copy: the process ended while it created the log. Raises
    StartRefused.
    """
    copies: list[LogDirectory] = []
    topics: set[uuid.UUID | None] = set()
    for directory in holders:
        path = directory.file(name)
        try:
            topic_id = topic_of_folder(directory.disk, path)
            sizes = directory.disk.file_sizes(path)
        except OSError:
            topic_id, sizes = None, [(LOG_SUFFIX, 1)]
        if topic_id is not None or any(size for file, size in sizes if file.endswith(LOG_SUFFIX)):
            copies.append(directory)
            topics.add(topic_id)
    if len(copies) > 2 or (len(copies) == 2 and (len(topics) < 2 or None in topics)):
        older = _older_of(copies) if len(copies) == 2 else None
        why, advice = (
            "it is not known which copy is right",
            f"move one of the two folders {name} out of its data directory",
        )
        if older is not None:
            why = f"the copy in {older.path} is older: the last start did not use this directory"
            advice = f"move {older.file(name)} out of this directory"
        raise StartRefused(
            "data-dir-duplicate-partition",
            f"partition {name} is in {copies[0].path} and in {copies[1].path}",
            why=f"{why}; nothing was changed",
            try_=(advice,),
        )


def note_older(
    directories: Sequence[LogDirectory], last_epoch: Callable[[], BrokerEpoch]
) -> Iterator[dict[str, object]]:
    """Note a loss for each directory that was closed in an earlier epoch than the others, or than the broker's last one.

    It is an older copy, or the broker has run without it. Kafka takes such a stop for an unclean one
    (LogManager.readBrokerEpochFromCleanShutdownFiles). Yields the fields of a log event for each.
    """
    closed = {directory: directory.clean_epoch for directory in directories if directory.clean_epoch}
    newest = max(last_epoch(), *closed.values()) if closed else 0
    for directory, epoch in closed.items():
        if epoch < newest:
            with suppress(OSError):  # of a disk that fails here, the first write reports it
                directory.note_loss()
            reason = (
                "it is an older copy, or the broker has run without it: records may be missing in it, so this broker "
                "leaves every ISR until it has caught up"
            )
            yield {"directory": directory.path, "closed_in_epoch": epoch, "broker_epoch": newest, "reason": reason}


def _older_of(pair: Sequence[LogDirectory]) -> LogDirectory | None:
    """The directory that was closed by an earlier stop than the other; None if it is not known. Nothing is changed.

    One without the mark of a clean stop was in use when the broker was killed.
    """
    epochs: list[float] = []
    for directory in pair:
        path = directory.file(CLEAN_SHUTDOWN)
        try:
            marked = directory.disk.exists(path)
            epochs.append(parse_clean_shutdown(directory.disk.read_file(path)) if marked else math.inf)
        except (OSError, BadCheckpoint):
            return None
    first, second = epochs
    return None if first == second else pair[0] if first < second else pair[1]
