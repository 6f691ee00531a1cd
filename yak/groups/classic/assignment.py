"""The assignment of a member of a classic consumer group (Kafka's ConsumerProtocolAssignment)."""

from __future__ import annotations

from yak.groups.fields import BadGroupRecord, Reader
from yak.ids import TopicPartition


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions, in order; None when the bytes are unreadable, since the members choose their format."""
    if not assignment:
        return ()
    try:
        reader = Reader(assignment)
        reader.int16()
        found: list[TopicPartition] = []
        for _ in range(reader.count()):
            topic = reader.text()
            found += [TopicPartition(topic, reader.int32()) for _ in range(reader.count())]
    except BadGroupRecord:
        return None
    return tuple(sorted(found))
