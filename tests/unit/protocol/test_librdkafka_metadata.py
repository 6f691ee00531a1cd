"""librdkafka's Metadata request for all topics has three bytes too many, and is understood as it was meant."""

import itertools

import pytest
from kio.index import load_request_schema

from yak.errors import ProtocolViolation
from yak.protocol.codec import decode_request
from yak.protocol.librdkafka_metadata import without_reserved_bytes
from yak.protocol.request_check import check_body

AS_SENT_BY_2_16 = bytes.fromhex("00000000010000")


def decode(version: int, body: bytes, before: bytes = b"header") -> object:
    return decode_request(3, version, memoryview(before + body), len(before))


@pytest.mark.parametrize("version", [11, 12, 13])
def test_the_request_for_all_topics_is_read_with_the_flags_that_were_meant(version: int) -> None:
    assert decode(version, AS_SENT_BY_2_16) == decode(version, bytes.fromhex("00010000"))
    request = decode(version, AS_SENT_BY_2_16)
    assert request.topics is None  # type: ignore[attr-defined]
    assert request.allow_auto_topic_creation is True  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [9, 10])
def test_the_versions_with_one_more_flag_are_read_too(version: int) -> None:
    assert decode(version, bytes.fromhex("0000000001000000")) == decode(version, bytes.fromhex("0001000000"))


@pytest.mark.parametrize(
    "body", [AS_SENT_BY_2_16 + b"\0", AS_SENT_BY_2_16[:-1] + b"\0\0\0", bytes.fromhex("00000001010000")]
)
def test_any_other_bytes_left_over_are_still_refused(body: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode(13, body)


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("tags", ["01ac0200", "01280100", "01000100", "01010100", "012801ff"])
def test_a_request_with_unknown_tagged_fields_is_read_as_it_stands(version: int, tags: str) -> None:
    body = bytes.fromhex("00000000" + tags)
    assert decode(version, body) == decode(version, bytes.fromhex("0000000000"))


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_no_request_that_is_right_as_it_stands_is_changed(version: int) -> None:
    entity = load_request_schema(3, version)
    for rest in itertools.product((0, 1, 2, 40, 0x80, 0xFF), repeat=3 if version >= 11 else 4):
        body = memoryview(bytes(4) + bytes(rest))
        try:
            check_body(entity, body, 0)
        except ProtocolViolation:
            continue
        assert without_reserved_bytes(version, body, 0) == (body, 0), bytes(body).hex()


def test_in_the_old_versions_the_same_bytes_ask_for_no_topic() -> None:
    assert decode(8, AS_SENT_BY_2_16).topics == ()  # type: ignore[attr-defined]
