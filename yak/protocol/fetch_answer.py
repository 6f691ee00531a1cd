"""Hand-written encoder of Fetch responses, versions 4 to 18; the bytes equal kio's.

Records are not copied: they become parts of their own, and the small pieces between them are one part.
"""

import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from yak.limits import SLICE_ELEMENTS
from yak.ports.disk import Part
from yak.protocol.hot_pieces import (
    LENGTH,
    LeaderHint,
    NodeEndpoint,
    TopicKey,
    append_count,
    append_endpoints,
    append_topic,
    id_bytes,
    leader_tag,
    name_bytes,
    pack_int32,
)
from yak.protocol.pace import Pace
from yak.protocol.varint import append_uvarint

RECORDS_COPIED_BYTES_MAX: Final = 1024
"""Records up to this size are copied next to their header: cheaper than one more part for the kernel to gather."""
_OFFSET_EPOCH_TAG: Final = struct.Struct(">BBqiB")
_EPOCH_OFFSET_TAG: Final = struct.Struct(">BBiqB")


class AbortedTransaction(NamedTuple):
    """An aborted transaction with records in the fetched range."""

    producer_id: int
    first_offset: int


class DivergingEpoch(NamedTuple):
    """The largest epoch up to which the follower's log may match the leader's, and its end offset (KIP-595)."""

    epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    """A snapshot to fetch instead (KIP-630)."""

    end_offset: int
    epoch: int


@dataclass(slots=True)
class FetchPartitionAnswer:
    """The result for one partition; -1 means unknown."""

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Part = b""
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: DivergingEpoch | None = None
    current_leader: LeaderHint | None = None
    snapshot_id: SnapshotId | None = None
    next_offset: int = field(init=False, repr=False, compare=False)
    """The consumer's next offset after `records`; not sent, and set only if there are records."""


FetchTopicAnswer: TypeAlias = tuple[TopicKey, Sequence[FetchPartitionAnswer]]

_FETCH_FRONT_V4: Final = struct.Struct(">iiiih")
_FETCH_FRONT_V7: Final = struct.Struct(">iiihiih")
_FETCH_FRONT_FLEXIBLE: Final = struct.Struct(">iiBihiBB")
_FETCH_FRONT_BY_ID: Final = struct.Struct(">iiBihiB16s")
_FETCH_BACK_V4: Final = struct.Struct(">iihqqii")
_FETCH_BACK_V5: Final = struct.Struct(">iihqqqii")
_FETCH_BACK_V11: Final = struct.Struct(">iihqqqiii")
_FETCH_BACK_FLEXIBLE: Final = struct.Struct(">BihqqqBi")
_FETCH_PARTITION_V4: Final = struct.Struct(">ihqq")
_FETCH_PARTITION_EMPTY: Final = struct.Struct(">ihqqqBiBB")
"""Version 12 on, without records, aborted transactions or tags: most partitions of a large response."""
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
) -> list[Part]:
    """A whole Fetch response; the records of each partition are passed through (up to 1 KiB copied)."""
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
    version: int, front_values: tuple[int, int, int, int, int, int], key: TopicKey, answer: FetchPartitionAnswer
) -> list[Part]:
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
        raw_id = id_bytes(key)
        total = len(back) + size + 35
        head = _FETCH_FRONT_BY_ID.pack(total, *front_values, raw_id) + back
    else:
        encoded = name_bytes(key)
        if len(encoded) < 0x7F:
            total = len(back) + size + 20 + len(encoded)
            head = _FETCH_FRONT_FLEXIBLE.pack(total, *front_values, len(encoded) + 1) + encoded + back
        else:
            total = len(back) + size + 21 + len(encoded)
            front = bytearray(_FETCH_FRONT_FLEXIBLE.pack(total, *front_values, 0)[:-1])
            append_uvarint(front, len(encoded) + 1)
            head = bytes(front) + encoded + back
    if size <= RECORDS_COPIED_BYTES_MAX:
        return [b"".join((head, bytes(records), _NO_TAGS_3))]
    return [head, records, _NO_TAGS_3]


def _one_legacy_fetch_answer(
    version: int, front_values: tuple[int, int, int, int, int], key: TopicKey, answer: FetchPartitionAnswer
) -> list[Part]:
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
    encoded = name_bytes(key)
    if version >= 7:
        total = len(back) + size + 20 + len(encoded)
        head = _FETCH_FRONT_V7.pack(total, *front_values, len(encoded)) + encoded + back
    else:
        correlation_id, throttle_ms, _, _, count = front_values
        total = len(back) + size + 14 + len(encoded)
        head = _FETCH_FRONT_V4.pack(total, correlation_id, throttle_ms, count, len(encoded)) + encoded + back
    if size <= RECORDS_COPIED_BYTES_MAX:
        return [head + bytes(records)] if size else [head]
    return [head, records]


def _many_fetch_answers(
    version: int,
    front_values: tuple[int, int, int, int],
    topics: Sequence[FetchTopicAnswer],
    node_endpoints: Sequence[NodeEndpoint],
) -> list[Part]:
    flexible = version >= 12
    first = out = _front(version, front_values, len(topics))
    parts: list[Part] = [out]
    for key, partitions in topics:
        append_topic(out, key, version >= 13, flexible)
        append_count(out, len(partitions), flexible)
        out = _append_fetch_partitions(parts, out, version, partitions)
        if flexible:
            out.append(0)
    return _end(version, parts, first, out, node_endpoints)


def fetch_response_in_slices(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[FetchTopicAnswer],
    node_endpoints: Sequence[NodeEndpoint],
) -> Generator[None, None, list[Part]]:
    """`fetch_response` that yields after every `SLICE_ELEMENTS` partitions; the throttle time is 0."""
    flexible, pace = version >= 12, Pace()
    first = out = _front(version, (correlation_id, 0, error_code, session_id), len(topics))
    parts: list[Part] = [out]
    for key, partitions in topics:
        append_topic(out, key, version >= 13, flexible)
        append_count(out, len(partitions), flexible)
        for start in range(0, len(partitions), SLICE_ELEMENTS):
            some = partitions[start : start + SLICE_ELEMENTS]
            out = _append_fetch_partitions(parts, out, version, some)
            if pace.is_over(len(some)):
                yield
        if flexible:
            out.append(0)
    return _end(version, parts, first, out, node_endpoints)


def _front(version: int, front_values: tuple[int, int, int, int], topic_count: int) -> bytearray:
    correlation_id, throttle_ms, error_code, session_id = front_values
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if version >= 12:
        out.append(0)
    out += pack_int32(throttle_ms)
    if version >= 7:
        out += struct.pack(">hi", error_code, session_id)
    append_count(out, topic_count, version >= 12)
    return out


def _end(
    version: int, parts: list[Part], first: bytearray, out: bytearray, node_endpoints: Sequence[NodeEndpoint]
) -> list[Part]:
    if version >= 16:
        append_endpoints(out, node_endpoints)
    elif version >= 12:
        out.append(0)
    if not out:
        parts.pop()
    LENGTH.pack_into(first, 0, sum(map(len, parts)) - 4)
    return parts


def _append_fetch_partitions(
    parts: list[Part], out: bytearray, version: int, answers: Sequence[FetchPartitionAnswer]
) -> bytearray:
    """Append some partitions of a topic; returns the part for the next small pieces."""
    flexible = version >= 12
    for answer in answers:
        if flexible and not answer.records and answer.aborted_transactions is None and not _has_fetch_tags(answer):
            out += _FETCH_PARTITION_EMPTY.pack(
                answer.index,
                answer.error_code,
                answer.high_watermark,
                answer.last_stable_offset,
                answer.log_start_offset,
                0,
                answer.preferred_read_replica,
                1,
                0,
            )
        else:
            out = _append_fetch_partition(parts, out, version, answer)
    return out


def _append_fetch_partition(parts: list[Part], out: bytearray, version: int, answer: FetchPartitionAnswer) -> bytearray:
    """Append one partition; returns the part for the next small pieces, a new one after long records."""
    index, error_code, high_watermark = answer.index, answer.error_code, answer.high_watermark
    last_stable_offset, log_start_offset = answer.last_stable_offset, answer.log_start_offset
    records, preferred = answer.records, answer.preferred_read_replica
    aborted, flexible = answer.aborted_transactions, version >= 12
    if version >= 5:
        out += _FETCH_PARTITION_V5.pack(index, error_code, high_watermark, last_stable_offset, log_start_offset)
    else:
        out += _FETCH_PARTITION_V4.pack(index, error_code, high_watermark, last_stable_offset)
    if aborted is None:
        append_count(out, -1, flexible)
    else:
        append_count(out, len(aborted), flexible)
        for transaction in aborted:
            out += struct.pack(">qq", transaction.producer_id, transaction.first_offset)
            if flexible:
                out.append(0)
    if version >= 11:
        out += pack_int32(preferred)
    append_count(out, len(records), flexible)
    if len(records) > RECORDS_COPIED_BYTES_MAX:
        out = bytearray()
        parts += (records, out)
    else:
        out += bytes(records)
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
        blocks.append(leader_tag(1, leader))
    if snapshot is not None and snapshot != (-1, -1):
        blocks.append(_OFFSET_EPOCH_TAG.pack(2, 13, snapshot.end_offset, snapshot.epoch, 0))
    out.append(len(blocks))
    out += b"".join(blocks)
