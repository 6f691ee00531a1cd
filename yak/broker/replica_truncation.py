"""Truncation of a follower's log to where it may match its leader's: by leader epochs, never by a high watermark.

Rules: Kafka's AbstractFetcherThread.getOffsetTruncationState (KIP-101, KIP-279, KIP-595). After several elections one
truncation may not be enough; the next fetch shows it. A log that ends before the leader's log start is dropped, and
begins there (full resync). So is a log that diverges no later than that start: the leader cannot prove any common
record.

A truncation runs in this turn or a later one. Nothing is fetched until it is on the device (`yak.broker.cuts`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from yak.broker.cuts import Cut
from yak.errors import ProtocolViolation
from yak.ids import Offset
from yak.protocol.hot import DivergingEpoch
from yak.protocol.record_batch import Buffer, read_header
from yak.protocol.replica_fetch import FetchedPartition, WantedPartition
from yak.replication.partition import Partition
from yak.storage.cleanable import may_have_gaps
from yak.storage.log import Log
from yak.storage.truncation import lowest_kept

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_BASE_OFFSET: Final = struct.Struct(">q")


def wanted(partition: Partition, log: Log, max_bytes: int) -> WantedPartition:
    """The partition's part of a fetch: the log end and last fetched epoch, by which the leader finds a divergence."""
    end = log.log_end_offset
    last_epoch = log.epochs.epoch_for(end - 1) if end > log.log_start_offset else -1
    return WantedPartition(
        partition.topic_partition.partition, partition.leader_epoch, end, last_epoch, log.log_start_offset, max_bytes
    )


def truncate(
    broker: Broker, partition: Partition, log: Log, diverging: DivergingEpoch, leaders_log_start: Offset
) -> None:
    """Truncate records that the leader lacks; all of them, where the logs diverge before the leader's log start.

    Raises ProtocolViolation for an offset outside of this log: the leader would repeat it for ever.
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
    broker.replication.cuts.begin(
        Cut(partition, log, lambda: lowest_kept(log, target), lambda: _truncate(broker, partition, log, target))
    )


def _truncate(broker: Broker, partition: Partition, log: Log, target: Offset) -> None:
    end, before = log.log_end_offset, partition.high_watermark
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
    """The leader has deleted the next records: drop the whole log and begin at the leader's log start."""
    broker.notice(
        "warning",
        "replica-fully-truncated",
        partition=str(partition.topic_partition),
        log_end_offset=log.log_end_offset,
        leaders_log_start_offset=offset,
    )
    _begin_at(broker, partition, log, offset)


def _begin_at(
    broker: Broker, partition: Partition, log: Log, offset: Offset, then: Callable[[], None] | None = None
) -> None:
    def carry_out() -> None:
        log.truncate_fully_and_start_at(offset, broker.now_ms)
        partition.log_was_cut()

    broker.replication.cuts.begin(Cut(partition, log, lambda: min(offset, log.log_start_offset), carry_out, then))


def may_follow(log: Log, records: Buffer, asked_offset: Offset) -> bool:
    """Whether these records, fetched when the log ended at `asked_offset`, follow its end.

    They may begin behind a gap that compaction left. Raises ProtocolViolation when the log still ends at
    `asked_offset`, and they neither follow nor begin inside of it: the leader's log is damaged.
    """
    (base_offset,) = _BASE_OFFSET.unpack_from(records)
    if base_offset == log.log_end_offset:
        return True
    if asked_offset != log.log_end_offset:
        return False
    if read_header(records).base_offset > log.log_end_offset and may_have_gaps(log):
        return True
    if not begins_inside(log, records):
        raise ProtocolViolation(f"the leader sent offset {base_offset}, the log ends at {log.log_end_offset}")
    return False


def begins_inside(log: Log, records: Buffer) -> bool:
    """Whether these records begin with the batch that contains the start of this empty log.

    DeleteRecords may move the leader's log start into a batch, and batches are sent whole (Kafka's
    UnexpectedAppendOffsetException in Partition.doAppendRecordsToFollowerOrFutureReplica).
    """
    start = log.log_end_offset
    if log.log_start_offset != start:
        return False
    header = read_header(records)
    return 0 <= header.base_offset < start <= header.last_offset


def begin_inside(
    broker: Broker, partition: Partition, log: Log, fetched: FetchedPartition, then: Callable[[], None]
) -> None:
    """Begin the empty log again at the base offset of these records; then call `then`, to append them."""
    _begin_at(broker, partition, log, read_header(fetched.records).base_offset, then)
