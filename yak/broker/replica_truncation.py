"""Cutting a follower's log to where it may agree with its leader's: by epochs, never by a high watermark.

Rules: Kafka's AbstractFetcherThread.getOffsetTruncationState (KIP-101, KIP-279, KIP-595). One cut may not be enough when
several leaders came and went; the next fetch tells. A log that ends before its leader's begins starts anew there, and so does
one that parts from it no later: nobody can tell any more what of it the leader had.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from yak.errors import ProtocolViolation
from yak.ids import Offset
from yak.protocol.hot import DivergingEpoch
from yak.protocol.record_batch import BatchHeader, Buffer, read_header
from yak.protocol.replica_fetch import WantedPartition
from yak.replication.partition import Partition
from yak.storage.follower import may_have_gaps
from yak.storage.log import Log

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_BASE_OFFSET: Final = struct.Struct(">q")


def wanted(partition: Partition, log: Log, max_bytes: int) -> WantedPartition:
    """What to ask the leader for: what follows our log, and the epoch of its last record, which tells where the logs part."""
    end = log.log_end_offset
    last_epoch = log.epochs.epoch_for(end - 1) if end > log.log_start_offset else -1
    return WantedPartition(
        partition.topic_partition.partition, partition.leader_epoch, end, last_epoch, log.log_start_offset, max_bytes
    )


def truncate(
    broker: Broker, partition: Partition, log: Log, diverging: DivergingEpoch, leaders_log_start: Offset
) -> None:
    """Drop what the leader does not have; all, where the logs part before the leader's begins.

    Raises LogDirectoryFailure, and ProtocolViolation for a place that is not in our log: it would be told so for ever.
    """
    end = log.log_end_offset
    target = min(diverging.end_offset, end)
    epoch, own_end = log.end_offset_for_epoch(diverging.epoch)
    if epoch >= 0:
        target = min(target, own_end)
    if not 0 <= target < end:
        raise ProtocolViolation(f"the leader says that the logs part at {diverging.end_offset}, ours ends at {end}")
    if log.log_start_offset < leaders_log_start and diverging.end_offset <= leaders_log_start:
        start_anew(broker, partition, log, leaders_log_start)
        return
    before = partition.high_watermark
    log.truncate_to(target)
    if log.log_end_offset < end:
        broker.notice(
            "info",
            "log-truncated",
            partition=str(partition.topic_partition),
            leader_epoch=partition.leader_epoch,
            from_offset=end,
            to_offset=log.log_end_offset,
        )
    if partition.log_was_cut():
        broker.notice(
            "error",
            "truncated-below-high-watermark",
            partition=str(partition.topic_partition),
            high_watermark=before,
            to_offset=log.log_end_offset,
        )
    log.epochs.truncate_from_end(log.log_end_offset)


def start_anew(broker: Broker, partition: Partition, log: Log, offset: Offset) -> None:
    """The leader let go of what is or would come next here: drop all, and begin where its log does. Raises LogDirectoryFailure."""
    broker.notice(
        "warning",
        "replica-starts-anew",
        partition=str(partition.topic_partition),
        log_end_offset=log.log_end_offset,
        leaders_log_start_offset=offset,
    )
    log.truncate_fully_and_start_at(offset, broker.now_ms)
    partition.log_was_cut()


def may_follow(log: Log, records: Buffer, asked_offset: Offset, now_ms: int) -> bool:
    """Whether these records, an answer to where the log ended at `asked_offset`, are what comes next in it.

    They may begin behind a gap, where compaction left the leader nothing; or inside a batch, and the log is begun anew there.
    Raises LogDirectoryFailure.
    """
    (base_offset,) = _BASE_OFFSET.unpack_from(records)
    if base_offset == log.log_end_offset:
        return True
    header = read_header(records)
    if header.base_offset > log.log_end_offset:
        return asked_offset == log.log_end_offset and may_have_gaps(log)
    return _begin_inside_batch(log, header, now_ms)


def _begin_inside_batch(log: Log, header: BatchHeader, now_ms: int) -> bool:
    """Let an empty log begin where these records do, when it was to begin inside their first batch; tells whether it does.

    DeleteRecords may leave the leader's log start there, and batches are given whole (Kafka's UnexpectedAppendOffsetException
    in Partition.doAppendRecordsToFollowerOrFutureReplica). Raises LogDirectoryFailure.
    """
    start = log.log_end_offset
    if log.log_start_offset != start or not 0 <= header.base_offset < start <= header.last_offset:
        return False
    log.truncate_fully_and_start_at(header.base_offset, now_ms)
    return True
