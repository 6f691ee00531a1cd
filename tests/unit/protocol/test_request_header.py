import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ProtocolViolation
from yak.protocol.request_header import RequestHeader, read_request_header
from yak.protocol.varint import uvarint


def header(key, version, correlation_id=7, client_id=b"me", tags=b""):
    length = -1 if client_id is None else len(client_id)
    return memoryview(struct.pack(">hhih", key, version, correlation_id, length) + (client_id or b"") + tags)


def test_the_header_before_flexible_versions_has_no_tags():
    assert read_request_header(header(0, 8)) == RequestHeader(0, 8, 7, "me", 12)


def test_the_flexible_header_has_tags():
    assert read_request_header(header(0, 9, tags=b"\0")) == RequestHeader(0, 9, 7, "me", 13)


def test_a_null_client_id_is_not_an_empty_one():
    assert read_request_header(header(3, 1, client_id=None)).client_id is None
    assert read_request_header(header(3, 1, client_id=b"")).client_id == ""


def test_unknown_tags_are_skipped():
    tags = uvarint(2) + uvarint(3) + uvarint(1) + b"x" + uvarint(900) + uvarint(200) + bytes(200)
    found = read_request_header(header(0, 9, tags=tags + b"body"))
    assert found.body_offset == 12 + len(tags)


@pytest.mark.parametrize(
    "tags",
    [
        b"",
        b"\x02\x01\x00\x01\x00",  # the same tag twice
        b"\x02\x05\x00\x01\x00",  # falling tags
        b"\x01\x05\x7f",  # a size past the end
        b"\xff\xff\xff\xff\x0f",  # four billion tags
        b"\xff\xff\xff\xff\xff\xff",  # a number without an end
        b"\xff\x7f" + bytes(60_000),  # more tags than anybody has
    ],
)
def test_tags_that_make_no_sense_are_a_violation(tags):
    with pytest.raises(ProtocolViolation):
        read_request_header(header(0, 9, tags=tags))


def test_client_id_that_is_not_utf8_has_its_bytes_replaced_as_by_kafka():
    assert read_request_header(header(0, 8, client_id=b"caf\xe9")).client_id == "caf\ufffd"


@pytest.mark.parametrize("length", [-2, 3, 32767])
def test_a_client_id_length_that_cannot_be_is_a_violation(length):
    with pytest.raises(ProtocolViolation):
        read_request_header(memoryview(struct.pack(">hhih", 0, 8, 1, length) + b"me"))


@pytest.mark.parametrize("size", [0, 1, 7, 9])
def test_a_frame_too_short_for_a_header_is_a_violation(size):
    with pytest.raises(ProtocolViolation):
        read_request_header(memoryview(bytes(size)))


def test_controlled_shutdown_v0_has_no_client_id():
    assert read_request_header(memoryview(struct.pack(">hhi", 7, 0, 5))) == RequestHeader(7, 0, 5, None, 8)
    assert read_request_header(memoryview(struct.pack(">hhii", 7, 0, 5, 1))) == RequestHeader(7, 0, 5, None, 8)


def test_api_versions_from_the_future_gives_its_correlation_id():
    assert read_request_header(header(18, 99, tags=b"\0")).correlation_id == 7


@given(st.binary(max_size=60))
def test_any_bytes_give_a_header_inside_the_frame_or_a_violation(data):
    try:
        found = read_request_header(memoryview(data))
    except ProtocolViolation:
        return
    assert 8 <= found.body_offset <= len(data)
