"""What the clients of a cluster were told, and what each kind of topic promises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from yak.ids import TopicPartition
from yak.sim.books import Books, PartitionBooks, Violation
from yak.sim.history import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from yak.sim.history import History


class TopicPlan(NamedTuple):
    """A topic of a run. `min_isr` is the smallest that it ever has."""

    name: str
    partitions: int
    replication: int
    min_isr: int
    is_flushed: bool

    def configs(self) -> dict[str, str]:
        """What CreateTopics is given."""
        configs = {"min.insync.replicas": str(self.min_isr), "segment.bytes": "4096"}
        return configs | {"flush.messages": "1"} if self.is_flushed else configs

    @property
    def may_be_lost(self) -> bool:
        """Whether one disk may take acknowledged records with it."""
        return self.min_isr < 2


class ClusterBooks(Books):
    """Every partition promises everything, until it lost more than its topic promises to survive."""

    def __init__(self, history: History, topic_id: Callable[[str], object]) -> None:
        super().__init__()
        self._history = history
        self._topic_id = topic_id

    def promises(self, topic: str, partition: int) -> bool:
        """Whether the partition is not forfeited."""
        return Key(self._topic_id(topic), partition) not in self._history.forfeited  # type: ignore[arg-type]

    def partitions(self) -> list[tuple[TopicPartition, PartitionBooks]]:
        """The books of all partitions that still promise something."""
        return [(each, held) for each, held in super().partitions() if self.promises(*each)]

    def acknowledged(self, topic: str, partition: int, base_offset: int, values: list[bytes]) -> None:
        """Nothing is acknowledged that no high watermark passed."""
        if not self.promises(topic, partition):
            self.count("acknowledged in forfeited partitions", len(values))
            return
        super().acknowledged(topic, partition, base_offset, values)
        self._is_committed(topic, partition, base_offset + len(values) - 1, "acknowledged")

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        """Nothing is served that no high watermark passed."""
        if self.promises(topic, partition):
            super().read(topic, partition, offset, value, high_watermark)
            self._is_committed(topic, partition, offset, "read")

    def _is_committed(self, topic: str, partition: int, offset: int, verb: str) -> None:
        committed = self._history.committed.get(Key(self._topic_id(topic), partition))  # type: ignore[arg-type]
        end = 0 if committed is None else committed.end
        if offset >= end:
            raise Violation(f"I9: {topic}-{partition}@{offset} was {verb}, but only what is below {end} is committed")
