"""The committed offsets of a group, one for each partition, those of open transactions, and the records of both.

Key version 1 is (group, topic, partition). YAK writes value version 4, which has the topic's id as a tagged field;
versions below 3 have no leader epoch. (Kafka's OffsetCommitKey.json and OffsetCommitValue.json.)
"""

from __future__ import annotations

import struct
import uuid
from bisect import bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

from yak.groups.record import Record
from yak.ids import LeaderEpoch, Offset, ProducerId
from yak.protocol.record_fields import FieldReader, FieldWriter, UnreadableRecord
from yak.protocol.varint import uvarint

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The leader of a group's partition of this topic is the group's coordinator (`yak.core.placement`)."""
KEY_VERSION: Final = 1
_KEY_VERSIONS: Final = (0, KEY_VERSION)
_VALUE_VERSION: Final = 4
_EPOCH_VALUE_VERSION: Final = 3
_EXPIRING_VALUE_VERSION: Final = 1
_TOPIC_ID_TAG: Final = 0
_TOPIC_ID_FRONT: Final = bytes([1, _TOPIC_ID_TAG, 16])
"""One tagged field, of 16 bytes."""
_INDEX, _FRONT, _TIME = struct.Struct(">i"), struct.Struct(">hqi"), struct.Struct(">q")
NO_EXPIRY: Final = -1


class Committed(NamedTuple):
    """A committed offset. `leader_epoch` is -1 when the client did not send one.

    `expire_ms` is the expiry time when the client set one (OffsetCommit v2 to v4), else NO_EXPIRY. `record_offset` is
    where its record is in the log. `topic_id` is None in records of versions below 4.
    """

    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY
    topic_id: uuid.UUID | None = None
    record_offset: Offset = -1

    def is_of_another(self, topic_id: uuid.UUID) -> bool:
        """Whether it was committed for another topic of the name (OffsetMetadataManager.isMismatchedTopicId)."""
        return self.topic_id is not None and self.topic_id != topic_id


def offset_record(group_id: str, topic: str, partition: int, committed: Committed | None) -> Record:
    """The record of one committed offset; for None, its tombstone."""
    key = _key_front(group_id, topic) + _INDEX.pack(partition)
    if committed is None:
        return Record(key, None)
    if committed.expire_ms == NO_EXPIRY:
        # one request may commit 10,000: `FieldWriter` takes five times as long
        metadata = committed.metadata.encode()
        front = _FRONT.pack(_VALUE_VERSION, committed.offset, committed.leader_epoch)
        tags = b"\0" if committed.topic_id is None else _TOPIC_ID_FRONT + committed.topic_id.bytes
        length, commit_time = uvarint(len(metadata) + 1), _TIME.pack(committed.commit_ms)
        return Record(key, b"".join((front, length, metadata, commit_time, tags)))
    # Only this version has an expiry time. It has no leader epoch and no topic id.
    value = FieldWriter().int16(_EXPIRING_VALUE_VERSION).int64(committed.offset).text(committed.metadata)
    return Record(key, value.int64(committed.commit_ms).int64(committed.expire_ms).done())


@lru_cache(maxsize=1_000)
def _key_front(group_id: str, topic: str) -> bytes:
    """The key of an offset up to the partition."""
    return FieldWriter().int16(KEY_VERSION).text(group_id).text(topic).done()


def is_offset_key(key: bytes) -> bool:
    """Whether the record of this key is a committed offset."""
    return int.from_bytes(key[:2], "big") in _KEY_VERSIONS and len(key) > 1


def read_offset_key(key: bytes) -> tuple[str, str, int]:
    """(group, topic, partition). Raises UnreadableRecord, also for a negative partition."""
    reader = FieldReader(key)
    reader.int16()
    return reader.text(), reader.text(), reader.int32(least=0)


def read_offset_value(value: bytes, record_offset: Offset = -1) -> Committed:
    """The committed offset in the value of the record at `record_offset`. Raises UnreadableRecord, also for an unknown version."""
    reader = FieldReader(value)
    version = reader.int16()
    if not 0 <= version <= _VALUE_VERSION:
        raise UnreadableRecord(f"version {version} of a committed offset")
    reader.is_compact = version == _VALUE_VERSION
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= _EPOCH_VALUE_VERSION else -1
    metadata, commit_ms = reader.text(), reader.int64()
    expire_ms = reader.int64() if version == _EXPIRING_VALUE_VERSION else NO_EXPIRY
    topic_id = reader.tags().get(_TOPIC_ID_TAG)
    known = None if topic_id is None else _topic_id(FieldReader(topic_id).take(16))
    return Committed(offset, leader_epoch, metadata, commit_ms, expire_ms, known, record_offset)


@lru_cache(maxsize=1_000)
def _topic_id(data: bytes) -> uuid.UUID:
    """The id in these bytes: one object for all offsets of a topic."""
    return uuid.UUID(bytes=data)


class _Change(NamedTuple):
    """A change of a partition's offset, and what was there before; `end_offset` is the log's end behind its record."""

    end_offset: Offset
    topic: str
    partition: int
    replaced: Committed | None
    was_pending: bool


@dataclass(slots=True, eq=False, repr=False)
class Offsets:
    """The offsets of one group, by topic and partition, up to the last record in the log.

    An offset that a producer commits in a transaction is pending until the marker that ends the transaction. Then it
    replaces the committed offset, unless that has a later record (OffsetMetadataManager.java).

    A change names the log's end behind its record, 0 while the log is being loaded. Readers get the offsets of `at`,
    which leaves out what a failover may still take back (Kafka's TimelineHashMap).
    """

    topics: dict[str, dict[int, Committed]] = field(default_factory=dict)
    pending: dict[ProducerId, dict[tuple[str, int], Committed]] = field(default_factory=dict)
    _changes: list[_Change] = field(default_factory=list)
    """In log order, since the last high watermark that was reported to the group."""
    _producers: dict[tuple[str, int], dict[ProducerId, None]] = field(default_factory=dict)
    """The producers with a pending offset of each partition."""

    def __bool__(self) -> bool:
        return bool(self.topics or self.pending)

    def at(self, high_watermark: Offset, topics: Container[str] | None = None, *, is_copy: bool = False) -> Offsets:
        """The offsets of all topics or of these as they were at a high watermark, for reading.

        Without `is_copy` they hold only until the next change. A copy has no values of pending offsets.
        """
        self.forget_before(high_watermark)
        if not self._changes and not is_copy:
            return self
        other = Offsets()
        other.topics = {
            topic: partitions.copy() for topic, partitions in self.topics.items() if topics is None or topic in topics
        }
        other._producers = self._producers.copy()
        for change in reversed(self._changes):
            if topics is None or change.topic in topics:
                other._take_back(change)
        return other

    def _take_back(self, change: _Change) -> None:
        if change.replaced is None:
            self._remove_committed(change.topic, change.partition)
        else:
            self.topics.setdefault(change.topic, {})[change.partition] = change.replaced
        if change.was_pending:
            self._producers[change.topic, change.partition] = {}

    def forget_before(self, high_watermark: Offset) -> None:
        """Forget what changes replaced that are committed."""
        changes = self._changes
        if changes and changes[0].end_offset <= high_watermark:
            del changes[: bisect_right(changes, high_watermark, key=attrgetter("end_offset"))]

    def _will_change(self, topic: str, partition: int, end_offset: Offset) -> None:
        if end_offset:
            replaced, was_pending = self.get(topic, partition), self.has_pending(topic, partition)
            self._changes.append(_Change(end_offset, topic, partition, replaced, was_pending))

    def get(self, topic: str, partition: int) -> Committed | None:
        """The committed offset of a partition."""
        partitions = self.topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def has(self, topic: str, partition: int) -> bool:
        """Whether the partition has a committed or a pending offset."""
        return self.get(topic, partition) is not None or self.has_pending(topic, partition)

    def put(self, topic: str, partition: int, committed: Committed, end_offset: Offset) -> None:
        """Store a committed offset."""
        self._will_change(topic, partition, end_offset)
        self.topics.setdefault(topic, {})[partition] = committed

    def put_pending(self, producer_id: ProducerId, topic: str, partition: int, committed: Committed) -> None:
        """Store an offset of the producer's open transaction."""
        self.pending.setdefault(producer_id, {})[topic, partition] = committed
        self._producers.setdefault((topic, partition), {})[producer_id] = None

    def has_pending(self, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of the partition."""
        return (topic, partition) in self._producers

    def end_transaction(self, producer_id: ProducerId, end_offset: Offset, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer."""
        for (topic, partition), offset in self.pending.pop(producer_id, {}).items():
            self._will_change(topic, partition, end_offset)
            producers = self._producers[topic, partition]
            del producers[producer_id]
            if not producers:
                del self._producers[topic, partition]
            committed = self.get(topic, partition)
            if is_commit and (committed is None or committed.record_offset < offset.record_offset):
                self.topics.setdefault(topic, {})[partition] = offset

    def remove(self, topic: str, partition: int, end_offset: Offset) -> None:
        """Remove the committed and the pending offsets of a partition, as its tombstone does."""
        self._will_change(topic, partition, end_offset)
        self._remove_committed(topic, partition)
        for producer_id in self._producers.pop((topic, partition), ()):
            offsets = self.pending[producer_id]
            del offsets[topic, partition]
            if not offsets:
                del self.pending[producer_id]

    def _remove_committed(self, topic: str, partition: int) -> None:
        partitions = self.topics.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.topics[topic]

    def partitions(self, topics: Container[str] | None = None) -> dict[tuple[str, int], None]:
        """The partitions with a committed or a pending offset, of these topics only if they are given."""
        held = [topic for topic in self.topics if topics is None or topic in topics]
        found: dict[tuple[str, int], None] = {(topic, index): None for topic in held for index in self.topics[topic]}
        found.update((place, None) for place in self._producers if topics is None or place[0] in topics)
        return found

    def __iter__(self) -> Iterator[tuple[str, int, Committed]]:
        for topic, partitions in self.topics.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed
