"""Closing one log for a clean stop."""

from yak.storage.log import Log
from yak.storage.names import LEADER_EPOCH_CHECKPOINT
from yak.storage.segment import IndexUnreadable
from yak.storage.truncation import sync_cut


def close_log(log: Log) -> None:
    """Sync one log completely, so that the next start knows its end without reading it.

    Raises OSError, LogDirectoryFailure.
    """
    if log.unsynced_cut is not None:
        sync_cut(log)
    is_empty = not log.size_bytes
    has_snapshot = is_empty or log.log_end_offset in log.snapshot_offsets
    is_flushed = log.recovery_point == log.log_end_offset and not log.names_changed and not log.epochs.dirty
    if is_flushed and has_snapshot and log.active.offset_index.saved_count == log.active.offset_index.count:
        return
    if not has_snapshot:
        log.write_snapshot()
    plan = log.flush_plan()
    try:
        log.active.close_for_appends()
    except IndexUnreadable:
        # an index of an impossible size: the next start rebuilds it
        log.active.offset_index.reset()
        log.active.time_index.reset()
    plan.run()
    _sync_indexes(log)
    if log.epochs.entries and not log.disk.exists(f"{log.path}/{LEADER_EPOCH_CHECKPOINT}"):
        log.disk.write_file(f"{log.path}/{LEADER_EPOCH_CHECKPOINT}", log.epochs.to_bytes())
    log.flushed(plan)


def _sync_indexes(log: Log) -> None:
    for suffix in (".index", ".timeindex"):
        path = log.active.path(suffix)
        if log.disk.exists(path):
            log.disk.open(path).sync()
