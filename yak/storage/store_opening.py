"""Opening a LogStore: check that its directories belong to this node, then load every log in them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure, StartRefused
from yak.ids import NodeId, Offset, TopicPartition
from yak.storage.checkpoints import BadCheckpoint, parse_partition_metadata
from yak.storage.log_directory import LogDirectory, other_cluster
from yak.storage.log_loader import NO_TOPIC_ID, LoadedLog, LogLoader
from yak.storage.names import (
    CLEANER_CHECKPOINT,
    DELETE_FOLDER_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    PARTITION_METADATA,
    parse_partition_folder,
)
from yak.storage.recovery import DamagedLog
from yak.storage.store_report import StoreEvent, Unavailable

if TYPE_CHECKING:
    from yak.storage.log_store import LogStore


def claim(
    directories: Sequence[LogDirectory], node_id: NodeId, make_uuid: Callable[[], uuid.UUID], cluster_id: str | None
) -> None:
    """Examine all directories, then lock and mark them; releases all when one is refused. Raises StartRefused."""
    for directory in directories:
        directory.examine(node_id)
    _check_agreement(directories, cluster_id)
    try:
        for directory in directories:
            directory.claim(make_uuid)
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
            why="one is a copy of the other; nothing was touched",
            try_=("give only one of them with --data-dir",),
        )
    holders: dict[str, str] = {}
    doubled: set[str] = set()
    for directory in directories:
        try:
            names = directory.partition_folders()[0] if directory.disk.exists(directory.path) else []
        except OSError:
            continue
        for name in names:
            if name in holders and (name in doubled or not _are_of_two_topics(directory, holders[name], name)):
                raise StartRefused(
                    "data-dir-duplicate-partition",
                    f"partition {name} is in {holders[name]} and in {directory.path}",
                    why="nobody can tell which copy is right; nothing was touched",
                    try_=(f"move one of the two folders {name} out of its data directory",),
                )
            if name in holders:
                doubled.add(name)
            holders[name] = directory.path


def _are_of_two_topics(directory: LogDirectory, other: str, name: str) -> bool:
    """Whether two folders of one name belong to different topics: then the metadata decides which one counts."""
    try:
        ids = {
            parse_partition_metadata(directory.disk.read_file(f"{path}/{name}/{PARTITION_METADATA}"))
            for path in (directory.path, other)
        }
    except (OSError, BadCheckpoint):
        return False
    return len(ids) == 2


def load_all(
    store: LogStore,
    config_for: Callable[[str], LogConfig],
    progress: Callable[[int, int], None] | None,
    now_ms: int,
    kernel_boot_id: str | None,
    is_replicated: Callable[[TopicPartition], bool],
) -> None:
    """Load every partition of every directory into the store. Raises StartRefused when no directory can be used."""
    work: list[tuple[LogDirectory, _Checkpoints, list[str]]] = []
    for directory in store.directories:
        try:
            if kernel_boot_id is not None:
                directory.take_boot_mark(kernel_boot_id)
            directory.take_clean_mark()
            checkpoints = _Checkpoints(store, directory)
            folders = _folders(store, directory)
            _judge_restart(store, directory, folders, config_for)
            work.append((directory, checkpoints, folders))
        except OSError as error:
            _fail(store, directory, error)
        if directory.clean_epoch is None:
            store.report.was_clean = False
    total = sum(len(folders) for _, _, folders in work)
    done = 0
    for directory, checkpoints, folders in work:
        for folder in folders:
            try:
                _load_one(store, directory, checkpoints, folder, config_for, is_replicated, now_ms)
            except OSError as error:
                _fail(store, directory, error, folders)
                break
            except LogDirectoryFailure as failure:
                _fail(store, directory, failure.error, folders)
                break
            done += 1
            if progress is not None:
                progress(done, total)
        if folders and not checkpoints.was_clean:
            _sync_cuts(store, directory, folders)
    store.report.logs = len(store.logs)
    if not store.online():
        first = store.directories[0]
        raise StartRefused(
            "data-dir-failed",
            f"no data directory can be read: {first.path}: {first.failure}",
            why="every one of them failed while it was being opened",
            try_=(f"ls -l {first.path}", "look at the system's log for disk errors"),
        )


def _sync_cuts(store: LogStore, directory: LogDirectory, folders: Sequence[str]) -> None:
    """Sync truncations of recovery or of the previous process, so that no power loss undoes them behind new records."""
    if directory.failure is None:
        try:
            store.disk.sync_file_system(directory.path)
        except OSError as error:
            _fail(store, directory, error, folders)


def _judge_restart(
    store: LogStore, directory: LogDirectory, folders: Sequence[str], config_for: Callable[[str], LogConfig]
) -> None:
    """After the machine went down uncleanly, only logs with `flush.messages=1` are known to be complete."""
    if not directory.machine_restarted:
        return
    places = (parse_partition_folder(folder) for folder in folders)
    if all(config_for(place.topic).flush_messages == 1 for place in places if place is not None):
        directory.renew_boot_mark()
        return
    store.report.lossy = True
    _note(
        store,
        "warning",
        "machine-restarted",
        directory=directory.path,
        reason="the last stop was not clean: records that were not synced may be gone, so this broker counts as out of "
        "sync until it caught up",
    )


class _Checkpoints:
    """The offsets in one directory's checkpoint files; a broken file counts as absent, with an error event."""

    def __init__(self, store: LogStore, directory: LogDirectory) -> None:
        self.log_starts = self._read(store, directory, LOG_START_CHECKPOINT)
        self.cleaned = self._read(store, directory, CLEANER_CHECKPOINT)
        store.high_watermarks.update(self._read(store, directory, HIGH_WATERMARK_CHECKPOINT))
        self.was_clean = directory.clean_epoch is not None
        try:
            self.recovery_points = directory.read_recovery_points()
        except BadCheckpoint as error:
            self.recovery_points = {}
            _note(store, "error", "checkpoint-damaged", directory=directory.path, error=str(error))

    @staticmethod
    def _read(store: LogStore, directory: LogDirectory, name: str) -> dict[TopicPartition, Offset]:
        try:
            return directory.read_offsets(name)
        except BadCheckpoint as error:
            _note(store, "error", "checkpoint-damaged", directory=directory.path, file=name, error=str(error))
            return {}


def _folders(store: LogStore, directory: LogDirectory) -> list[str]:
    partitions, aside, others = directory.partition_folders()
    for name in others:
        _note(store, "warning", "folder-ignored", directory=directory.path, folder=name)
    for name in aside:
        if name.endswith(DELETE_FOLDER_SUFFIX):
            path = directory.file(name)
            store.report.leftovers.append(lambda path=path: directory.disk.remove_tree(path))  # type: ignore[misc]
        else:
            _note(store, "warning", "stray-log-kept", directory=directory.path, folder=name)
    return partitions


def _load_one(
    store: LogStore,
    directory: LogDirectory,
    checkpoints: _Checkpoints,
    folder: str,
    config_for: Callable[[str], LogConfig],
    is_replicated: Callable[[TopicPartition], bool],
    now_ms: int,
) -> None:
    topic_partition = parse_partition_folder(folder)
    assert topic_partition is not None
    loader = LogLoader(
        store.disk,
        directory.path,
        folder,
        topic_partition,
        config_for(topic_partition.topic),
        recovery_point=checkpoints.recovery_points.get(topic_partition),
        log_start_offset=checkpoints.log_starts.get(topic_partition),
        cleaned_offset=checkpoints.cleaned.get(topic_partition),
        was_clean=checkpoints.was_clean,
        keeps_written=directory.machine_went_on and is_replicated(topic_partition),
        now_ms=now_ms,
    )
    try:
        loaded = loader.load()
    except DamagedLog as damaged:
        store.unavailable[topic_partition] = Unavailable(
            directory.path,
            loader.topic_id,
            str(damaged),
            checkpoints.recovery_points.get(topic_partition),
            checkpoints.log_starts.get(topic_partition),
            checkpoints.cleaned.get(topic_partition),
        )
        _note(
            store, "error", "log-damaged", partition=folder, directory=directory.path, reason=str(damaged), served=False
        )
        return
    store.adopt(loaded.log)
    _report(store, loaded, folder)


def _report(store: LogStore, loaded: LoadedLog, folder: str) -> None:
    for warning in loaded.warnings:
        _note(store, "warning", "log-repaired", partition=folder, what=warning)
    for damage in loaded.damage:
        _note(store, "error", "log-damaged", partition=folder, reason=damage, served=True)
    recovered = loaded.recovered
    if recovered is None:
        return
    store.report.recovered_logs += 1
    store.report.truncated_bytes += recovered.truncated_bytes
    if recovered.truncated_bytes:
        _note(
            store,
            "warning",
            "log-tail-truncated",
            partition=folder,
            truncated_bytes=recovered.truncated_bytes,
            log_end_offset=loaded.log.log_end_offset,
            reason=recovered.truncated_because,
        )


def _fail(store: LogStore, directory: LogDirectory, error: OSError, folders: Sequence[str] = ()) -> None:
    store.directory_failed(directory.path, error)
    for folder in folders:
        topic_partition = parse_partition_folder(folder)
        if topic_partition is not None and topic_partition not in store.unavailable:
            reason = f"its log directory is offline: {error}"
            store.unavailable[topic_partition] = Unavailable(directory.path, NO_TOPIC_ID, reason)
    _note(store, "error", "log-directory-offline", directory=directory.path, error=str(error))


def _note(store: LogStore, level: Literal["info", "warning", "error"], event: str, **fields: object) -> None:
    store.report.events.append(StoreEvent(level, event, fields))
