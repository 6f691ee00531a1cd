"""All requests against kio: `yak.protocol.request_check` in front of it, and the hand-decoded two,
`yak.protocol.produce_request` and `yak.protocol.fetch_request` with their `yak.protocol.bounded_reads`.
"""

import datetime as dt
import random
import struct
from dataclasses import fields, is_dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.static.primitive import i64Timedelta

from tests.unit.protocol.conftest import ALL_VERSIONS
from yak.errors import ProtocolViolation
from yak.limits import REQUEST_ELEMENTS_MAX
from yak.protocol.codec import decode_in_slices, decode_request
from yak.protocol.request_check import apply_edits, check_body
from yak.protocol.schema_fields import schema_fields
from yak.protocol.schemas import load_request_schema
from yak.protocol.varint import uvarint
from yak.protocol.versions import FETCH, PRODUCE

QUICK = settings(max_examples=4)
COLD = [pair for pair in ALL_VERSIONS if pair[0] not in (PRODUCE, FETCH)]


def view(data):
    return memoryview(bytes(data))


def as_plain(value):
    """Hot requests and kio's, in one shape: nested tuples of what both have."""
    if isinstance(value, memoryview):
        return bytes(value)
    if hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
        raise AssertionError("compare fields one by one")
    return value


OTHERWISE = {
    "timeout": lambda ours: dt.timedelta(milliseconds=ours.timeout_ms),
    "max_wait": lambda ours: dt.timedelta(milliseconds=ours.max_wait_ms),
    "replica_state": lambda ours: ours,
}
"""Where a hot request has what kio has in a field of another name or type."""


def same(ours, kios) -> bool:
    """Whether a hot request says what kio's says, field by field of kio's class."""
    for field in fields(kios):
        mine = OTHERWISE[field.name](ours) if field.name in OTHERWISE else getattr(ours, field.name)
        theirs = getattr(kios, field.name)
        if isinstance(theirs, tuple) and theirs and hasattr(theirs[0], "__dataclass_fields__"):
            if len(mine) != len(theirs) or not all(map(same, mine, theirs)):
                return False
        elif hasattr(theirs, "__dataclass_fields__"):
            if not same(mine, theirs):
                return False
        elif isinstance(theirs, tuple):
            if tuple(mine) != theirs:
                return False
        elif as_plain(mine) != theirs:
            return False
    return True


@QUICK
@given(seed=st.integers(0, 2**32))
def test_every_request_of_every_version_is_read_as_kio_reads_it(oracle, seed):
    rng = random.Random(seed)
    for key, version in COLD:
        entity = oracle.random_entity(load_request_schema(key, version), rng)
        data = oracle.kio_bytes(entity)
        assert decode_request(key, version, view(b"??" + data), 2) == oracle.kio_entity(type(entity), data)


@QUICK
@given(seed=st.integers(0, 2**32))
def test_unknown_tagged_fields_change_nothing(oracle, seed):
    rng = random.Random(seed)
    for key, version in ALL_VERSIONS:
        entity = oracle.random_entity(load_request_schema(key, version), rng)
        if not entity.__flexible__:
            continue
        data = oracle.bytes_with_unknown_tags(entity, rng)
        expected = oracle.kio_entity(type(entity), oracle.kio_bytes(entity))
        edited = apply_edits(view(data), 0, check_body(type(entity), view(data), 0, REQUEST_ELEMENTS_MAX))
        assert oracle.kio_entity(type(entity), edited) == expected, (key, version)
        found = decode_request(key, version, view(data), 0)
        assert same(found, expected) if key in (PRODUCE, FETCH) else found == expected, (key, version)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_the_hot_requests_are_read_as_kio_reads_them(oracle, seed):
    rng = random.Random(seed)
    for key, version in ALL_VERSIONS:
        if key not in (PRODUCE, FETCH):
            continue
        entity = oracle.random_entity(load_request_schema(key, version), rng)
        data = oracle.kio_bytes(entity)
        assert same(decode_request(key, version, view(b"?" + data), 1), oracle.kio_entity(type(entity), data)), version


def test_the_usual_produce_request_is_read_as_kio_reads_it(oracle):
    for version in range(3, 14):
        for records in (b"", b"r", b"r" * 126, b"r" * 127, b"r" * 70_000):
            body = b"\0" if version >= 9 else b"\xff\xff"
            body += struct.pack(">hi", -1, 30_000)
            count = uvarint(2) if version >= 9 else struct.pack(">i", 1)
            topic = bytes(range(16)) if version >= 13 else b"\x06topic" if version >= 9 else b"\0\x05topic"
            size = uvarint(len(records) + 1) if version >= 9 else struct.pack(">i", len(records))
            body += count + topic + count + struct.pack(">i", 5) + size + records + (b"\0\0\0" if version >= 9 else b"")
            ours = decode_request(PRODUCE, version, view(body), 0)
            assert same(ours, oracle.kio_entity(load_request_schema(PRODUCE, version), body))
            assert ours.timeout_ms == 30_000
            front = len(body) - len(records)
            for end in {*range(front), len(body) - 1, len(body) - 2, len(body) - 3}:
                with pytest.raises(ProtocolViolation):
                    decode_request(PRODUCE, version, view(body[:end]), 0)
            assert decode_request(PRODUCE, version, view(body + b"\0"), 0) == ours


def test_records_are_a_view_into_the_frame_and_not_a_copy():
    body = b"\0" + struct.pack(">hi", 1, 5) + b"\x02\x02t\x02" + bytes(4) + uvarint(1001) + bytes(1000) + b"\0\0\0"
    frame = view(body)
    assert decode_request(PRODUCE, 9, frame, 0).topic_data[0].partition_data[0].records.obj is frame.obj


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (3, 1, struct.pack(">i", 2**31 - 1)),
        (3, 1, struct.pack(">i", -2)),
        (3, 1, struct.pack(">ih", 1, 30000) + b"x"),
        (3, 1, struct.pack(">ih", 1, -7)),
        (3, 0, struct.pack(">i", -1)),  # null where version 0 has none
        (3, 12, b"\xff\xff\xff\xff\x7f"),  # kio would abort the process here
        (3, 12, b"\xff\xff\xff\xff\x0f"),
        (3, 12, b"\xff" * 10),
        (3, 12, b"\x80\x80\x80\x80\x80"),
        (3, 12, b""),
        (3, 4, struct.pack(">i", 0)),  # no boolean
        (0, 3, b"\xff\xff" + struct.pack(">hii", 1, 1000, 2**31 - 1)),
        (0, 3, b"\xff\xff" + struct.pack(">hii", 1, 1000, -1)),
        (0, 3, b"\xff\xff" + struct.pack(">hii", 1, 1000, 1) + b"\xff\xff" + struct.pack(">i", 0)),
        (0, 3, b"\xff\xff" + struct.pack(">hii", 1, 1000, 1) + b"\0\1a" + struct.pack(">iii", 1, 0, -2)),
        (0, 3, b"\xff\xff" + struct.pack(">hii", 1, 1000, 1) + b"\0\1a" + struct.pack(">iii", 1, 0, 2**31 - 1)),
        (0, 9, b"\0" + struct.pack(">hi", 1, 1000) + b"\0\0"),
        (0, 9, b"\0" + struct.pack(">hi", 1, 1000) + b"\xff\xff\xff\xff\x0f"),
        (0, 13, b"\0" + struct.pack(">hi", 1, 1000) + b"\x02" + bytes(3)),
        (1, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**31 - 1)),
        (1, 12, struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1) + b"\xff\xff\xff\xff\x0f"),
        (1, 15, struct.pack(">iiibii", 0, 0, 0, 0, 0, -1) + b"\x01\x01\x01" + b"\x02\x00\x02\x02a\x00\x02\x02b"),
        (1, 15, struct.pack(">iiibii", 0, 0, 0, 0, 0, -1) + b"\x01\x01\x01" + b"\x01\x01\x05" + bytes(13)),
        (1, 15, struct.pack(">iiibii", 0, 0, 0, 0, 0, -1) + b"\x01\x01\x01" + b"\x01\x01\x0e" + bytes(14)),
        (1, 15, struct.pack(">iiibii", 0, 0, 0, 0, 0, -1) + b"\x01\x01\x01" + b"\xff\xff\xff\xff\x07"),
        (75, 0, b"\x01" + struct.pack(">i", 1) + b"\x05\0"),  # a structure that ends early
    ],
)
def test_request_body_with_false_sizes_is_a_protocol_violation(key, version, body):
    with pytest.raises(ProtocolViolation):
        decode_request(key, version, view(body), 0)


@pytest.mark.parametrize("byte", [1, 2, 0x7F, 0x80, 0xFF])
def test_boolean_of_any_byte_but_zero_is_true_as_in_kafka(byte):
    for body in (struct.pack(">iB", 0, byte), struct.pack(">iB", 0, byte) + b"surplus"):
        request = decode_request(3, 4, view(b"?" + body), 1)
        assert request.allow_auto_topic_creation is True
        assert _decoded_in_slices(3, 4, body) == request
    flags = struct.pack(">BB", 0, byte)
    assert decode_request(3, 11, view(b"\1" + flags + b"\0"), 0).include_topic_authorized_operations is True


@pytest.mark.parametrize("marker", range(0, 256, 5))
def test_nullable_structure_is_null_after_a_negative_byte_as_in_kafka(marker):
    cursor = b"\2a" + struct.pack(">i", 3) + b"\0"
    body = b"\1" + struct.pack(">iB", 1, marker) + (b"" if marker >= 0x80 else cursor) + b"\0"
    found = decode_request(75, 0, view(body), 0).cursor
    assert found is None if marker >= 0x80 else (found.topic_name, found.partition_index) == ("a", 3)


def with_replaced(value):
    """A request in which "ééé" became six U+FFFD."""
    if isinstance(value, str):
        return value.replace("é" * 3, "\ufffd" * 6)
    if isinstance(value, tuple):
        return tuple(map(with_replaced, value))
    if is_dataclass(value):
        return replace(value, **{field.name: with_replaced(getattr(value, field.name)) for field in fields(value)})
    return value


@QUICK
@given(seed=st.integers(0, 2**32))
def test_string_that_is_not_utf8_is_read_with_its_bytes_replaced_as_by_kafka(oracle, seed):
    rng = random.Random(seed)
    for key, version in ALL_VERSIONS:
        entity = oracle.random_entity(load_request_schema(key, version), rng)
        data = oracle.kio_bytes(entity)
        damaged = data.replace("é".encode() * 3, b"\xff" * 6)
        expected = with_replaced(oracle.kio_entity(type(entity), data))
        found = decode_request(key, version, view(b"?" + damaged), 1)
        assert same(found, expected) if key in (PRODUCE, FETCH) else found == expected, (key, version)
        assert key in (PRODUCE, FETCH) or _decoded_in_slices(key, version, damaged) == expected


def test_string_that_is_too_long_with_its_bytes_replaced_is_a_protocol_violation():
    assert decode_request(3, 1, view(struct.pack(">ih", 1, 10_000) + b"\xff" * 10_000), 0)
    with pytest.raises(ProtocolViolation, match="too long with its bytes replaced"):
        decode_request(3, 1, view(struct.pack(">ih", 1, 20_000) + b"\xff" * 20_000), 0)


def _decoded_in_slices(key, version, body):
    slices = decode_in_slices(key, version, view(body), 0, REQUEST_ELEMENTS_MAX)
    while True:
        try:
            next(slices)
        except StopIteration as decoded:
            return decoded.value


ALL_TOPICS = bytes.fromhex("00010000")
"""Metadata v11 and later: no array of topics, allow_auto_topic_creation, no other flag, no tagged fields."""
FETCH_V4 = struct.pack(">iiiibi", -1, 100, 1, 1000, 0, 0)
FETCH_V12 = struct.pack(">iiiibii", -1, 100, 1, 1000, 0, 0, -1) + bytes.fromhex("01010100")
PRODUCE_V3 = struct.pack(">hhii", -1, -1, 1000, 0)
PRODUCE_V9 = b"\0" + struct.pack(">hi", -1, 1000) + b"\1\0"


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (3, 1, struct.pack(">i", 0)),
        (3, 13, ALL_TOPICS),
        (1, 4, FETCH_V4),
        (1, 12, FETCH_V12),
        (0, 3, PRODUCE_V3),
        (0, 9, PRODUCE_V9),
    ],
)
def test_bytes_after_the_body_are_ignored_as_by_kafka(key, version, body):
    request = decode_request(key, version, view(body), 0)
    assert decode_request(key, version, view(body + b"abc"), 0) == request
    assert _decoded_in_slices(key, version, body + b"abc") == request


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_librdkafkas_metadata_request_with_three_surplus_bytes_requests_all_topics(version):
    flags = bytes.fromhex("010000") if version < 11 else bytes.fromhex("0100")
    assert decode_request(3, version, view(bytes(4) + flags + b"\0"), 0).topics is None


def test_too_many_elements_are_refused_before_they_are_built():
    count = REQUEST_ELEMENTS_MAX + 1
    with pytest.raises(ProtocolViolation, match="elements"):
        decode_request(3, 1, view(struct.pack(">i", count) + bytes(2 * count)), 0)


def test_elements_are_counted_over_all_arrays_and_tags_of_a_request():
    tags = uvarint(900) + b"".join(uvarint(tag) + b"\0" for tag in range(900))
    partition = bytes(4) + b"\1" + tags
    count = REQUEST_ELEMENTS_MAX // 900 + 1
    body = b"\0" + bytes(6) + b"\2\2t" + uvarint(count + 1) + partition * count + b"\0\0"
    with pytest.raises(ProtocolViolation, match="elements"):
        decode_request(PRODUCE, 9, view(body), 0)
    count = REQUEST_ELEMENTS_MAX // 900 + 1
    topics = uvarint(count + 1) + (b"\2t" + tags) * count
    with pytest.raises(ProtocolViolation, match="elements"):
        decode_request(3, 9, view(topics + bytes(4)), 0)


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 99), (999, 0), (1, -1), (7, 0)])
def test_a_version_that_cannot_be_decoded_is_a_violation(key, version):
    with pytest.raises(ProtocolViolation):
        decode_request(key, version, view(b""), 0)


def test_null_and_empty_stay_apart():
    assert decode_request(3, 1, view(struct.pack(">i", -1)), 0).topics is None
    assert decode_request(3, 1, view(struct.pack(">i", 0)), 0).topics == ()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_request_is_read_or_refused_and_nothing_else(oracle, seed):
    rng = random.Random(seed)
    for key, version in rng.sample(ALL_VERSIONS, 40) + [(0, 9), (0, 13), (1, 12), (1, 18), (3, 13)]:
        data = bytearray(oracle.kio_bytes(oracle.random_entity(load_request_schema(key, version), rng)))
        oracle.damage(data, rng)
        try:
            decode_request(key, version, view(data), 0)
        except ProtocolViolation:
            continue


LONG_DURATIONS = [
    (key, version, field.name)
    for key, version in COLD
    for field in schema_fields(load_request_schema(key, version))
    if field.kind == "timedelta_i64"
]
MS = dt.timedelta(milliseconds=1)
LONGEST_MS = (2**63 - 1) // 1000


def test_long_durations_are_in_commits_and_delegation_tokens_only():
    names = {name for *_, name in LONG_DURATIONS}
    assert names == {"retention_time", "max_lifetime", "renew_period", "expiry_time_period"}


@pytest.mark.parametrize(("key", "version", "name"), LONG_DURATIONS)
@pytest.mark.parametrize(
    "milliseconds",
    [2**63 - 1, LONGEST_MS + 1, LONGEST_MS, 10**15, 1, 0, -1, -LONGEST_MS, -LONGEST_MS - 1, -(2**63)],
)
def test_every_duration_is_decoded_or_becomes_the_longest_one(oracle, key, version, name, milliseconds):
    entity = oracle.random_entity(load_request_schema(key, version), random.Random(7))
    marked = replace(entity, **{name: i64Timedelta.parse(0x0123456789ABCD * MS)})
    data = oracle.kio_bytes(marked)
    marker = struct.pack(">q", 0x0123456789ABCD)
    assert data.count(marker) == 1
    data = data.replace(marker, struct.pack(">q", milliseconds))
    expected = max(-LONGEST_MS, min(milliseconds, LONGEST_MS)) * MS
    assert decode_request(key, version, view(data), 0) == replace(marked, **{name: i64Timedelta.parse(expected)})
    with pytest.raises(ProtocolViolation):
        decode_request(key, version, view(data[: data.index(struct.pack(">q", milliseconds)) + 4]), 0)
