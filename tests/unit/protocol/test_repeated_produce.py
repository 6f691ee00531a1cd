"""`yak.protocol.repeated_produce`: what it reads is what the decoder reads, and nothing else is read."""

import random
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ProtocolViolation
from yak.protocol.codec import decode_request
from yak.protocol.repeated_produce import MISSES_MAX, RepeatedProduce
from yak.protocol.request_header import read_request_header
from yak.protocol.varint import uvarint

INT32 = st.integers(-(2**31), 2**31 - 1)
SIZES = st.integers(1, 300) | st.sampled_from([127, 128, 16_382, 16_383, 16_384, 70_000])
TOPIC = uuid.UUID(int=7)


def produce(
    correlation_id: int,
    records: bytes | None,
    *,
    version: int = 9,
    client_id: bytes | None = b"client",
    acks: int = -1,
    timeout_ms: int = 30_000,
    topics: int = 1,
    name: bytes = b"orders",
    index: int = 3,
    transactional_id: bytes | None = None,
    tags: bytes = b"\0\0\0",
) -> memoryview:
    """A Produce request of a flexible version, without its length prefix."""
    head = struct.pack(">hhih", 0, version, correlation_id, -1 if client_id is None else len(client_id))
    topic = TOPIC.bytes if version >= 13 else uvarint(len(name) + 1) + name
    length = b"\0" if records is None else uvarint(len(records) + 1) + records
    partition = struct.pack(">i", index) + length + tags[:1]
    body = b"\0" if transactional_id is None else uvarint(len(transactional_id) + 1) + transactional_id
    body += struct.pack(">hi", acks, timeout_ms) + uvarint(topics + 1)
    body += (topic + uvarint(2) + partition + tags[1:2]) * topics + tags[2:]
    return memoryview(head + (client_id or b"") + b"\0" + body)


def decoded(frame: memoryview) -> tuple:
    header = read_request_header(frame)
    return header[:4], decode_request(header.api_key, header.api_version, frame, header.body_offset)


def learned(frame: memoryview) -> RepeatedProduce:
    repeated = RepeatedProduce()
    assert repeated.read(frame) is None, "it knows nothing yet"
    learn(repeated, frame)
    return repeated


def learn(repeated: RepeatedProduce, frame: memoryview) -> None:
    header = read_request_header(frame)
    repeated.learn(frame, header, decode_request(0, header.api_version, frame, header.body_offset))


@given(
    version=st.integers(9, 13),
    numbers=st.tuples(INT32, INT32),
    sizes=st.tuples(SIZES, SIZES),
    client_id=st.sampled_from([None, b"", b"client", "é".encode() * 40]),
    name=st.sampled_from([b"o", b"orders", b"o" * 200]),
    acks=st.sampled_from([-1, 0, 1, 7]),
)
def test_a_repeated_request_says_what_the_decoder_reads(version, numbers, sizes, client_id, name, acks):
    fields = {"version": version, "client_id": client_id, "name": name, "acks": acks}
    repeated = learned(produce(numbers[0], b"r" * sizes[0], **fields))
    frame = produce(numbers[1], random.Random(sizes[1]).randbytes(sizes[1]), **fields)
    read = repeated.read(frame)
    assert read is not None
    header, request = read
    assert (header[:4], request) == decoded(frame)
    assert header.body_offset <= len(frame)


@pytest.mark.parametrize(
    "other",
    [
        {"version": 10},
        {"client_id": b"cliens"},
        {"client_id": None},
        {"acks": 1},
        {"timeout_ms": 1},
        {"topics": 2},
        {"name": b"ordert"},
        {"index": 4},
        {"transactional_id": b"t"},
        {"records": None},
    ],
    ids=lambda other: next(iter(other)),
)
def test_any_other_request_is_decoded(other):
    repeated = learned(produce(1, b"records"))
    assert repeated.read(produce(2, **{"records": b"records", **other})) is None
    assert repeated.read(produce(3, b"records")) is not None


def test_a_request_of_another_api_with_the_same_bytes_is_decoded():
    repeated = learned(produce(1, b"records"))
    other = bytearray(produce(2, b"records"))
    other[1] = 1
    assert repeated.read(memoryview(other)) is None


@pytest.mark.parametrize(
    "frame",
    [
        produce(1, b"records", transactional_id=b"t"),
        produce(1, b"records", topics=2),
        produce(1, b"records", topics=0),
        produce(1, None),
    ],
    ids=["transactional", "two topics", "no topic", "no records"],
)
def test_a_request_without_exactly_one_batch_teaches_nothing(frame):
    repeated = learned(frame)
    assert repeated.read(frame) is None


def test_tagged_fields_behind_the_records_are_decoded():
    tagged = memoryview(bytes(produce(1, b"records"))[:-3] + b"\0\0\1\5\1x")
    assert learned(tagged).read(tagged) is None
    assert learned(produce(1, b"records")).read(tagged) is None


@given(st.binary(min_size=0, max_size=12), st.integers(0, 60), st.integers(0, 12))
def test_damaged_requests_are_read_as_the_decoder_reads_them_or_not_at_all(noise, at, cut):
    repeated = learned(produce(1, b"r" * 20))
    frame = bytearray(produce(2, b"r" * 20))
    at = min(at, len(frame))
    frame[at : at + cut] = noise
    view = memoryview(bytes(frame))
    try:
        read = repeated.read(view)
    except ProtocolViolation:
        read = None
    if read is not None:
        assert (read[0][:4], read[1]) == decoded(view)


def test_a_connection_whose_requests_never_repeat_stops_learning():
    repeated = RepeatedProduce()
    for number in range(MISSES_MAX + 5):
        learn(repeated, produce(1, b"records", index=number))
    assert repeated.read(produce(1, b"records", index=MISSES_MAX - 1)) is not None
    assert repeated.read(produce(1, b"records", index=MISSES_MAX + 4)) is None
    learn(repeated, produce(1, b"records", index=40))
    assert repeated.read(produce(1, b"records", index=40)) is not None, "a hit makes it learn again"
