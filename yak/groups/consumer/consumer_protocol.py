"""The subscriptions and assignments embedded in the classic protocol (ConsumerProtocol*.json).

No request schema covers these bytes, so they are validated here. As in clients, a newer version is read as version 3,
and trailing bytes are ignored (ConsumerProtocol.java).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from yak.groups.consumer.partitions import Partitions, by_topic
from yak.groups.consumer.topics import TopicsView
from yak.protocol.record_fields import FieldReader, FieldWriter, UnreadableRecord

VERSION_MAX = 3
NamedPartitions: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member subscribes to, and the partitions it owned (since version 1; before, it revokes all)."""

    version: int
    topics: tuple[str, ...]
    owned: NamedPartitions = ()
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions assigned to a member, with the user data of a custom assignor."""

    partitions: NamedPartitions
    user_data: bytes | None = None


def read_subscription(data: bytes) -> Subscription:
    """Decode a subscription. Raises UnreadableRecord."""
    reader = FieldReader(data)
    version = _version(reader)
    topics = tuple(reader.array(reader.text))
    reader.nullable_blob()
    owned = _read_topics(reader) if version >= 1 else ()
    if version >= 2:
        reader.int32()
    rack_id = reader.nullable_text() if version >= 3 else None
    return Subscription(version, topics, owned, rack_id or None)


def subscription_version(data: bytes) -> int:
    """The version of a subscription; 0, which every member understands, when it is unreadable."""
    try:
        return read_subscription(data).version
    except UnreadableRecord:
        return 0


def read_assignment(data: bytes) -> Assignment:
    """Decode an assignment; empty bytes, as before the first SyncGroup, are an empty one. Raises UnreadableRecord."""
    if not data:
        return Assignment(())
    reader = FieldReader(data)
    _version(reader)
    return Assignment(_read_topics(reader), reader.nullable_blob())


def assignment_bytes(partitions: Partitions, version: int, topics: TopicsView) -> bytes:
    """Encode an assignment in the version of the member's subscription. Deleted topics are left out."""
    named = [(topics.name(topic_id), numbers) for topic_id, numbers in by_topic(partitions)]
    known = [(name, numbers) for name, numbers in named if name is not None]
    out = FieldWriter().int16(min(version, VERSION_MAX)).int32(len(known))
    for name, numbers in known:
        out.text(name).int32s(numbers)
    return out.int32(-1).done()


def with_ids(named: Iterable[tuple[str, Iterable[int]]], topics: TopicsView) -> Partitions:
    """These partitions by topic id. Deleted topics are left out."""
    found = ((topics.topic_id(name), numbers) for name, numbers in named)
    return frozenset((topic_id, number) for topic_id, numbers in found if topic_id is not None for number in numbers)


def _version(reader: FieldReader) -> int:
    version = reader.int16()
    if version < 0:
        raise UnreadableRecord(f"version {version} of the consumer protocol")
    return min(version, VERSION_MAX)


def _read_topics(reader: FieldReader) -> NamedPartitions:
    def topic() -> tuple[str, tuple[int, ...]]:
        return reader.text(), tuple(reader.array(lambda: reader.int32(least=0)))

    return tuple(reader.array(topic))
