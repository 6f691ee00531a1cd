"""All logs of a node, over one or several log directories: Kafka's LogManager.scala.

Opening examines every directory before it changes any. A directory that fails later goes offline with its logs until
restart; the other directories stay online.
"""

import errno
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure
from yak.ids import BrokerEpoch, NodeId, Offset, TopicPartition
from yak.limits import NEW_LOG_BYTES_MIN
from yak.seams.disk import Disk
from yak.storage import store_opening
from yak.storage.log import Log
from yak.storage.log_creation import create_log
from yak.storage.log_directory import LogDirectory, all_of
from yak.storage.log_loader import NO_TOPIC_ID
from yak.storage.names import (
    DELETE_FOLDER_SUFFIX,
    FRESH_MARK,
    STRAY_FOLDER_SUFFIX,
    set_aside_name,
)
from yak.storage.store_report import DirectoryUsage, OpenReport, StoreEvent, Unavailable, usage_of


class LogStore:
    """The logs of this node: `logs` can be served; `unavailable` are on a disk but damaged or offline.

    `high_watermarks` are the checkpointed ones, as of the last stop.
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
    ) -> "LogStore":
        """Lock, check and load everything; blocks, before the broker serves.

        `progress` is called with (logs done, total logs). `kernel_boot_id` differs after each boot of the machine; with
        None no reboot is detected. `is_replicated`: whether a partition has other replicas. Raises StartRefused, with
        nothing touched when the directories belong to another node or cluster.
        """
        found = [LogDirectory(disk, path.rstrip("/") or "/") for path in dict.fromkeys(directories)]
        store_opening.claim(found, node_id, make_uuid, cluster_id)
        store = cls(disk, found, node_id, make_uuid, now_ms)
        try:
            store_opening.load_all(store, config_for, progress, now_ms, kernel_boot_id, is_replicated)
        except BaseException:
            store.release()
            raise
        return store

    # -------------------------------------------------------------------------------------------------- identity

    @property
    def cluster_id(self) -> str | None:
        """The cluster this data belongs to; None before it is known."""
        return next((directory.cluster_id for directory in self.directories if directory.cluster_id), None)

    @property
    def clean_broker_epoch(self) -> BrokerEpoch | None:
        """Broker epoch of the last stop when all directories were stopped cleanly under it, else None."""
        epochs = {directory.clean_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else None

    def lacks_cluster_id(self) -> bool:
        """Whether some online directory has no cluster id yet."""
        return any(directory.cluster_id is None for directory in self.online())

    def directory_ids(self) -> list[uuid.UUID]:
        """The ids of the directories that are online."""
        return [directory.directory_id for directory in self.online() if directory.directory_id is not None]

    def set_cluster_id(self, cluster_id: str) -> None:
        """Write the cluster's id into each `meta.properties` that lacks it.

        Blocks on the device. Raises StartRefused when the data belongs to another cluster, and LogDirectoryFailure.
        """
        for directory in self.online():
            try:
                directory.set_cluster_id(cluster_id)
            except OSError as error:
                raise LogDirectoryFailure(directory.path, error) from error

    def renew_boot_marks(self) -> None:
        """Write the boot marks once the cluster knows of the loss. Blocks on the device. Raises LogDirectoryFailure."""
        for directory in self.online():
            try:
                directory.renew_boot_mark()
            except OSError as error:
                raise LogDirectoryFailure(directory.path, error) from error

    def release(self) -> None:
        """Release all locks; the store must not be used afterwards."""
        for directory in self.directories:
            directory.release()

    # ------------------------------------------------------------------------------------------------------ logs

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        config: LogConfig,
        now_ms: int = 0,
        *,
        is_new: bool = True,
        is_durable: bool = True,
    ) -> Log:
        """Create an empty log in the online directory with the fewest partitions, if possible one with free space.

        Data of another topic under the same name becomes a stray folder and is never deleted. May run in a thread.
        Blocks on the device, unless `is_durable` is false and one `sync_created` makes many logs durable. Raises
        LogDirectoryFailure, also when this very log is unavailable, or may exist in an offline directory (unless it
        `is_new`): an empty log would hide its data.
        """
        hidden = self.unavailable.get(topic_partition)
        if hidden is not None and hidden.topic_id in (topic_id, NO_TOPIC_ID):
            raise LogDirectoryFailure(hidden.directory, OSError(errno.EIO, hidden.reason))
        existing = self.logs.get(topic_partition)
        if existing is not None and existing.topic_id == topic_id:
            return existing
        offline = next((directory for directory in self.directories if directory.failure is not None), None)
        if existing is None and offline is not None and not is_new:
            raise LogDirectoryFailure(offline.path, OSError(errno.EIO, "it is offline, and may hold this log"))
        if existing is not None:
            self._set_stray(topic_partition, self._directory(existing.directory))
            del self.logs[topic_partition]
            rival = self.rivals.pop(topic_partition, None)
            if rival is not None and rival.topic_id == topic_id and self._directory(rival.directory).failure is None:
                self.adopt(rival)
                return rival
        directory = self._emptiest()
        path = directory.file(str(topic_partition))
        try:
            if self.disk.exists(path):
                self._set_stray(topic_partition, directory)
                self.unavailable.pop(topic_partition, None)
            log = create_log(
                self.disk,
                directory,
                topic_partition,
                topic_id,
                config,
                now_ms or self._opened_ms,
                is_durable=is_durable,
            )
        except OSError as error:
            raise LogDirectoryFailure(directory.path, error) from error
        self.adopt(log)
        return log

    def sync_created(self) -> list[LogDirectoryFailure]:
        """Make all logs created without `is_durable` durable at once; returns the directories' failures."""
        failures = []
        for directory in self.online():
            try:
                self.disk.sync_file_system(directory.path)
            except OSError as error:
                failures.append(LogDirectoryFailure(directory.path, error))
        return failures

    def adopt(self, log: Log) -> None:
        """Add a log to the store."""
        if log.topic_partition in self.logs:
            self.rivals[log.topic_partition] = log
        else:
            self.logs[log.topic_partition] = log

    def settle(self, log: Log) -> bool:
        """Whether a log that a thread created may be used: not when its directory failed in the meantime."""
        directory = self._directory(log.directory)
        if directory.failure is None:
            return True
        if self.logs.get(log.topic_partition) is log:
            self.make_unavailable(log, directory.offline_reason)
        return False

    def delete(self, log: Log, *, keep: bool = False) -> Callable[[], None]:
        """Rename a log's folder; the returned job deletes the folder, or with `keep` only syncs its new name (stray).

        Raises LogDirectoryFailure.
        """
        if self.logs.get(log.topic_partition) is log:
            del self.logs[log.topic_partition]
        self.high_watermarks.pop(log.topic_partition, None)
        disk, directory, path = self.disk, log.directory, log.path
        suffix = STRAY_FOLDER_SUFFIX if keep else DELETE_FOLDER_SUFFIX
        aside = f"{directory}/{set_aside_name(log.topic_partition, self._make_uuid(), suffix)}"
        try:
            disk.rename(path, aside)
        except OSError as error:
            raise LogDirectoryFailure(directory, error) from error
        log.path = aside
        for segment in log.segments:
            segment.folder = aside

        def remove() -> None:
            try:
                if not keep:
                    disk.remove_tree(aside)
                disk.sync_directory(directory)
            except OSError as error:
                raise LogDirectoryFailure(directory, error) from error

        return remove

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename a damaged log, if any, to stray, so that a new log can be created. Raises LogDirectoryFailure."""
        held = self.unavailable.get(topic_partition)
        if held is not None and (directory := self._directory(held.directory)).failure is None:
            if self.disk.exists(directory.file(str(topic_partition))):
                self._set_stray(topic_partition, directory)
            del self.unavailable[topic_partition]

    def _set_stray(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        aside = directory.file(set_aside_name(topic_partition, self._make_uuid(), STRAY_FOLDER_SUFFIX))
        try:
            self.disk.rename(directory.file(str(topic_partition)), aside)
        except OSError as error:
            raise LogDirectoryFailure(directory.path, error) from error
        self.report.events.append(
            StoreEvent("warning", "stray-log-kept", {"partition": str(topic_partition), "moved_to": aside})
        )

    def _emptiest(self) -> LogDirectory:
        online = self.online()
        if not online:
            raise LogDirectoryFailure(
                self.directories[0].path, self.directories[0].failure or OSError(errno.EIO, "offline")
            )
        if len(online) == 1:
            return online[0]
        online = [directory for directory in online if self._has_room(directory)] or online
        counts = dict.fromkeys((directory.path for directory in online), 0)
        for log in list(self.logs.values()):
            if log.directory in counts:
                counts[log.directory] += 1
        return min(online, key=lambda directory: counts[directory.path])

    # ----------------------------------------------------------------------------------------------- directories

    def online(self) -> list[LogDirectory]:
        """Directories that have not failed."""
        return [directory for directory in self.directories if directory.failure is None]

    def has_room(self) -> bool:
        """Whether some directory has space for a new log."""
        return any(map(self._has_room, self.online()))

    def _has_room(self, directory: LogDirectory) -> bool:
        try:
            return self.disk.free_bytes(directory.path) >= NEW_LOG_BYTES_MIN
        except OSError:
            return False

    def _directory(self, path: str) -> LogDirectory:
        return next(directory for directory in self.directories if directory.path == path)

    def directory_failed(self, path: str, error: OSError | None = None) -> list[Log]:
        """Take a directory offline until restart; returns the logs in it, none the second time."""
        directory = self._directory(path)
        if directory.failure is not None:
            return []
        directory.failure = error or OSError(errno.EIO, "Input/output error")
        # a thread may be creating logs: copy the list at once
        lost = [log for log in list(self.logs.values()) if log.directory == path]
        for log in lost:
            self.make_unavailable(log, directory.offline_reason)
        return lost

    def make_unavailable(self, log: Log, reason: str) -> None:
        """Stop serving a log; its files stay unchanged, and its offsets stay known."""
        log.generation += 1
        points = log.recovery_point, log.log_start_offset, log.cleaned_offset
        del self.logs[log.topic_partition]
        self.unavailable[log.topic_partition] = Unavailable(log.directory, log.topic_id, reason, *points)

    def usage(self) -> list[DirectoryUsage]:
        """Each directory with its sizes and logs."""
        return [usage_of(directory, list(self.logs.values())) for directory in self.directories]

    # ----------------------------------------------------------------------------------------------- checkpoints

    def lowering_plan(self, directory: str, logs: Sequence[Log]) -> Callable[[], None]:
        """See `LogDirectory.lowering_plan`."""
        return self._directory(directory).lowering_plan([(log.topic_partition, log.recovery_point) for log in logs])

    def checkpoint_plan(self, high_watermarks: Mapping[TopicPartition, Offset]) -> Callable[[], None]:
        """A job that checkpoints recovery points, log starts, high watermarks and cleaner offsets, where online.

        It raises the first LogDirectoryFailure after it wrote the other directories.
        """
        logs = list(self.logs.values())
        return all_of([self._directory_checkpoint(directory, logs, high_watermarks) for directory in self.online()])

    def _directory_checkpoint(
        self, directory: LogDirectory, logs: Sequence[Log], high_watermarks: Mapping[TopicPartition, Offset]
    ) -> Callable[[], None]:
        mine = [log for log in logs if log.directory == directory.path]
        fresh = [log for log in mine if log.has_stale_points]
        # damaged logs keep their offsets: without them the next recovery would take the damage for a torn tail
        kept = self._damaged_in(directory)
        write = directory.checkpoint_plan(
            [(log.topic_partition, log.recovery_point) for log in mine]
            + [(tp, held.recovery_point) for tp, held in kept if held.recovery_point is not None],
            [
                (log.topic_partition, log.log_start_offset)
                for log in mine
                # also when the first segment begins there: a power loss may bring the removed ones back
                if log.log_start_offset
            ]
            + [(tp, held.log_start_offset) for tp, held in kept if held.log_start_offset is not None],
            [
                (log.topic_partition, min(high_watermarks.get(log.topic_partition, 0), log.log_end_offset))
                for log in mine
            ]
            + [(tp, self.high_watermarks[tp]) for tp, _held in kept if tp in self.high_watermarks],
            [(log.topic_partition, log.cleaned_offset) for log in mine if log.cleaned_offset is not None]
            + [(tp, held.cleaned_offset) for tp, held in kept if held.cleaned_offset is not None],
        )
        if not fresh:
            return write

        def run() -> None:
            write()
            try:
                for log in fresh:
                    self.disk.remove(f"{log.path}/{FRESH_MARK}")
                    log.has_stale_points = False
            except OSError as error:
                raise LogDirectoryFailure(directory.path, error) from error

        return run

    def _damaged_in(self, directory: LogDirectory) -> list[tuple[TopicPartition, Unavailable]]:
        return [(tp, held) for tp, held in list(self.unavailable.items()) if held.directory == directory.path]

    def close_plan(
        self, broker_epoch: BrokerEpoch, high_watermarks: Mapping[TopicPartition, Offset] | None = None
    ) -> Callable[[], None]:
        """A job for a clean stop: sync everything, write indexes, snapshots, checkpoints, then the clean shutdown mark.

        No append may follow. A directory gets the mark only when all of its logs were closed, none in it is damaged
        (the next start must check that one again), and the cluster knows of the loss that this start found. The job
        raises the first LogDirectoryFailure after it closed the other directories.
        """
        logs = list(self.logs.values())
        marks = high_watermarks if high_watermarks is not None else self.high_watermarks

        def close(directory: LogDirectory) -> None:
            try:
                for log in logs:
                    if log.directory == directory.path:
                        log.close()
                self._directory_checkpoint(directory, logs, marks)()
                directory.forget_lowered()
                if not self._damaged_in(directory) and not directory.has_loss_to_tell:
                    directory.write_clean_mark(broker_epoch)
            except OSError as error:
                raise LogDirectoryFailure(directory.path, error) from error

        return all_of([partial(close, directory) for directory in self.online()])


__all__ = ["DirectoryUsage", "LogStore", "OpenReport", "StoreEvent", "Unavailable"]
