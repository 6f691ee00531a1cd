"""The follower's append: records, the leader's log start, and its high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.protocol.record_batch import HEADER_BYTES
from yak.protocol.replica_fetch import FetchedPartition
from yak.replication.partition import Partition
from yak.storage.log import Log

if TYPE_CHECKING:
    from yak.broker.broker import Broker


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
