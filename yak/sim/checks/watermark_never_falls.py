"""The high watermark never falls in one life of a broker, and stands between log start and log end."""

from __future__ import annotations

from yak.ids import TopicPartition
from yak.sim.books import Violation
from yak.sim.node import SimNode


class WatermarkNeverFalls:
    """Remembers each partition's high watermark."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._life = -1
        self._seen: dict[TopicPartition, int] = {}

    def __call__(self) -> None:
        """Check all partitions."""
        broker = self._node.broker
        if broker is None:
            return
        if self._life != self._node.starts_count:
            self._life = self._node.starts_count
            self._seen.clear()
        for topic_partition, partition in broker.partitions.items():
            high_watermark = partition.high_watermark
            before = self._seen.get(topic_partition, 0)
            if high_watermark < before:
                raise Violation(f"{topic_partition}: high watermark fell from {before} to {high_watermark}")
            log = partition.log
            if log is not None and not log.log_start_offset <= high_watermark <= log.log_end_offset:
                raise Violation(
                    f"{topic_partition}: high watermark {high_watermark} outside of"
                    f" {log.log_start_offset}..{log.log_end_offset}"
                )
            self._seen[topic_partition] = high_watermark
