"""The two hot answers, placed by hand: Produce (versions 3 to 13) and Fetch (4 to 18), byte for byte as kio has them.

An answer is a list of parts to send in order, length prefix and header included. Records stay the objects they are:
they become parts of their own, uncopied; everything small between them is one bytes object.
The commonest shape, one partition without error words, has a struct that packs all of it but the topic's name.
"""

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from yak.protocol.varint import append_uvarint
from yak.seams.disk import Buffer

RECORDS_COPIED_BYTES_MAX: Final = 1024
"""Records up to this size are copied next to their header: cheaper than one more part for the kernel to gather."""


class LeaderHint(NamedTuple):
    """Who leads now, told with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951)."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where a hinted leader listens (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class RecordError(NamedTuple):
    """A record that made its batch fail, by its index in the batch, with words."""

    batch_index: int
    message: str | None


@dataclass(slots=True)
class ProducePartitionAnswer:
    """What became of one partition's records; -1 stands for what is not known or not applicable."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: LeaderHint | None = None


TopicKey: TypeAlias = str | uuid.UUID | None
"""How an answer names a topic: by name up to version 12, by id from 13 (None is the zero id)."""
ProduceTopicAnswer: TypeAlias = tuple[TopicKey, Sequence[ProducePartitionAnswer]]


class AbortedTransaction(NamedTuple):
    """An aborted transaction whose records lie in the fetched range."""

    producer_id: int
    first_offset: int


class DivergingEpoch(NamedTuple):
    """The largest epoch up to which the fetcher's log may agree with ours, and where it ends (KIP-595)."""

    epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    """A snapshot to fetch instead (KIP-630)."""

    end_offset: int
    epoch: int


@dataclass(slots=True)
class FetchPartitionAnswer:
    """What one partition has for the fetcher; -1 stands for what is not known."""

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer = b""
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: DivergingEpoch | None = None
    current_leader: LeaderHint | None = None
    snapshot_id: SnapshotId | None = None


FetchTopicAnswer: TypeAlias = tuple[TopicKey, Sequence[FetchPartitionAnswer]]

_ZERO_ID: Final = bytes(16)
_LENGTH: Final = struct.Struct(">i")
_pack_length = _LENGTH.pack
_pack_int32: Final = struct.Struct(">i").pack
_pack_int16: Final = struct.Struct(">h").pack

# ---------------------------------------------------------------------------------------------------- small pieces


def _append_count(out: bytearray, count: int, flexible: bool) -> None:
    if not flexible:
        out += _pack_int32(count)
    elif count < 0x7F:
        out.append(count + 1)
    else:
        append_uvarint(out, count + 1)


def _append_string(out: bytearray, text: str | None, flexible: bool) -> None:
    if text is None:
        out += b"\0" if flexible else b"\xff\xff"
        return
    encoded = text.encode()
    if flexible:
        append_uvarint(out, len(encoded) + 1)
    else:
        out += _pack_int16(len(encoded))
    out += encoded


def _id_bytes(key: TopicKey) -> bytes:
    if key is None:
        return _ZERO_ID
    assert isinstance(key, uuid.UUID), f"this version names topics by id, not {key!r}"
    return key.bytes


def _name_bytes(key: TopicKey) -> bytes:
    assert isinstance(key, str), f"this version names topics by name, not {key!r}"
    return key.encode()


def _append_topic(out: bytearray, key: TopicKey, by_id: bool, flexible: bool) -> None:
    if by_id:
        out += _id_bytes(key)
        return
    encoded = _name_bytes(key)
    if flexible:
        append_uvarint(out, len(encoded) + 1)
    else:
        out += _pack_int16(len(encoded))
    out += encoded


_LEADER_TAG: Final = struct.Struct(">BBiiB")
_OFFSET_EPOCH_TAG: Final = struct.Struct(">BBqiB")
_EPOCH_OFFSET_TAG: Final = struct.Struct(">BBiqB")


def _leader_tag(tag: int, leader: LeaderHint | None) -> bytes:
    if leader is None or leader == (-1, -1):
        return b""
    return _LEADER_TAG.pack(tag, 9, leader.leader_id, leader.leader_epoch, 0)


def _append_endpoints_block(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """The tagged fields of the whole answer: none, or the endpoints under tag 0."""
    if not endpoints:
        out.append(0)
        return
    value = bytearray()
    append_uvarint(value, len(endpoints) + 1)
    for endpoint in endpoints:
        value += _pack_int32(endpoint.node_id)
        _append_string(value, endpoint.host, True)
        value += _pack_int32(endpoint.port)
        _append_string(value, endpoint.rack, True)
        value.append(0)
    out += b"\x01\x00"
    append_uvarint(out, len(value))
    out += value


# ------------------------------------------------------------------------------------------------------------ Produce

_PRODUCE_FRONT: Final = struct.Struct(">iiih")
_PRODUCE_FRONT_FLEXIBLE: Final = struct.Struct(">iiBBB")
_PRODUCE_FRONT_BY_ID: Final = struct.Struct(">iiBB16s")
_PRODUCE_BACK_V3: Final = struct.Struct(">iihqqi")
_PRODUCE_BACK_V5: Final = struct.Struct(">iihqqqi")
_PRODUCE_BACK_V8: Final = struct.Struct(">iihqqqihi")
_PRODUCE_BACK_FLEXIBLE: Final = struct.Struct(">BihqqqBBBBiB")
_PARTITION_V3: Final = struct.Struct(">ihqq")
_PARTITION_V5: Final = struct.Struct(">ihqqq")


def produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceTopicAnswer],
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """A whole Produce answer; the throttle time is 0."""
    if len(topics) == 1 and not node_endpoints:
        key, partitions = topics[0]
        if len(partitions) == 1:
            answer = partitions[0]
            if answer.error_message is None and not answer.record_errors and answer.current_leader is None:
                return [_one_produce_answer(version, correlation_id, key, answer)]
    return [_many_produce_answers(version, correlation_id, topics, node_endpoints)]


def _one_produce_answer(version: int, correlation_id: int, key: TopicKey, answer: ProducePartitionAnswer) -> bytes:
    index, error_code, base_offset = answer.index, answer.error_code, answer.base_offset
    time_ms, log_start_offset = answer.log_append_time_ms, answer.log_start_offset
    if version >= 9:
        back = _PRODUCE_BACK_FLEXIBLE.pack(
            2, index, error_code, base_offset, time_ms, log_start_offset, 1, 0, 0, 0, 0, 0
        )
        if version >= 13:
            raw_id = _id_bytes(key)
            return _PRODUCE_FRONT_BY_ID.pack(len(back) + 22, correlation_id, 0, 2, raw_id) + back
        encoded = _name_bytes(key)
        if len(encoded) < 0x7F:
            size = len(back) + 7 + len(encoded)
            return _PRODUCE_FRONT_FLEXIBLE.pack(size, correlation_id, 0, 2, len(encoded) + 1) + encoded + back
        front = bytearray(_PRODUCE_FRONT_FLEXIBLE.pack(0, correlation_id, 0, 2, 0)[:-1])
        append_uvarint(front, len(encoded) + 1)
        front += encoded
        front += back
        _LENGTH.pack_into(front, 0, len(front) - 4)
        return bytes(front)
    if version >= 8:
        back = _PRODUCE_BACK_V8.pack(1, index, error_code, base_offset, time_ms, log_start_offset, 0, -1, 0)
    elif version >= 5:
        back = _PRODUCE_BACK_V5.pack(1, index, error_code, base_offset, time_ms, log_start_offset, 0)
    else:
        back = _PRODUCE_BACK_V3.pack(1, index, error_code, base_offset, time_ms, 0)
    encoded = _name_bytes(key)
    return _PRODUCE_FRONT.pack(10 + len(encoded) + len(back), correlation_id, 1, len(encoded)) + encoded + back


def _many_produce_answers(
    version: int, correlation_id: int, topics: Sequence[ProduceTopicAnswer], node_endpoints: Sequence[NodeEndpoint]
) -> bytes:
    flexible = version >= 9
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if flexible:
        out.append(0)
    _append_count(out, len(topics), flexible)
    for key, partitions in topics:
        _append_topic(out, key, version >= 13, flexible)
        _append_count(out, len(partitions), flexible)
        for answer in partitions:
            _append_produce_partition(out, version, answer)
        if flexible:
            out.append(0)
    out += b"\0\0\0\0"
    if version >= 10:
        _append_endpoints_block(out, node_endpoints)
    elif flexible:
        out.append(0)
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _append_produce_partition(out: bytearray, version: int, answer: ProducePartitionAnswer) -> None:
    index, error_code, base_offset = answer.index, answer.error_code, answer.base_offset
    time_ms, log_start_offset = answer.log_append_time_ms, answer.log_start_offset
    if version < 5:
        out += _PARTITION_V3.pack(index, error_code, base_offset, time_ms)
        return
    out += _PARTITION_V5.pack(index, error_code, base_offset, time_ms, log_start_offset)
    if version < 8:
        return
    flexible = version >= 9
    _append_count(out, len(answer.record_errors), flexible)
    for record_error in answer.record_errors:
        out += _pack_int32(record_error.batch_index)
        _append_string(out, record_error.message, flexible)
        if flexible:
            out.append(0)
    _append_string(out, answer.error_message, flexible)
    if flexible:
        tag = _leader_tag(0, answer.current_leader) if version >= 10 else b""
        out.append(1 if tag else 0)
        out += tag


# -------------------------------------------------------------------------------------------------------------- Fetch

_FETCH_FRONT_V4: Final = struct.Struct(">iiiih")
_FETCH_FRONT_V7: Final = struct.Struct(">iiihiih")
_FETCH_FRONT_FLEXIBLE: Final = struct.Struct(">iiBihiBB")
_FETCH_FRONT_BY_ID: Final = struct.Struct(">iiBihiB16s")
_FETCH_BACK_V4: Final = struct.Struct(">iihqqii")
_FETCH_BACK_V5: Final = struct.Struct(">iihqqqii")
_FETCH_BACK_V11: Final = struct.Struct(">iihqqqiii")
_FETCH_BACK_FLEXIBLE: Final = struct.Struct(">BihqqqBi")
_FETCH_PARTITION_V4: Final = struct.Struct(">ihqq")
_FETCH_PARTITION_V5: Final = struct.Struct(">ihqqq")
_NO_TAGS_3: Final = b"\0\0\0"


def fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[FetchTopicAnswer],
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """A whole Fetch answer, the records of each partition as they were given (up to 1 KiB copied)."""
    if len(topics) == 1 and not node_endpoints:
        key, partitions = topics[0]
        if len(partitions) == 1:
            answer = partitions[0]
            if answer.aborted_transactions is None and not _has_fetch_tags(answer):
                if version >= 12:
                    return _one_flexible_fetch_answer(
                        version, (correlation_id, 0, throttle_ms, error_code, session_id, 2), key, answer
                    )
                return _one_legacy_fetch_answer(
                    version, (correlation_id, throttle_ms, error_code, session_id, 1), key, answer
                )
    return _many_fetch_answers(version, (correlation_id, throttle_ms, error_code, session_id), topics, node_endpoints)


def _has_fetch_tags(answer: FetchPartitionAnswer) -> bool:
    return answer.diverging_epoch is not None or answer.current_leader is not None or answer.snapshot_id is not None


def _one_flexible_fetch_answer(
    version: int,
    front_values: tuple[int, int, int, int, int, int],
    key: TopicKey,
    answer: FetchPartitionAnswer,
) -> list[Buffer]:
    index, error_code, high_watermark = answer.index, answer.error_code, answer.high_watermark
    last_stable_offset, log_start_offset = answer.last_stable_offset, answer.log_start_offset
    records, preferred = answer.records, answer.preferred_read_replica
    back = _FETCH_BACK_FLEXIBLE.pack(
        2, index, error_code, high_watermark, last_stable_offset, log_start_offset, 0, preferred
    )
    size = len(records)
    length = size + 1
    if length < 0x80:
        back += bytes((length,))
    elif length < 0x4000:
        back += bytes((length & 0x7F | 0x80, length >> 7))
    else:
        block = bytearray()
        append_uvarint(block, length)
        back += block
    if version >= 13:
        raw_id = _id_bytes(key)
        total = len(back) + size + 35
        head = _FETCH_FRONT_BY_ID.pack(total, *front_values, raw_id) + back
    else:
        encoded = _name_bytes(key)
        if len(encoded) < 0x7F:
            total = len(back) + size + 20 + len(encoded)
            head = _FETCH_FRONT_FLEXIBLE.pack(total, *front_values, len(encoded) + 1) + encoded + back
        else:
            total = len(back) + size + 21 + len(encoded)
            front = bytearray(_FETCH_FRONT_FLEXIBLE.pack(total, *front_values, 0)[:-1])
            append_uvarint(front, len(encoded) + 1)
            head = bytes(front) + encoded + back
    if size <= RECORDS_COPIED_BYTES_MAX:
        return [b"".join((head, records, _NO_TAGS_3))]
    return [head, records, _NO_TAGS_3]


def _one_legacy_fetch_answer(
    version: int, front_values: tuple[int, int, int, int, int], key: TopicKey, answer: FetchPartitionAnswer
) -> list[Buffer]:
    index, error_code, high_watermark = answer.index, answer.error_code, answer.high_watermark
    last_stable_offset, log_start_offset = answer.last_stable_offset, answer.log_start_offset
    records, preferred = answer.records, answer.preferred_read_replica
    size = len(records)
    if version >= 11:
        back = _FETCH_BACK_V11.pack(
            1, index, error_code, high_watermark, last_stable_offset, log_start_offset, -1, preferred, size
        )
    elif version >= 5:
        back = _FETCH_BACK_V5.pack(1, index, error_code, high_watermark, last_stable_offset, log_start_offset, -1, size)
    else:
        back = _FETCH_BACK_V4.pack(1, index, error_code, high_watermark, last_stable_offset, -1, size)
    encoded = _name_bytes(key)
    if version >= 7:
        total = len(back) + size + 20 + len(encoded)
        head = _FETCH_FRONT_V7.pack(total, *front_values, len(encoded)) + encoded + back
    else:
        correlation_id, throttle_ms, _, _, count = front_values
        total = len(back) + size + 14 + len(encoded)
        head = _FETCH_FRONT_V4.pack(total, correlation_id, throttle_ms, count, len(encoded)) + encoded + back
    if size <= RECORDS_COPIED_BYTES_MAX:
        return [head + records] if size else [head]
    return [head, records]


def _many_fetch_answers(
    version: int,
    front_values: tuple[int, int, int, int],
    topics: Sequence[FetchTopicAnswer],
    node_endpoints: Sequence[NodeEndpoint],
) -> list[Buffer]:
    flexible = version >= 12
    correlation_id, throttle_ms, error_code, session_id = front_values
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    first = out
    if flexible:
        out.append(0)
    out += _pack_int32(throttle_ms)
    if version >= 7:
        out += struct.pack(">hi", error_code, session_id)
    _append_count(out, len(topics), flexible)
    parts: list[Buffer] = [out]
    for key, partitions in topics:
        _append_topic(out, key, version >= 13, flexible)
        _append_count(out, len(partitions), flexible)
        for answer in partitions:
            out = _append_fetch_partition(parts, out, version, answer)
        if flexible:
            out.append(0)
    if version >= 16:
        _append_endpoints_block(out, node_endpoints)
    elif flexible:
        out.append(0)
    if not out:
        parts.pop()
    _LENGTH.pack_into(first, 0, sum(map(len, parts)) - 4)
    return parts


def _append_fetch_partition(
    parts: list[Buffer], out: bytearray, version: int, answer: FetchPartitionAnswer
) -> bytearray:
    """Writes one partition; returns where the next small pieces go, which is a new part after long records."""
    index, error_code, high_watermark = answer.index, answer.error_code, answer.high_watermark
    last_stable_offset, log_start_offset = answer.last_stable_offset, answer.log_start_offset
    records, preferred = answer.records, answer.preferred_read_replica
    aborted, flexible = answer.aborted_transactions, version >= 12
    if version >= 5:
        out += _FETCH_PARTITION_V5.pack(index, error_code, high_watermark, last_stable_offset, log_start_offset)
    else:
        out += _FETCH_PARTITION_V4.pack(index, error_code, high_watermark, last_stable_offset)
    if aborted is None:
        _append_count(out, -1, flexible)
    else:
        _append_count(out, len(aborted), flexible)
        for transaction in aborted:
            out += struct.pack(">qq", transaction.producer_id, transaction.first_offset)
            if flexible:
                out.append(0)
    if version >= 11:
        out += _pack_int32(preferred)
    _append_count(out, len(records), flexible)
    if len(records) > RECORDS_COPIED_BYTES_MAX:
        out = bytearray()
        parts += (records, out)
    else:
        out += records
    if flexible:
        _append_fetch_tags(out, answer)
    return out


def _append_fetch_tags(out: bytearray, answer: FetchPartitionAnswer) -> None:
    if not _has_fetch_tags(answer):
        out.append(0)
        return
    diverging, leader, snapshot = answer.diverging_epoch, answer.current_leader, answer.snapshot_id
    blocks = []
    if diverging is not None and diverging != (-1, -1):
        blocks.append(_EPOCH_OFFSET_TAG.pack(0, 13, diverging.epoch, diverging.end_offset, 0))
    if leader is not None and leader != (-1, -1):
        blocks.append(_leader_tag(1, leader))
    if snapshot is not None and snapshot != (-1, -1):
        blocks.append(_OFFSET_EPOCH_TAG.pack(2, 13, snapshot.end_offset, snapshot.epoch, 0))
    out.append(len(blocks))
    out += b"".join(blocks)
