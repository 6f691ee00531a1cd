"""What the clients of a cluster were told, and what each kind of topic promises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from yak.ids import TopicPartition
from yak.sim.books import Books, PartitionBooks, Violation
from yak.sim.history import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yak.sim.history import History
    from yak.sim.recording import Recorder


class TopicPlan(NamedTuple):
    """A topic of a run. `min_isr` is the smallest that it ever has."""

    name: str
    partitions: int
    replication: int
    min_isr: int
    is_flushed: bool
    retention: tuple[tuple[str, str], ...] | None = None
    """Configs that make it give up old records; None when it never does. Its name ends with `short` then."""
    compaction: tuple[tuple[str, str], ...] | None = None
    """Configs of its compaction; None when it is not compacted."""

    def configs(self) -> dict[str, str]:
        """What CreateTopics is given."""
        configs = {"min.insync.replicas": str(self.min_isr), "segment.bytes": "4096"}
        configs |= dict(self.retention or ()) | dict(self.compaction or ())
        return configs | {"flush.messages": "1"} if self.is_flushed else configs

    @property
    def may_be_lost(self) -> bool:
        """Whether one disk may take acknowledged records with it."""
        return self.min_isr < 2


class ClusterBooks(Books):
    """Every partition promises everything, until it lost more than its topic promises to survive."""

    def __init__(self, history: History, topic_id: Callable[[str], object], recorder: Recorder) -> None:
        super().__init__()
        self._history = history
        self._topic_id = topic_id
        self.recorder = recorder

    def promises(self, topic: str, partition: int) -> bool:
        """Whether the partition is not forfeited."""
        return Key(self._topic_id(topic), partition) not in self._history.forfeited  # type: ignore[arg-type]

    def lost_sequence(self, topic: str, partition: int) -> None:
        """A leader whose log is damaged may not find what it would know a repeated batch by: it refuses it, and nothing is lost.

        So it is with one that started after retention, or a client, took the records that were still to be repeated: a snapshot
        has the last batch of a producer only.
        """
        key = Key(self._topic_id(topic), partition)  # type: ignore[arg-type]
        if key in self._history.rotten:
            self.count("sequence lost by damage")
        elif any(copy.has_lost_sequences for copy in self._history.copies.get(key, {}).values()):
            self.count("sequence lost with deleted records")
        else:
            super().lost_sequence(topic, partition)

    def partitions(self) -> list[tuple[TopicPartition, PartitionBooks]]:
        """The books of all partitions that still promise something."""
        found = [(each, held) for each, held in super().partitions() if self.promises(*each)]
        for each, held in found:
            held.taken = self.taken(*each)
        return found

    def taken(self, topic: str, partition: int) -> Mapping[int, int]:
        """Offsets that compaction took away from some replica, and when first, in simulated microseconds."""
        originals = self._history.originals.get(Key(self._topic_id(topic), partition))  # type: ignore[arg-type]
        return {} if originals is None else originals.taken

    def sent(self, topic: str, partition: int, values: list[bytes]) -> None:
        """Values are on their way."""
        super().sent(topic, partition, values)
        self.recorder.sent((topic, partition), values)

    def refused_for_good(self, values: list[bytes]) -> None:
        """Values were certainly not appended, and their writer does not send them again."""
        self.recorder.refused(values)
        self.count("refused for good", len(values))

    def acknowledged(self, topic: str, partition: int, base_offset: int, values: list[bytes]) -> None:
        """Nothing is acknowledged that no high watermark passed."""
        self.recorder.acknowledged(base_offset, values)
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

    def read_by_another(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        """A member of a group got this record; that it was read at all is what the consumer of the partition shows."""
        if not self.promises(topic, partition):
            return
        if offset >= high_watermark:
            raise Violation(
                f"I9: {topic}-{partition}@{offset} was read at or above the high watermark {high_watermark}"
            )
        if value not in self.of(topic, partition).sent:
            raise Violation(f"I10: {topic}-{partition}@{offset} holds {value!r}, which nobody sent")
        self.count("read by members")
        self._is_committed(topic, partition, offset, "read")

    def damaged(self, topic: str, partition: int, offset: int) -> None:
        """Only what flipped or was read wrong may come like that, and it must be noticed here."""
        if not self._history.may_be_damaged:
            super().damaged(topic, partition, offset)
        self.count("damage noticed by consumers")

    def log_begins(self, topic: str, partition: int, log_start_offset: int) -> None:
        """Nothing is given up that no high watermark passed (I18)."""
        if self.promises(topic, partition):
            super().log_begins(topic, partition, log_start_offset)
            if log_start_offset:
                self._is_committed(topic, partition, log_start_offset - 1, "given up")

    def position_lost(self, topic: str, partition: int, position: int, log_start_offset: int) -> int:
        """A consumer's place was given up."""
        self.count("positions given up")
        return super().position_lost(topic, partition, position, log_start_offset)

    def committed_ends(self, topic: str, partition: int) -> list[int]:
        """Where the batches end that were committed."""
        committed = self._history.committed.get(Key(self._topic_id(topic), partition))  # type: ignore[arg-type]
        return [] if committed is None else committed.ends

    def _is_committed(self, topic: str, partition: int, offset: int, verb: str) -> None:
        committed = self._history.committed.get(Key(self._topic_id(topic), partition))  # type: ignore[arg-type]
        end = 0 if committed is None else committed.end
        if offset >= end:
            raise Violation(f"I9: {topic}-{partition}@{offset} was {verb}, but only what is below {end} is committed")
