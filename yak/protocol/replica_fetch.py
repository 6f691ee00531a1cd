"""Hand-written follower Fetch, version 17: the follower's request and the leader's response.

One version is enough: brokers of one cluster use the newest version that both know, and every YAK broker knows this
one. It names topics by id, carries the follower's broker epoch (KIP-903) and the epoch of its last record, and its
response says where the logs diverge (KIP-595). kio is the oracle in the tests. This code takes a tenth of kio's time,
and a follower sends one request for every response.

The consumers' fields (aborted transactions, preferred replica, snapshot, node endpoints, throttle time) are skipped: a
follower learns the leader from the cluster's metadata.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from yak.errors import ProtocolViolation
from yak.limits import BROKER_REQUEST_ELEMENTS_MAX
from yak.protocol.bounded_reads import Budget, end_of_tags, expect_end, read_compact_count, refuse_overrun
from yak.protocol.fetch_answer import DivergingEpoch
from yak.protocol.hot_pieces import LENGTH, LeaderHint, append_count, append_string, pack_int32
from yak.protocol.tagged_fields import iterate_tags, read_tag_count
from yak.protocol.varint import append_uvarint, read_uvarint
from yak.protocol.versions import FETCH

VERSION: Final = 17

_HEADER: Final = struct.Struct(">ihhi")
_FRONT: Final = struct.Struct(">iiibi")
_pack_one: Final = struct.Struct(">iB16sBiiqiqiBBB").pack
"""Session epoch, one topic with one partition, no tagged fields, no forgotten topics."""
_SESSIONS_REMEMBERED: Final = 64
_pack_wanted: Final = struct.Struct(">iiqiqiB").pack
_REPLICA_STATE_TAG: Final = struct.Struct(">BBiqB")
_REPLICA_STATE_BYTES: Final = 13


class WantedPartition(NamedTuple):
    """A follower's request for one partition: offset, epochs and maximum bytes.

    `last_fetched_epoch` is the epoch of its last record, -1 for an empty log.
    """

    index: int  # type: ignore[assignment]  # hides `tuple.index`, which is not used
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


def replica_fetch_request(
    correlation_id: int,
    client_id: str,
    *,
    cluster_id: str,
    replica_id: int,
    replica_epoch: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session_id: int,
    session_epoch: int,
    topics: Sequence[tuple[bytes, Sequence[WantedPartition]]],
    forgotten: Sequence[tuple[bytes, Sequence[int]]],
) -> bytes:
    """A whole request with length prefix and header; session as in KIP-227 (id 0, epoch 0 requests a new one).

    Topics are named by the 16 bytes of their ids.
    """
    front = _front(client_id, max_wait_ms, min_bytes, max_bytes, session_id)
    tail = _tail(cluster_id, replica_id, replica_epoch)
    if len(topics) == 1 and len(topics[0][1]) == 1 and not forgotten:
        topic_id, (partition,) = topics[0]
        partition_bytes = _pack_one(session_epoch, 2, topic_id, 2, *partition, 0, 0, 1)
        size = _HEADER.size - 4 + len(front) + len(partition_bytes) + len(tail)
        return b"".join((_HEADER.pack(size, FETCH, VERSION, correlation_id), front, partition_bytes, tail))
    out = bytearray(_HEADER.pack(0, FETCH, VERSION, correlation_id))
    out += front
    out += pack_int32(session_epoch)
    append_count(out, len(topics), True)
    for topic_id, wanted in topics:
        out += topic_id
        append_count(out, len(wanted), True)
        out += b"".join([_pack_wanted(*partition, 0) for partition in wanted])
        out.append(0)
    append_count(out, len(forgotten), True)
    for topic_id, indexes in forgotten:
        out += topic_id
        append_count(out, len(indexes), True)
        out += struct.pack(f">{len(indexes)}iB", *indexes, 0)
    out += tail
    LENGTH.pack_into(out, 0, len(out) - 4)
    return bytes(out)


@lru_cache(_SESSIONS_REMEMBERED)
def _front(client_id: str, max_wait_ms: int, min_bytes: int, max_bytes: int, session_id: int) -> bytes:
    """The bytes between correlation id and session epoch: the same for a whole session."""
    out = bytearray()
    append_string(out, client_id, False)
    out.append(0)
    return bytes(out) + _FRONT.pack(max_wait_ms, min_bytes, max_bytes, 0, session_id)


@lru_cache(_SESSIONS_REMEMBERED)
def _tail(cluster_id: str, replica_id: int, replica_epoch: int) -> bytes:
    """The bytes after the partitions."""
    cluster = bytearray()
    append_string(cluster, cluster_id, True)
    out = bytearray(b"\x01\x02\x00")  # no rack; two tagged fields, the first with tag 0
    append_uvarint(out, len(cluster))
    out += cluster
    return bytes(out) + _REPLICA_STATE_TAG.pack(1, _REPLICA_STATE_BYTES, replica_id, replica_epoch, 0)


@dataclass(slots=True)
class FetchedPartition:
    """The leader's result for one partition; `records` is a view into the frame, valid as long as that is.

    `topic_id` is the id's 16 bytes, the lookup key.
    """

    topic_id: bytes
    index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: DivergingEpoch | None
    current_leader: LeaderHint | None


class ReplicaFetchAnswer(NamedTuple):
    """A leader's whole response; the error code is that of the request or its session."""

    correlation_id: int
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]


_ENDS_EARLY: Final = "the answer ends early"
_ANSWER_FRONT: Final = struct.Struct(">ihi")
_TOPIC_BYTES_MIN: Final = 18
_PARTITION: Final = struct.Struct(">ihqqqBiBB")
"""A partition without aborted transactions, records and tagged fields: the shortest possible one."""
_ONE_PARTITION: Final = struct.Struct(">iBihiB16sBihqqqBiB")
"""A response with one partition, up to the first byte of its records' length."""
_ID_BYTES: Final = 16
_NO_ID: Final = bytes(_ID_BYTES)
_ABORTED_AT: Final = 30
_ABORTED_BYTES_MIN: Final = 17
_DIVERGING: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_NO_RECORDS: Final = memoryview(b"")


def decode_replica_fetch_answer(frame: memoryview) -> ReplicaFetchAnswer:
    """Decode a response to `replica_fetch_request`, without its length prefix. Raises ProtocolViolation."""
    budget = Budget(BROKER_REQUEST_ELEMENTS_MAX)
    try:
        usual = _one_partition(frame)
        if usual is not None:
            return usual
        (correlation_id,) = LENGTH.unpack_from(frame)
        position = end_of_tags(frame, LENGTH.size, budget)
        _throttle_ms, error_code, session_id = _ANSWER_FRONT.unpack_from(frame, position)
        position += _ANSWER_FRONT.size
        topic_count, position = read_compact_count(frame, position, _TOPIC_BYTES_MIN, budget)
        partitions: list[FetchedPartition] = []
        for _ in range(topic_count):
            topic_id = bytes(frame[position : position + _ID_BYTES])
            if topic_id == _NO_ID:
                raise ProtocolViolation("a topic without an id in the answer")
            position = _read_partitions(frame, position + _ID_BYTES, topic_id, partitions, budget)
            position = end_of_tags(frame, position, budget)
        position = end_of_tags(frame, position, budget)
    except struct.error:
        raise ProtocolViolation(_ENDS_EARLY) from None
    refuse_overrun(frame, position)
    return ReplicaFetchAnswer(correlation_id, error_code, session_id, partitions)


def _one_partition(frame: memoryview) -> ReplicaFetchAnswer | None:
    """Decode the usual response: one partition, no tagged fields and aborted transactions; None for any other."""
    if len(frame) < _ONE_PARTITION.size:
        return None
    (
        correlation_id,
        head_tags,
        _throttle_ms,
        error_code,
        session_id,
        topics,
        topic_id,
        partitions,
        index,
        partition_error,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        _preferred,
        length,
    ) = _ONE_PARTITION.unpack_from(frame)
    if head_tags or topics != 2 or topic_id == _NO_ID or partitions != 2 or aborted > 1:
        return None
    start = _ONE_PARTITION.size
    if length >= 0x80:
        length, start = read_uvarint(frame, start - 1)
    end = start + length - 1 if length else start
    if end + 3 != len(frame) or frame[end] or frame[end + 1] or frame[end + 2]:
        return None
    partition = FetchedPartition(
        topic_id,
        index,
        partition_error,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        frame[start:end],
        None,
        None,
    )
    return ReplicaFetchAnswer(correlation_id, error_code, session_id, [partition])


def _read_partitions(
    frame: memoryview, position: int, topic_id: bytes, partitions: list[FetchedPartition], budget: Budget
) -> int:
    """Append a topic's partitions; returns the position after them."""
    count, position = read_compact_count(frame, position, _PARTITION.size, budget)
    unpack, size, append = _PARTITION.unpack_from, _PARTITION.size, partitions.append
    for _ in range(count):
        index, error_code, high_watermark, stable_offset, log_start_offset, aborted, _preferred, length, tags = unpack(
            frame, position
        )
        offsets = (high_watermark, stable_offset, log_start_offset)
        if aborted <= 1 and length <= 1 and not tags:
            append(FetchedPartition(topic_id, index, error_code, *offsets, _NO_RECORDS, None, None))
            position += size
            continue
        position = _skip_aborted(frame, position + _ABORTED_AT, budget) + 4
        records, position = _read_records(frame, position)
        diverging = leader = None
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            diverging, leader, position = _read_partition_tags(frame, position, budget)
        append(FetchedPartition(topic_id, index, error_code, *offsets, records, diverging, leader))
    return position


def _skip_aborted(frame: memoryview, position: int, budget: Budget) -> int:
    """Position after the aborted transactions, which may be null."""
    if frame[position] == 0:
        return position + 1
    count, position = read_compact_count(frame, position, _ABORTED_BYTES_MIN, budget)
    for _ in range(count):
        position = end_of_tags(frame, position + _ABORTED_BYTES_MIN - 1, budget)
    return position


def _read_records(frame: memoryview, position: int) -> tuple[memoryview, int]:
    length, position = read_uvarint(frame, position)
    end = position + max(0, length - 1)
    if end > len(frame):
        raise ProtocolViolation(f"records of {length - 1} bytes with {len(frame) - position} bytes left")
    return frame[position:end], end


def _read_partition_tags(
    frame: memoryview, position: int, budget: Budget
) -> tuple[DivergingEpoch | None, LeaderHint | None, int]:
    """(diverging epoch or None, current leader or None, position after the block); -1 on the wire means None."""
    diverging: DivergingEpoch | None = None
    leader: LeaderHint | None = None
    count, position = read_tag_count(frame, position, len(frame))
    budget.spend(count)
    for tagged in iterate_tags(frame, position, len(frame), count):
        position = tagged.value_end
        if tagged.tag == 0:
            diverging = DivergingEpoch(*_DIVERGING.unpack_from(frame, tagged.value_start))
            expect_end(tagged, end_of_tags(frame, tagged.value_start + _DIVERGING.size, budget))
        elif tagged.tag == 1:
            leader = LeaderHint(*_LEADER.unpack_from(frame, tagged.value_start))
            expect_end(tagged, end_of_tags(frame, tagged.value_start + _LEADER.size, budget))
    return (
        diverging if diverging is not None and diverging.epoch >= 0 else None,
        leader if leader != (-1, -1) else None,
        position,
    )
