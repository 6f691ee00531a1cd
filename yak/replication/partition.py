"""One partition as this broker holds it: its role and epochs, its log, and its high watermark.

The high watermark is the smallest log end offset over the in-sync set; with one replica that is the log's own end, or
the end of what is on the device where every message must be flushed before it counts (`flush.messages=1`).

Who waits on a partition is kept by name in it, so a wake-up touches only those (`waiting_produces` in offset order,
`waiting_fetches` and `sessions` in the order they came).
"""

from __future__ import annotations

import uuid
from collections import deque
from typing import Any

from yak.ids import LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicPartition
from yak.storage.log import Log


class Partition:
    """A replica on this broker. `log` is None while its log directory is offline."""

    __slots__ = (
        "appended_bytes",
        "flush_running",
        "flush_wanted",
        "high_watermark",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "partition_epoch",
        "pending_appends",
        "replicas",
        "reported_high_watermark",
        "sessions",
        "topic_id",
        "topic_partition",
        "waiting_fetches",
        "waiting_flushes",
        "waiting_produces",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: uuid.UUID, log: Log | None) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_id: NodeId = -1
        self.leader_epoch: LeaderEpoch = -1
        self.partition_epoch: PartitionEpoch = -1
        self.isr: tuple[NodeId, ...] = ()
        self.replicas: tuple[NodeId, ...] = ()
        self.is_leader = False
        self.high_watermark: Offset = 0
        self.reported_high_watermark: Offset = -1
        self.appended_bytes = 0
        """Bytes made visible so far by this process; parked fetches compare it with what they saw."""
        self.flush_running = False
        self.flush_wanted = False
        self.waiting_produces: deque[Any] | None = None
        self.waiting_flushes: deque[Any] | None = None
        self.waiting_fetches: dict[Any, None] | None = None
        self.sessions: dict[Any, Any] | None = None
        self.pending_appends: deque[Any] | None = None
        """Batches that are being recompressed, and those that came after them, in order."""

    def become(
        self,
        *,
        node_id: NodeId,
        leader_id: NodeId,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        replicas: tuple[NodeId, ...],
        isr: tuple[NodeId, ...],
    ) -> bool:
        """Take the state that the metadata log gives; an older partition epoch changes nothing.

        Returns whether leadership or the leader's epoch changed, so that waiting requests must be told.
        """
        if partition_epoch < self.partition_epoch or leader_epoch < self.leader_epoch:
            return False
        changed = leader_epoch != self.leader_epoch or leader_id != self.leader_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        self.is_leader = leader_id == node_id
        if changed and self.is_leader and self.log is not None:
            self.log.assign_epoch(leader_epoch)
            self.advance_high_watermark()
        return changed

    def advance_high_watermark(self) -> bool:
        """Move the high watermark up to the smallest log end offset over the in-sync set; it never moves back.

        Where every message is flushed, only what is on the device counts. Returns whether it moved.
        """
        log = self.log
        assert log is not None, "an offline partition commits nothing"
        end = log.log_end_offset
        if log.config.flush_messages == 1 and log.recovery_point < end:
            end = log.recovery_point
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    @property
    def log_start_offset(self) -> Offset:
        """First offset that can be read; -1 while the log directory is offline."""
        return -1 if self.log is None else self.log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """Offset of the next record; -1 while the log directory is offline."""
        return -1 if self.log is None else self.log.log_end_offset
