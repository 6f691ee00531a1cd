"""Hand-written decoder of Produce requests, the most frequent requests of a busy broker.

One class serves all versions, with defaults for fields that a version lacks. Attribute names are kio's. Compared with
kio behind `request_check`, it saves the check, a copy of the records, and a duration object.

**`records` are views into the frame, valid only as long as the frame**: during one step. Copy records that live longer.
"""

import struct
import uuid
from collections.abc import Generator
from typing import Final, NamedTuple

from yak.errors import ProtocolViolation
from yak.limits import SLICE_ELEMENTS
from yak.ports.disk import Buffer
from yak.protocol.bounded_reads import (
    ENDS_EARLY,
    Budget,
    end_of_tags,
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    read_text,
    read_topic_id,
    refuse_overrun,
    required,
)
from yak.protocol.pace import at_once
from yak.protocol.varint import read_uvarint

_INT32: Final = struct.Struct(">i")
_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INDEX_LENGTH: Final = struct.Struct(">ii")


class PartitionProduceData(NamedTuple):
    """Records for one partition: a view into the frame, or None when the client sent null."""

    index: int  # type: ignore[assignment]  # hides tuple.index, and is kio's name
    records: memoryview | None


class TopicProduceData(NamedTuple):
    """One topic: by name up to version 12, by id from 13 (None when the client sent the zero id)."""

    name: str
    topic_id: uuid.UUID | None
    partition_data: list[PartitionProduceData]


class ProduceRequest(NamedTuple):
    """A Produce request, versions 3 to 13."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[TopicProduceData]


def decode_produce_request(version: int, frame: Buffer, offset: int, elements_max: int) -> ProduceRequest:
    """Decode a Produce body of version 3 to 13 that starts at `offset`. Raises ProtocolViolation."""
    try:
        usual = _one_batch(version, memoryview(frame), offset) if version >= 9 else None
    except struct.error:
        raise ProtocolViolation(ENDS_EARLY) from None
    return usual or at_once(decode_produce_in_slices(version, frame, offset, elements_max))


def decode_produce_in_slices(
    version: int, frame: Buffer, offset: int, elements_max: int
) -> Generator[None, None, ProduceRequest]:
    """`decode_produce_request` that yields after every `SLICE_ELEMENTS` topics."""
    view, budget = memoryview(frame), Budget(elements_max)
    flexible = version >= 9
    try:
        transactional_id, position = (read_compact_string if flexible else read_string)(view, offset)
        acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
        read = read_compact_count if flexible else read_count
        count, position = read(view, position + 6, 3 if flexible else 6, budget)
        topics: list[TopicProduceData] = []
        while len(topics) < count:
            some = min(SLICE_ELEMENTS, count - len(topics))
            if flexible:
                more, position = _flexible_topics(version, view, position, budget, some)
            else:
                more, position = _legacy_topics(view, position, budget, some)
            topics += more
            yield
        if flexible:
            position = end_of_tags(view, position, budget)
    except struct.error:
        raise ProtocolViolation(ENDS_EARLY) from None
    refuse_overrun(view, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


_ONE_BATCH_FRONT: Final = struct.Struct(">BhiB")
_ONE_BATCH_BACK: Final = struct.Struct(">BiB")
_make = tuple.__new__


def _one_batch(version: int, view: memoryview, position: int) -> ProduceRequest | None:
    """Decode the usual request: no transaction, one topic, one partition, no tagged fields; None for any other."""
    transactional_id, acks, timeout_ms, topic_count = _ONE_BATCH_FRONT.unpack_from(view, position)
    if transactional_id or topic_count != 2:
        return None
    position += 8
    name, topic_id = "", None
    if version >= 13:
        topic_id = read_topic_id(view, position)
        position += 16
    else:
        length = view[position] if position < len(view) else 0
        if not 1 < length < 0x80:
            return None
        start, position = position + 1, position + length
        name = read_text(view, start, position)
    if position + 6 > len(view):
        return None  # no partitions, or incomplete: the general decoder reports which
    partition_count, index, length = _ONE_BATCH_BACK.unpack_from(view, position)
    position += 6
    if length >= 0x80:
        length, position = read_uvarint(view, position - 1)
    end = position + length - 1
    if partition_count != 2 or not length or end + 3 != len(view) or bytes(view[end:]) != b"\0\0\0":
        return None
    # `tuple.__new__` takes half the time of a NamedTuple's own constructor, and every request passes here.
    partition = _make(PartitionProduceData, (index, view[position:end]))
    topic = _make(TopicProduceData, (name, topic_id, [partition]))
    return _make(ProduceRequest, (None, acks, timeout_ms, [topic]))


def _legacy_topics(
    view: memoryview, position: int, budget: Budget, topic_count: int
) -> tuple[list[TopicProduceData], int]:
    end, topics = len(view), []
    for _ in range(topic_count):
        name, position = read_string(view, position)
        partition_count, position = read_count(view, position, 8, budget)
        partitions = []
        for _ in range(partition_count):
            index, length = _INDEX_LENGTH.unpack_from(view, position)
            position += 8
            if length < 0:
                if length != -1:
                    raise ProtocolViolation(f"records of {length} bytes")
                partitions.append(PartitionProduceData(index, None))
                continue
            start, position = position, position + length
            if position > end:
                raise ProtocolViolation(f"records of {length} bytes go past the end")
            partitions.append(PartitionProduceData(index, view[start:position]))
        budget.end_topic(partition_count)
        topics.append(TopicProduceData(required(name), None, partitions))
    return topics, position


def _flexible_topics(
    version: int, view: memoryview, position: int, budget: Budget, topic_count: int
) -> tuple[list[TopicProduceData], int]:
    end, topics = len(view), []
    for _ in range(topic_count):
        name, topic_id = "", None
        if version >= 13:
            topic_id = read_topic_id(view, position)
            position += 16
        else:
            text, position = read_compact_string(view, position)
            name = required(text)
        partition_count, position = read_compact_count(view, position, 6, budget)
        partitions = []
        for _ in range(partition_count):
            (index,) = _INT32.unpack_from(view, position)
            length, position = read_uvarint(view, position + 4)
            records = None
            if length:
                start, position = position, position + length - 1
                if position > end:
                    raise ProtocolViolation(f"records of {length - 1} bytes go past the end")
                records = view[start:position]
            position = end_of_tags(view, position, budget)
            partitions.append(PartitionProduceData(index, records))
        position = end_of_tags(view, position, budget)
        budget.end_topic(partition_count)
        topics.append(TopicProduceData(name, topic_id, partitions))
    return topics, position
