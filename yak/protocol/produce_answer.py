"""Hand-written encoder of Produce responses, versions 3 to 13; the bytes equal kio's."""

import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass
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
    append_string,
    append_topic,
    id_bytes,
    leader_tag,
    name_bytes,
    pack_int32,
)
from yak.protocol.pace import at_once
from yak.protocol.varint import append_uvarint


class RecordError(NamedTuple):
    """A record that made its batch fail: its index in the batch, and an error message."""

    batch_index: int
    message: str | None


@dataclass(slots=True)
class ProducePartitionAnswer:
    """The result of one partition; -1 means unknown or not applicable."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: LeaderHint | None = None


ProduceTopicAnswer: TypeAlias = tuple[TopicKey, Sequence[ProducePartitionAnswer]]

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
    throttle_ms: int = 0,
) -> list[Part]:
    """A whole Produce response."""
    if len(topics) == 1 and not node_endpoints:
        key, partitions = topics[0]
        if len(partitions) == 1:
            answer = partitions[0]
            if answer.error_message is None and not answer.record_errors and answer.current_leader is None:
                return [_one_produce_answer(version, correlation_id, key, answer, throttle_ms)]
    return [at_once(produce_response_in_slices(version, correlation_id, topics, node_endpoints, throttle_ms))]


def _one_produce_answer(
    version: int, correlation_id: int, key: TopicKey, answer: ProducePartitionAnswer, throttle_ms: int
) -> bytes:
    index, error_code, base_offset = answer.index, answer.error_code, answer.base_offset
    time_ms, log_start_offset = answer.log_append_time_ms, answer.log_start_offset
    if version >= 9:
        back = _PRODUCE_BACK_FLEXIBLE.pack(
            2, index, error_code, base_offset, time_ms, log_start_offset, 1, 0, 0, 0, throttle_ms, 0
        )
        if version >= 13:
            raw_id = id_bytes(key)
            return _PRODUCE_FRONT_BY_ID.pack(len(back) + 22, correlation_id, 0, 2, raw_id) + back
        encoded = name_bytes(key)
        if len(encoded) < 0x7F:
            size = len(back) + 7 + len(encoded)
            return _PRODUCE_FRONT_FLEXIBLE.pack(size, correlation_id, 0, 2, len(encoded) + 1) + encoded + back
        front = bytearray(_PRODUCE_FRONT_FLEXIBLE.pack(0, correlation_id, 0, 2, 0)[:-1])
        append_uvarint(front, len(encoded) + 1)
        front += encoded
        front += back
        LENGTH.pack_into(front, 0, len(front) - 4)
        return bytes(front)
    if version >= 8:
        back = _PRODUCE_BACK_V8.pack(1, index, error_code, base_offset, time_ms, log_start_offset, 0, -1, throttle_ms)
    elif version >= 5:
        back = _PRODUCE_BACK_V5.pack(1, index, error_code, base_offset, time_ms, log_start_offset, throttle_ms)
    else:
        back = _PRODUCE_BACK_V3.pack(1, index, error_code, base_offset, time_ms, throttle_ms)
    encoded = name_bytes(key)
    return _PRODUCE_FRONT.pack(10 + len(encoded) + len(back), correlation_id, 1, len(encoded)) + encoded + back


def produce_response_in_slices(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceTopicAnswer],
    node_endpoints: Sequence[NodeEndpoint],
    throttle_ms: int,
) -> Generator[None, None, bytes]:
    """`produce_response` that yields after every `SLICE_ELEMENTS` partitions."""
    flexible, passed = version >= 9, 0
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if flexible:
        out.append(0)
    append_count(out, len(topics), flexible)
    for key, partitions in topics:
        append_topic(out, key, version >= 13, flexible)
        append_count(out, len(partitions), flexible)
        for answer in partitions:
            _append_produce_partition(out, version, answer)
            passed += 1
            if passed % SLICE_ELEMENTS == 0:
                yield
        if flexible:
            out.append(0)
    out += pack_int32(throttle_ms)
    if version >= 10:
        append_endpoints(out, node_endpoints)
    elif flexible:
        out.append(0)
    LENGTH.pack_into(out, 0, len(out) - 4)
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
    append_count(out, len(answer.record_errors), flexible)
    for record_error in answer.record_errors:
        out += pack_int32(record_error.batch_index)
        append_string(out, record_error.message, flexible)
        if flexible:
            out.append(0)
    append_string(out, answer.error_message, flexible)
    if flexible:
        tag = leader_tag(0, answer.current_leader) if version >= 10 else b""
        out.append(1 if tag else 0)
        out += tag
