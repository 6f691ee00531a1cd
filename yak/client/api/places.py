"""A consumer's start offsets: the log's bounds, committed offsets, and names or times resolved to offsets."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from yak.client.api.failures import explaining, translated, with_notes
from yak.client.metadata import read_metadata
from yak.errors import UsageError, YakError
from yak.ids import Offset, TopicPartition

Where: TypeAlias = Offset | Literal["earliest", "latest"]
OffsetReset: TypeAlias = Literal["earliest", "latest", "error"]


class Places:
    """Offset requests through a consumer's librdkafka handle. Raises YakError."""

    def __init__(self, handle: Any, *, has_group: bool, reset: OffsetReset, timeout_s: float) -> None:
        from confluent_kafka import TopicPartition as Wire

        self._handle = handle
        self._has_group = has_group
        self._reset = reset
        self._timeout_s = timeout_s
        self._wire: Any = Wire

    def partitions(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions, by number."""
        with explaining(f'the partitions of "{topic}" are not known'):
            found = read_metadata(self._handle, timeout_s=self._timeout_s).require_topic(topic)
        return [TopicPartition(topic, each.number) for each in found.partitions]

    def require(self, partitions: Iterable[TopicPartition]) -> None:
        """Check that the partitions exist: librdkafka waits silently for a missing one."""
        with explaining("the partitions could not be assigned"):
            metadata = read_metadata(self._handle, timeout_s=self._timeout_s)
            for each in partitions:
                count = len(metadata.require_topic(each.topic).partitions)
                if not 0 <= each.partition < count:
                    why = f'topic "{each.topic}" has {count}, numbered from 0'
                    raise YakError("unknown-partition", f"{each} does not exist", why=why)

    def watermarks(self, partition: TopicPartition) -> tuple[Offset, Offset]:
        """The log start offset, and the end: the offset of the next record."""
        with explaining(f"the offsets of {partition} are not known"):
            low, high = self._handle.get_watermark_offsets(self._wire(*partition), self._timeout_s)
        return int(low), int(high)

    def at_time(self, partition: TopicPartition, timestamp_ms: int) -> Offset:
        """The first offset at or after a time; the end when all records are older."""
        what = f"the offsets of {partition} are not known"
        with explaining(what):
            (found,) = self._handle.offsets_for_times([self._wire(*partition, timestamp_ms)], self._timeout_s)
        if found.error is not None:
            raise translated(found.error, what)
        return int(found.offset) if found.offset >= 0 else self.watermarks(partition)[1]

    def resolve(self, partition: TopicPartition, where: Where) -> Offset:
        """Resolve an offset or a name to an offset. Raises UsageError."""
        if isinstance(where, int) and where >= 0:
            return where
        if where in ("earliest", "latest"):
            return self.watermarks(partition)[where == "latest"]
        raise with_notes(
            UsageError(
                "usage",
                f"{where!r} is no place in {partition}",
                why="a place is an offset from 0 on, or a name",
                try_=('"earliest"', '"latest"', "consumer.offset_for_time(partition, timestamp_ms)"),
            )
        )

    def own_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The default start offsets: the group's committed offsets, else as `auto_offset_reset` says."""
        committed = self.committed(partitions) if self._has_group else {}
        starts: dict[TopicPartition, Offset] = {}
        for each in partitions:
            found = committed.get(each)
            starts[each] = self._reset_of(each) if found is None else found
        return starts

    def _reset_of(self, partition: TopicPartition) -> Offset:
        if self._reset != "error":
            return self.resolve(partition, self._reset)
        raise with_notes(
            YakError(
                "no-offset",
                f"where to begin in {partition} is not known",
                why='nothing is committed, and auto_offset_reset="error"',
                try_=("consumer.assign({partition: offset})", 'auto_offset_reset="earliest"'),
            )
        )

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Offset | None]:
        """The group's committed offsets; None without one."""
        what = f"what is committed for {', '.join(map(str, partitions))} is not known"
        with explaining(what):
            wires = self._handle.committed([self._wire(*each) for each in partitions], self._timeout_s)
        for wire in wires:
            if wire.error is not None:
                raise translated(wire.error, what)
        return {TopicPartition(w.topic, w.partition): int(w.offset) if w.offset >= 0 else None for w in wires}
