"""What this process asks, itself or another broker: requests written, answers read, with kio as the oracle."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.protocol.conftest import ALL_VERSIONS, whole
from yak.errors import ProtocolViolation
from yak.protocol.codec import decode_request, decode_response, encode_request, encode_response
from yak.protocol.request_header import read_request_header
from yak.protocol.schema_fields import plain
from yak.protocol.schemas import load_request_schema, load_response_schema
from yak.protocol.versions import FETCH, PRODUCE

METADATA = 3
QUICK = settings(max_examples=4)


@QUICK
@given(seed=st.integers(0, 2**32))
def test_every_request_of_every_version_is_read_as_it_was_written(oracle, seed):
    rng = random.Random(seed)
    for key, version in ALL_VERSIONS:
        entity = oracle.random_entity(load_request_schema(key, version), rng)
        frame = encode_request(key, version, 7, "asker", plain(entity))
        header = read_request_header(memoryview(frame))
        assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 7)
        assert header.client_id == "asker"
        assert frame[header.body_offset :] == oracle.kio_bytes(entity), (key, version)
        if key not in (PRODUCE, FETCH):  # read by hand into shapes of their own; test_codec_requests has them
            assert decode_request(key, version, memoryview(frame), header.body_offset) == entity


@QUICK
@given(seed=st.integers(0, 2**32))
def test_every_answer_of_every_version_is_read_as_it_was_written(oracle, seed):
    rng = random.Random(seed)
    for key, version in ALL_VERSIONS:
        entity = oracle.random_entity(load_response_schema(key, version), rng)
        written = whole(encode_response(key, version, 7, plain(entity)))
        read = decode_response(key, version, written[4:])
        assert read == oracle.kio_entity(type(entity), oracle.kio_bytes(entity)), (key, version)


@QUICK
@given(seed=st.integers(0, 2**32))
def test_an_answer_that_is_spoilt_is_refused_or_read_and_nothing_else(oracle, seed):
    rng = random.Random(seed)
    for key, version in ALL_VERSIONS:
        entity = oracle.random_entity(load_response_schema(key, version), rng)
        frame = bytearray(whole(encode_response(key, version, 7, plain(entity)))[4:])
        oracle.damage(frame, rng)
        try:
            decode_response(key, version, bytes(frame))
        except ProtocolViolation:
            continue


@pytest.mark.parametrize("frame", [b"", b"\0\0", b"\0\0\0\7", b"\0\0\0\7\0"])
def test_an_answer_that_is_cut_is_refused(frame):
    with pytest.raises(ProtocolViolation, match="the response is not a valid"):
        decode_response(METADATA, 12, frame)


def test_a_field_that_the_version_does_not_have_is_not_lost_in_silence():
    with pytest.raises(TypeError, match="nonsense"):
        encode_request(METADATA, 12, 0, "asker", {"topics": None, "nonsense": 1})
    with pytest.raises(TypeError, match="include_cluster_authorized_operations"):
        encode_request(METADATA, 12, 0, "asker", {"topics": None, "include_cluster_authorized_operations": True})


def test_an_answer_that_claims_more_than_it_has_does_not_end_the_process(oracle):
    """kio's native reader would make room for 2^31 brokers, and abort."""
    for count in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(ProtocolViolation, match="an array of"):
            decode_response(METADATA, 12, b"\0\0\0\7\0" + b"\0\0\0\0" + count + bytes(20))


def test_the_metadata_of_a_large_cluster_is_read():
    partitions = [
        {"partition_index": index, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3]} for index in range(1000)
    ]
    topics = [{"name": f"t{number}", "partitions": partitions} for number in range(40)]
    written = whole(encode_response(METADATA, 12, 7, {"topics": topics}))
    assert len(decode_response(METADATA, 12, written[4:]).topics) == 40
