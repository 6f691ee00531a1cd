"""DeleteRecords requests that wait until every live replica deleted the records (Kafka's DelayedDeleteRecords).

The low watermark of a partition is the smallest log start offset of its live replicas. The leader advances its own at
once. Followers advance theirs with their next fetch, and report it in the one after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from yak.core.context import Context
from yak.ids import Offset
from yak.lifecycle.liveness import is_serving
from yak.replication.partition import Partition

W = TypeVar("W")
"""A request that waits."""


class RecordDeletions(Generic[W]):
    """The delayed DeleteRecords of each partition."""

    def __init__(self, context: Context, try_complete: Callable[[W], None]) -> None:
        self._context, self._try_complete = context, try_complete
        self._waiting: dict[Partition, dict[W, None]] = {}

    def low_watermark(self, partition: Partition) -> Offset:
        """The smallest log start offset of the live replicas of a partition that this broker leads.

        A follower that has not fetched yet counts as -1.
        """
        brokers = self._context.image.brokers
        lowest = partition.log_start_offset
        for node_id, replica in partition.replica_states.items():
            if is_serving(brokers.get(node_id)):
                lowest = min(lowest, replica.log_start_offset)
        return lowest

    def on_log_start(self, partition: Partition) -> None:
        """A replica's log start moved, or the partition has another leader or none."""
        for waiting in list(self._waiting.get(partition, ())):
            self._try_complete(waiting)

    def on_brokers(self) -> None:
        """The live brokers changed: deletions no longer wait for a fenced replica."""
        for partition in list(self._waiting):
            self.on_log_start(partition)

    def add(self, partition: Partition, waiting: W) -> None:
        """Register `waiting` with the partition."""
        self._waiting.setdefault(partition, {})[waiting] = None

    def remove(self, waiting: W) -> None:
        """Remove `waiting` from all partitions."""
        for partition, held in list(self._waiting.items()):
            held.pop(waiting, None)
            if not held:
                del self._waiting[partition]
