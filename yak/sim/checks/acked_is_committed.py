"""Acknowledged records are below the high watermark, and stay there.

This holds over every kill, and over a power loss for flushed records.
"""

from __future__ import annotations

from yak.sim.deliveries import Deliveries, Violation
from yak.sim.history import Watcher
from yak.sim.node import SimNode


class AckedIsCommitted(Watcher):
    """Compares the newest acknowledged offset of each partition with the broker's high watermark."""

    def __init__(self, held: Deliveries) -> None:
        self._deliveries = held

    def stepped(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None or not node.is_ready:
            return
        for topic_partition, held in self._deliveries.partitions():
            if not held.acked:
                continue
            partition = broker.partitions.get(topic_partition)
            newest = next(reversed(held.acked))
            if partition is None:
                raise Violation(f"{topic_partition} is gone with its acknowledged records")
            if partition.log is not None and partition.high_watermark <= newest:
                raise Violation(
                    f"{topic_partition}@{newest} was acknowledged, but the high watermark is {partition.high_watermark}"
                )
