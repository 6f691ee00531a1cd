"""The follower's append: records, the leader's log start, and its high watermark."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from yak.errors import ProtocolViolation
from yak.ids import Offset
from yak.protocol.record_batch import HEADER_BYTES, Buffer, read_header
from yak.protocol.replica_fetch import FetchedPartition
from yak.replication.partition import Partition
from yak.storage.log import Log

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_BASE_OFFSET: Final = struct.Struct(">q")


def append(broker: Broker, partition: Partition, log: Log, fetched: FetchedPartition) -> bool:
    """Append the leader's records; returns whether the log start moved.

    Raises LogDirectoryFailure, and ProtocolViolation for broken batches.
    """
    count = len(fetched.records)
    if count >= HEADER_BYTES:
        partition.appended_bytes += count
        log.append_as_follower(fetched.records, broker.now_ms, partition.leader_epoch)
        broker.counters.replication_bytes_in += count
    log_start = min(fetched.log_start_offset, log.log_end_offset)
    start_moved = log.log_start_offset < log_start
    if start_moved:
        log.advance_log_start(log_start)
        broker.log_start_moved(partition)
    if partition.follow_high_watermark(fetched.high_watermark):
        broker.advanced(partition)
    return start_moved


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
    if read_header(records).base_offset > log.log_end_offset and log.may_have_gaps:
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
