"""Produce and Fetch requests, decoded by hand: the two bodies that a busy broker reads all day.

Against the checked kio path this saves the check (kio must not see an unchecked count, see `request_check`), the copy
of the records, and a duration object a request. One class for all versions: what a version lacks has its default.
Attribute names are kio's.

**`records` are views into the frame, valid only while it is**: during one step. Copy what must live longer.
"""

import datetime as dt
import struct
import uuid
from typing import Final, NamedTuple

from yak.errors import ProtocolViolation
from yak.limits import REQUEST_ELEMENTS_MAX, TOPIC_IDS_CACHED_MAX
from yak.protocol.tagged_fields import TaggedField, iterate_tags, read_tag_count, skip_tags
from yak.protocol.varint import read_uvarint
from yak.seams.disk import Buffer

NO_HIGH_WATERMARK: Final = 2**63 - 1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INDEX_LENGTH: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")
_ENDS_EARLY: Final = "the request ends early"


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

    @property
    def timeout(self) -> dt.timedelta:
        """`timeout_ms` as kio has it."""
        return dt.timedelta(milliseconds=self.timeout_ms)


class FetchPartition(NamedTuple):
    """What is wanted of one partition."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: uuid.UUID | None = None
    high_watermark: int = NO_HIGH_WATERMARK


class FetchTopic(NamedTuple):
    """One topic: by name up to version 12, by id from 13 (None when the client sent the zero id)."""

    topic: str
    topic_id: uuid.UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions to drop from a fetch session (KIP-227)."""

    topic: str
    topic_id: uuid.UUID | None
    partitions: tuple[int, ...]


class ReplicaState(NamedTuple):
    """Who fetches, in the shape of version 15 on."""

    replica_id: int
    replica_epoch: int


class FetchRequest(NamedTuple):
    """A Fetch request, versions 4 to 18; `replica_id` is -1 for a client."""

    cluster_id: str | None
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]
    rack_id: str

    @property
    def max_wait(self) -> dt.timedelta:
        """`max_wait_ms` as kio has it."""
        return dt.timedelta(milliseconds=self.max_wait_ms)

    @property
    def replica_state(self) -> ReplicaState:
        """`replica_id` and `replica_epoch` as kio has them from version 15 on."""
        return ReplicaState(self.replica_id, self.replica_epoch)


# ------------------------------------------------------------------------------------------------------------ reading


def _bound(count: int, bytes_left: int, element_bytes_min: int) -> None:
    if count * element_bytes_min > bytes_left or count > REQUEST_ELEMENTS_MAX:
        raise ProtocolViolation(f"an array of {count} with {bytes_left} bytes left")


def _count(view: Buffer, position: int, element_bytes_min: int) -> tuple[int, int]:
    """A non-null array's count in the form before flexible versions."""
    (count,) = _INT32.unpack_from(view, position)
    position += 4
    if count < 0:
        raise ProtocolViolation(f"an array of {count}")
    _bound(count, len(view) - position, element_bytes_min)
    return count, position


def _compact_count(view: Buffer, position: int, element_bytes_min: int) -> tuple[int, int]:
    """A non-null array's count in the compact form."""
    count = view[position] if position < len(view) else 0x80
    if count < 0x80:
        position += 1
    else:
        count, position = read_uvarint(view, position)
    if count == 0:
        raise ProtocolViolation("an array is null")
    _bound(count - 1, len(view) - position, element_bytes_min)
    return count - 1, position


def _text(view: Buffer, start: int, end: int) -> str:
    if end > len(view):
        raise ProtocolViolation(f"a string of {end - start} bytes goes past the end")
    try:
        return str(view[start:end], "utf-8")
    except UnicodeDecodeError:
        raise ProtocolViolation("a string is not UTF-8") from None


def _string(view: Buffer, position: int) -> tuple[str | None, int]:
    (length,) = _INT16.unpack_from(view, position)
    position += 2
    if length < 0:
        if length != -1:
            raise ProtocolViolation(f"a string of {length} bytes")
        return None, position
    end = position + length
    return _text(view, position, end), end


def _compact_string(view: Buffer, position: int) -> tuple[str | None, int]:
    length = view[position] if position < len(view) else 0x80
    if length < 0x80:
        position += 1
    else:
        length, position = read_uvarint(view, position)
    if length == 0:
        return None, position
    end = position + length - 1
    return _text(view, position, end), end


def _required(text: str | None) -> str:
    if text is None:
        raise ProtocolViolation("a string is null")
    return text


_topic_ids: dict[bytes, uuid.UUID | None] = {bytes(16): None}


def _topic_id(view: Buffer, position: int) -> uuid.UUID | None:
    """The id at a position; kept between requests, since building one costs more than the rest of a topic."""
    raw = bytes(view[position : position + 16])
    try:
        return _topic_ids[raw]
    except KeyError:
        pass
    if len(raw) < 16:
        raise ProtocolViolation(_ENDS_EARLY)
    if len(_topic_ids) >= TOPIC_IDS_CACHED_MAX:
        _topic_ids.clear()
        _topic_ids[bytes(16)] = None
    return _topic_ids.setdefault(raw, uuid.UUID(bytes=raw))


def _end_of_tags(view: Buffer, position: int) -> int:
    if position < len(view) and view[position] == 0:
        return position + 1
    return skip_tags(view, position, len(view))


def _refuse_trailing(view: Buffer, position: int) -> None:
    if position != len(view):
        raise ProtocolViolation(f"{len(view) - position} bytes after the end of the request")


# ------------------------------------------------------------------------------------------------------------ Produce


def decode_produce_request(version: int, frame: Buffer, offset: int) -> ProduceRequest:
    """A Produce body of version 3 to 13 that takes the frame from `offset` to its end. Raises ProtocolViolation."""
    view = memoryview(frame)
    try:
        if version >= 9:
            usual = _one_batch(version, view, offset)
            if usual is not None:
                return usual
            request, position = _produce_flexible(version, view, offset)
        else:
            request, position = _produce_legacy(view, offset)
    except struct.error:
        raise ProtocolViolation(_ENDS_EARLY) from None
    _refuse_trailing(view, position)
    return request


_ONE_BATCH_FRONT: Final = struct.Struct(">BhiB")
_ONE_BATCH_BACK: Final = struct.Struct(">BiB")


def _one_batch(version: int, view: memoryview, position: int) -> ProduceRequest | None:
    """The usual request: no transaction, one topic, one partition, no tagged fields. None: it is something else."""
    transactional_id, acks, timeout_ms, topic_count = _ONE_BATCH_FRONT.unpack_from(view, position)
    if transactional_id or topic_count != 2:
        return None
    position += 8
    name, topic_id = "", None
    if version >= 13:
        topic_id = _topic_id(view, position)
        position += 16
    else:
        length = view[position] if position < len(view) else 0
        if not 1 < length < 0x80:
            return None
        start, position = position + 1, position + length
        name = _text(view, start, position)
    partition_count, index, length = _ONE_BATCH_BACK.unpack_from(view, position)
    position += 6
    if length >= 0x80:
        length, position = read_uvarint(view, position - 1)
    end = position + length - 1
    if partition_count != 2 or not length or end + 3 != len(view) or view[end:] != b"\0\0\0":
        return None
    topic = TopicProduceData(name, topic_id, [PartitionProduceData(index, view[position:end])])
    return ProduceRequest(None, acks, timeout_ms, [topic])


def _produce_legacy(view: memoryview, position: int) -> tuple[ProduceRequest, int]:
    transactional_id, position = _string(view, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    topic_count, position = _count(view, position + 6, 6)
    end, topics = len(view), []
    for _ in range(topic_count):
        name, position = _string(view, position)
        partition_count, position = _count(view, position, 8)
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
        topics.append(TopicProduceData(_required(name), None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), position


def _produce_flexible(version: int, view: memoryview, position: int) -> tuple[ProduceRequest, int]:
    transactional_id, position = _compact_string(view, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    topic_count, position = _compact_count(view, position + 6, 3)
    end, topics = len(view), []
    for _ in range(topic_count):
        name, topic_id = "", None
        if version >= 13:
            topic_id = _topic_id(view, position)
            position += 16
        else:
            text, position = _compact_string(view, position)
            name = _required(text)
        partition_count, position = _compact_count(view, position, 6)
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
            position = _end_of_tags(view, position)
            partitions.append(PartitionProduceData(index, records))
        position = _end_of_tags(view, position)
        topics.append(TopicProduceData(name, topic_id, partitions))
    position = _end_of_tags(view, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), position


# -------------------------------------------------------------------------------------------------------------- Fetch

_FRONT_V4: Final = struct.Struct(">iiiib")
_FRONT_V7: Final = struct.Struct(">iiiibii")
_FRONT_V15: Final = struct.Struct(">iiibii")
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")
_PARTITION_V12_TAGS: Final = struct.Struct(">iiqiqiB")


def decode_fetch_request(version: int, frame: Buffer, offset: int) -> FetchRequest:
    """A Fetch body of version 4 to 18 that takes the frame from `offset` to its end. Raises ProtocolViolation."""
    view = memoryview(frame)
    try:
        request, position = (_fetch_flexible if version >= 12 else _fetch_legacy)(version, view, offset)
    except struct.error:
        raise ProtocolViolation(_ENDS_EARLY) from None
    _refuse_trailing(view, position)
    return request


def _fetch_legacy(version: int, view: memoryview, position: int) -> tuple[FetchRequest, int]:
    session_id, session_epoch = 0, -1
    if version >= 7:
        front = _FRONT_V7.unpack_from(view, position)
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = front
        position += _FRONT_V7.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _FRONT_V4.unpack_from(view, position)
        position += _FRONT_V4.size
    topic_count, position = _count(view, position, 6)
    topics = []
    for _ in range(topic_count):
        name, position = _string(view, position)
        partitions, position = _legacy_partitions(version, view, position)
        topics.append(FetchTopic(_required(name), None, partitions))
    forgotten: list[ForgottenTopic] = []
    if version >= 7:
        topic_count, position = _count(view, position, 6)
        for _ in range(topic_count):
            name, position = _string(view, position)
            count, position = _count(view, position, 4)
            indexes = struct.unpack_from(f">{count}i", view, position)
            position += 4 * count
            forgotten.append(ForgottenTopic(_required(name), None, indexes))
    rack_id = ""
    if version >= 11:
        text, position = _string(view, position)
        rack_id = _required(text)
    request = FetchRequest(
        None,
        replica_id,
        -1,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )
    return request, position


def _legacy_partitions(version: int, view: memoryview, position: int) -> tuple[list[FetchPartition], int]:
    layout = _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V4
    count, position = _count(view, position, layout.size)
    end = position + count * layout.size
    rows = layout.iter_unpack(view[position:end])
    if version >= 9:
        partitions = [FetchPartition(i, epoch, offset, -1, start, size) for i, epoch, offset, start, size in rows]
    elif version >= 5:
        partitions = [FetchPartition(i, -1, offset, -1, start, size) for i, offset, start, size in rows]
    else:
        partitions = [FetchPartition(i, -1, offset, -1, -1, size) for i, offset, size in rows]
    return partitions, end


def _fetch_flexible(version: int, view: memoryview, position: int) -> tuple[FetchRequest, int]:
    replica_id = -1
    if version >= 15:
        front = _FRONT_V15.unpack_from(view, position)
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = front
        position += _FRONT_V15.size
    else:
        front = _FRONT_V7.unpack_from(view, position)
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = front
        position += _FRONT_V7.size
    topic_count, position = _compact_count(view, position, 3)
    topics = []
    for _ in range(topic_count):
        name, topic_id, position = _topic(version, view, position)
        partitions, position = _flexible_partitions(version, view, position)
        position = _end_of_tags(view, position)
        topics.append(FetchTopic(name, topic_id, partitions))
    topic_count, position = _compact_count(view, position, 3)
    forgotten = []
    for _ in range(topic_count):
        name, topic_id, position = _topic(version, view, position)
        count, position = _compact_count(view, position, 4)
        indexes = struct.unpack_from(f">{count}i", view, position)
        position = _end_of_tags(view, position + 4 * count)
        forgotten.append(ForgottenTopic(name, topic_id, indexes))
    text, position = _compact_string(view, position)
    rack_id = _required(text)
    cluster_id, replica_epoch = None, -1
    if position < len(view) and view[position] == 0:
        position += 1
    else:
        position, cluster_id, tagged_state = _fetch_tags(version, view, position)
        if tagged_state is not None:
            replica_id, replica_epoch = tagged_state
    request = FetchRequest(
        cluster_id,
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )
    return request, position


def _topic(version: int, view: memoryview, position: int) -> tuple[str, uuid.UUID | None, int]:
    if version >= 13:
        return "", _topic_id(view, position), position + 16
    text, position = _compact_string(view, position)
    return _required(text), None, position


def _flexible_partitions(version: int, view: memoryview, position: int) -> tuple[list[FetchPartition], int]:
    count, position = _compact_count(view, position, _PARTITION_V12_TAGS.size)
    end = position + count * _PARTITION_V12_TAGS.size
    rows = list(_PARTITION_V12_TAGS.iter_unpack(view[position:end]))
    # Mostly no partition has tagged fields; then all are of one size, and one pass reads them.
    if not any(row[6] for row in rows):
        return [FetchPartition(*row[:6]) for row in rows], end
    partitions = []
    for _ in range(count):
        partition = FetchPartition(*_PARTITION_V12.unpack_from(view, position))
        position += _PARTITION_V12.size
        if version >= 17:
            partition, position = _with_partition_tags(version, partition, view, position)
        else:
            position = _end_of_tags(view, position)
        partitions.append(partition)
    return partitions, position


def _with_partition_tags(
    version: int, partition: FetchPartition, view: memoryview, position: int
) -> tuple[FetchPartition, int]:
    count, position = read_tag_count(view, position, len(view))
    for tagged in iterate_tags(view, position, len(view), count):
        position = tagged.value_end
        if tagged.tag == 0:
            _expect_end(tagged, tagged.value_start + 16)
            partition = partition._replace(replica_directory_id=_topic_id(view, tagged.value_start))
        elif tagged.tag == 1 and version >= 18:
            _expect_end(tagged, tagged.value_start + 8)
            partition = partition._replace(
                high_watermark=int.from_bytes(view[tagged.value_start : position], "big", signed=True)
            )
    return partition, position


def _fetch_tags(version: int, view: memoryview, position: int) -> tuple[int, str | None, tuple[int, int] | None]:
    cluster_id: str | None = None
    state: tuple[int, int] | None = None
    count, position = read_tag_count(view, position, len(view))
    for tagged in iterate_tags(view, position, len(view), count):
        position = tagged.value_end
        if tagged.tag == 0:
            cluster_id, reached = _compact_string(view, tagged.value_start)
            _expect_end(tagged, reached)
        elif tagged.tag == 1 and version >= 15:
            state = _REPLICA_STATE.unpack_from(view, tagged.value_start)
            _expect_end(tagged, _end_of_tags(view, tagged.value_start + _REPLICA_STATE.size))
    return position, cluster_id, state


def _expect_end(tagged: TaggedField, reached: int) -> None:
    if reached != tagged.value_end:
        size = tagged.value_end - tagged.value_start
        raise ProtocolViolation(f"tagged field {tagged.tag} says {size} bytes and has {reached - tagged.value_start}")
