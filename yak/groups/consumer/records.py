"""Encode and decode the records of a consumer group.

Formats: the `ConsumerGroup*Key.json` and `*Value.json` of Kafka's group-coordinator module. The key's first int16 is
the kind. Values are version 0 and flexible; unknown tagged fields are skipped. As in Kafka since 4.1 (KIP-1101), the
group's own record has a hash of the subscribed topics. Kafka 4.0 listed them in a record of kind 4, for which YAK only
writes tombstones.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from yak.groups.consumer.partitions import NO_PARTITIONS, AssignmentEpochs, Partitions, TopicIdPartition, by_topic
from yak.groups.record import Record
from yak.protocol.record_fields import FieldReader, FieldWriter, UnreadableRecord

VALUE_VERSION = 0
_METADATA_HASH_TAG = 0
_CLASSIC_MEMBER_TAG = 0
_ASSIGNMENT_EPOCHS_TAG = 0
_NULL = b"\x00"
_MEMBER_EPOCH_MIN = -2
"""The epoch of a static member that left for a while (`member.STATIC_LEAVE_EPOCH`)."""


class Kind(IntEnum):
    """The kind of a record: the version number of its key."""

    GROUP = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


KINDS = frozenset(int(kind) for kind in Kind)
"""The key versions of consumer groups."""
_NAMED_KINDS = frozenset({Kind.MEMBER, Kind.TARGET, Kind.CURRENT, Kind.REGEX})


@dataclass(frozen=True, slots=True)
class GroupValue:
    """The group's epoch, and the hash of its subscribed topics (0 without topics)."""

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class PartitionMetadataValue:
    """The topic metadata of Kafka 4.0. Only its presence counts; `body` are its bytes after the version."""

    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The JoinGroup of a classic protocol member: (protocol name, subscription) in its order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class MemberValue:
    """The metadata of a member. `classic` is None for members of the consumer protocol."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


@dataclass(frozen=True, slots=True)
class TargetEpochValue:
    """The group epoch for which the target assignment was computed."""

    epoch: int


@dataclass(frozen=True, slots=True)
class TargetValue:
    """The target assignment of a member."""

    partitions: Partitions = NO_PARTITIONS


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """The current assignment of a member: partitions in use and to revoke; `state` is a MemberState's number.

    `assignment_epochs` has all of these partitions. A record before KIP-1251 has none: they are the member's epoch then.
    """

    epoch: int
    previous_epoch: int
    state: int
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS
    assignment_epochs: AssignmentEpochs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegexValue:
    """The topics that a regular expression matched, with the version of the topics and the time (ms since 1970)."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


Value: TypeAlias = (
    GroupValue | PartitionMetadataValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | RegexValue
)


@dataclass(frozen=True, slots=True)
class Change:
    """A decoded record. `name` is a member id or a regular expression; empty for records of the whole group."""

    kind: Kind
    group_id: str
    name: str
    value: Value | None


def encode(change: Change) -> Record:
    """The record as bytes."""
    key = FieldWriter().int16(change.kind).text(change.group_id)
    if change.kind in _NAMED_KINDS:
        key.text(change.name)
    return Record(key.done(), None if change.value is None else _encode_value(change.value))


def decode(record: Record) -> Change:
    """Decode a record. Raises UnreadableRecord for another kind, a newer version, and malformed bytes."""
    reader = FieldReader(record.key)
    number = reader.int16()
    if number not in KINDS:
        raise UnreadableRecord(f"a key of kind {number} is not a consumer group's")
    kind = Kind(number)
    group_id = reader.text()
    name = reader.text() if kind in _NAMED_KINDS else ""
    reader.end()
    value = None if record.value is None else _decode_value(kind, record.value)
    return Change(kind, group_id, name, value)


def _encode_value(value: Value) -> bytes:
    out = FieldWriter(is_compact=True).int16(VALUE_VERSION)
    match value:
        case GroupValue():
            tag = {_METADATA_HASH_TAG: FieldWriter().int64(value.metadata_hash).done()} if value.metadata_hash else {}
            out.int32(value.epoch).tags(tag)
        case PartitionMetadataValue():
            out.raw(value.body)
        case MemberValue():
            _write_member(out, value)
        case TargetEpochValue():
            out.int32(value.epoch).tags({})
        case TargetValue():
            _write_partitions(out, value.partitions).tags({})
        case CurrentValue():
            out.int32(value.epoch).int32(value.previous_epoch).int8(value.state)
            for partitions in (value.assigned, value.revoking):
                _write_partitions(out, partitions, value.assignment_epochs)
            out.tags({})
        case RegexValue():
            out.texts(value.topics).int64(value.version).int64(value.timestamp_ms).tags({})
    return out.done()


def _decode_value(kind: Kind, data: bytes) -> Value:
    reader = FieldReader(data, is_compact=True)
    version = reader.int16()
    if version != VALUE_VERSION:
        raise UnreadableRecord(f"a {kind.name} value of version {version}; version {VALUE_VERSION} is known here")
    if kind is Kind.PARTITION_METADATA:
        return PartitionMetadataValue(data[reader.position :])
    value = _read_fields(kind, reader)
    reader.end()
    return value


def _read_fields(kind: Kind, reader: FieldReader) -> Value:
    value: Value
    match kind:
        case Kind.GROUP:
            epoch = reader.int32(least=0)
            hashed = reader.tags().get(_METADATA_HASH_TAG)
            return GroupValue(epoch, 0 if hashed is None else FieldReader(hashed).int64())
        case Kind.MEMBER:
            return _read_member(reader)
        case Kind.TARGET_EPOCH:
            value = TargetEpochValue(reader.int32(least=0))
        case Kind.TARGET:
            value = TargetValue(frozenset(_read_partitions(reader, 0)))
        case Kind.CURRENT:
            epoch, previous_epoch, state = (
                reader.int32(_MEMBER_EPOCH_MIN),
                reader.int32(_MEMBER_EPOCH_MIN),
                reader.int8(),
            )
            assigned, revoking = (_read_partitions(reader, max(epoch, 0)) for _ in range(2))
            value = CurrentValue(
                epoch, previous_epoch, state, frozenset(assigned), frozenset(revoking), revoking | assigned
            )
        case _:
            assert kind is Kind.REGEX
            value = RegexValue(tuple(reader.array(reader.text)), reader.int64(), reader.int64())
    reader.tags()
    return value


def _write_partitions(out: FieldWriter, partitions: Partitions, epochs: AssignmentEpochs | None = None) -> FieldWriter:
    """Write an array of topic ids with their partitions, in ascending order, and their assignment epochs."""
    topics = by_topic(partitions)
    out.count(len(topics))
    for topic_id, numbers in topics:
        listed = FieldWriter(is_compact=True).int32s([epochs[topic_id, number] for number in numbers] if epochs else ())
        out.raw(topic_id.bytes).int32s(numbers).tags({_ASSIGNMENT_EPOCHS_TAG: listed.done()} if epochs else {})
    return out


def _read_partitions(reader: FieldReader, default_epoch: int) -> dict[TopicIdPartition, int]:
    """Partitions with their assignment epochs; a topic without those, or with a wrong number, has the default."""
    found: dict[TopicIdPartition, int] = {}

    def topic() -> None:
        topic_id = uuid.UUID(bytes=reader.take(16))
        numbers = reader.array(lambda: reader.int32(least=0))
        listed = FieldReader(reader.tags().get(_ASSIGNMENT_EPOCHS_TAG, _NULL), is_compact=True)
        epochs = listed.nullable_array(listed.int32) or []
        if len(epochs) != len(numbers):
            epochs = [default_epoch] * len(numbers)
        found.update(zip(((topic_id, number) for number in numbers), epochs, strict=True))

    reader.array(topic)
    return found


def _write_member(out: FieldWriter, value: MemberValue) -> None:
    out.text(value.instance_id).text(value.rack_id).text(value.client_id).text(value.client_host)
    out.texts(value.topic_names).text(value.topic_regex)
    out.int32(value.rebalance_timeout_ms).text(value.assignor)
    if value.classic is None:
        out.tags({})
        return
    # A 1 precedes a nullable tagged structure that is not null (MessageDataGenerator.java). The structure itself has no
    # tagged fields.
    classic = FieldWriter(is_compact=True).raw(b"\x01").int32(value.classic.session_timeout_ms)
    classic.count(len(value.classic.protocols))
    for name, subscription in value.classic.protocols:
        classic.text(name).blob(subscription).tags({})
    out.tags({_CLASSIC_MEMBER_TAG: classic.tags({}).done()})


def _read_member(reader: FieldReader) -> MemberValue:
    instance_id, rack_id = reader.nullable_text(), reader.nullable_text()
    client_id, client_host = reader.text(), reader.text()
    topic_names, topic_regex = tuple(reader.array(reader.text)), reader.nullable_text()
    rebalance_timeout_ms, assignor = reader.int32(), reader.nullable_text()
    tagged = reader.tags().get(_CLASSIC_MEMBER_TAG)
    classic = None if tagged is None else _read_classic(FieldReader(tagged, is_compact=True))
    return MemberValue(
        instance_id, rack_id, client_id, client_host, topic_names, topic_regex, rebalance_timeout_ms, assignor, classic
    )


def _read_classic(reader: FieldReader) -> ClassicMetadata | None:
    if reader.uvarint() == 0:
        return None

    def protocol() -> tuple[str, bytes]:
        name, subscription = reader.text(), reader.blob()
        reader.tags()
        return name, subscription

    session_timeout_ms = reader.int32()
    protocols = tuple(reader.array(protocol))
    if not protocols:
        raise UnreadableRecord("a member of the classic protocol without any assignment protocol")
    reader.tags()
    return ClassicMetadata(session_timeout_ms, protocols)
