"""A high watermark never falls within one incarnation of a broker, and lies between log start and log end."""

from __future__ import annotations

import uuid

from yak.ids import TopicPartition
from yak.sim.deliveries import Violation
from yak.sim.history import Watcher
from yak.sim.node import SimNode


class WatermarkNeverFalls(Watcher):
    """Remembers each partition's high watermark."""

    def __init__(self) -> None:
        self._life = -1
        self._seen: dict[tuple[TopicPartition, uuid.UUID], int] = {}

    def stepped(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        if self._life != node.starts_count:
            self._life = node.starts_count
            self._seen.clear()
        for topic_partition, partition in broker.partitions.items():
            high_watermark = partition.high_watermark
            key = (topic_partition, partition.topic_id)
            before = self._seen.get(key, 0)
            if high_watermark < before:
                raise Violation(f"{topic_partition}: high watermark fell from {before} to {high_watermark}")
            log = partition.log
            if log is not None and not log.log_start_offset <= high_watermark <= log.log_end_offset:
                raise Violation(
                    f"{topic_partition}: high watermark {high_watermark} outside of"
                    f" {log.log_start_offset}..{log.log_end_offset}"
                )
            self._seen[key] = high_watermark
