"""Partitions whose high watermark moved, some of which each turn hands on for the report to the metadata store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from yak.cluster.high_watermark_sender import HighWatermarkSender
from yak.core.context import Context
from yak.replication.partition import Partition

REPORT_INTERVAL_MS = 200
"""High watermarks are reported to the store at most five times a second, unless very many moved."""
PARTITIONS_A_REPORT, NEXT_REPORT_MS = 100, 10
"""The high watermarks that one turn collects: less than 1 ms. The others follow after the pause."""


class MovedHighWatermarks:
    """The partitions whose high watermark moved since the last report."""

    def __init__(self, context: Context, sender: HighWatermarkSender, on_time: Callable[[], None]) -> None:
        self._context, self._sender, self._on_time = context, sender, on_time
        """`on_time` sends what is due."""
        self.moved: dict[Partition, None] = {}

    def forget(self, partition: Partition) -> None:
        """Forget a partition that left this broker."""
        self.moved.pop(partition, None)

    def mark(self, partition: Partition) -> None:
        """Report the partition soon: its high watermark or a replica's log end moved."""
        if not self.moved:
            self._context.after(self, REPORT_INTERVAL_MS, self._report)
        self.moved[partition] = None

    def mark_all(self, partitions: Iterable[Partition]) -> None:
        """Report everything again: the store may be another one, or its leader may know no reports."""
        for partition in partitions:
            if partition.is_leader:
                partition.reported = None
                self.mark(partition)

    def _report(self) -> None:
        moved = list(islice(self.moved, PARTITIONS_A_REPORT))
        for partition in moved:
            del self.moved[partition]
            if not partition.is_leader:
                continue
            ends = partition.log_end_offsets()
            if (partition.high_watermark, ends) != partition.reported:
                partition.reported = (partition.high_watermark, ends)
                self._sender.note(
                    partition.topic_id,
                    partition.topic_partition.partition,
                    partition.leader_epoch,
                    partition.high_watermark,
                    ends,
                )
        if self.moved:
            self._context.after(self, NEXT_REPORT_MS, self._report)
        self._on_time()
