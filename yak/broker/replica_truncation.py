"""Cutting a follower's log to where it may agree with its leader's: by epochs, never by a high watermark.

Rules: Kafka's AbstractFetcherThread.getOffsetTruncationState (KIP-101, KIP-279, KIP-595). One cut may not be enough when
several leaders came and went; the next fetch tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.protocol.hot import DivergingEpoch
from yak.replication.partition import Partition
from yak.storage.log import Log

if TYPE_CHECKING:
    from yak.broker.broker import Broker


def truncate(broker: Broker, partition: Partition, log: Log, diverging: DivergingEpoch) -> None:
    """Drop what the leader does not have. Raises LogDirectoryFailure."""
    end = log.log_end_offset
    target = min(diverging.end_offset, end)
    epoch, own_end = log.end_offset_for_epoch(diverging.epoch)
    if epoch >= 0:
        target = min(target, own_end)
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
