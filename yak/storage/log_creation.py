"""Creates a new, empty log on disk: its folder, its first segment, and its topic id."""

import uuid

from yak.config.log_config import LogConfig
from yak.ids import TopicPartition
from yak.seams.disk import Disk, DiskFull
from yak.storage.checkpoints import format_partition_metadata
from yak.storage.epoch_cache import EpochCache
from yak.storage.log import Log
from yak.storage.log_directory import LogDirectory
from yak.storage.names import FRESH_MARK, PARTITION_METADATA
from yak.storage.producer_state import ProducerState
from yak.storage.segment import Segment


def create_log(
    disk: Disk,
    directory: LogDirectory,
    topic_partition: TopicPartition,
    topic_id: uuid.UUID,
    config: LogConfig,
    now_ms: int,
    *,
    is_durable: bool,
) -> Log:
    """Create the log; blocks on the device if `is_durable`. Raises OSError; after DiskFull no folder remains."""
    path = directory.file(str(topic_partition))
    has_stale_points = directory.has_points_of(topic_partition)
    disk.make_directory(path)
    try:
        segment = Segment.create(disk, path, 0, config, now_ms)
        if has_stale_points:
            disk.write_file_lazily(f"{path}/{FRESH_MARK}", b"")
        write = disk.write_file if is_durable else disk.write_file_lazily
        write(f"{path}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
    except DiskFull:
        # otherwise each retry would turn the previous attempt's folder into a stray log
        disk.remove_tree(path)
        raise
    if is_durable:
        disk.sync_directory(directory.path)
    log = Log(
        disk,
        directory.path,
        path,
        topic_partition,
        topic_id,
        config,
        [segment],
        epochs=EpochCache(),
        producers=ProducerState(),
        snapshot_offsets=[],
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        now_ms=now_ms,
    )
    log.has_stale_points = has_stale_points
    return log
