"""All answers against kio: `yak.protocol.response_encoder` through `yak.protocol.codec`."""

import random
import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.unit.protocol.conftest import ALL_VERSIONS, whole
from tests.unit.response_bodies import encode_response_body
from yak.protocol import codec
from yak.protocol.codec import encode_response, preload
from yak.protocol.schema_fields import plain
from yak.protocol.schemas import load_response_schema


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_every_response_of_every_version_is_written_as_kio_writes_it(oracle, seed):
    rng = random.Random(seed)
    for key, version in ALL_VERSIONS:
        entity = oracle.random_entity(load_response_schema(key, version), rng)
        assert encode_response_body(key, version, plain(entity)) == oracle.kio_bytes(entity), (key, version)


def test_every_response_can_be_written_from_nothing(oracle):
    for key, version in ALL_VERSIONS:
        data = encode_response_body(key, version, {})
        oracle.kio_entity(load_response_schema(key, version), data)


def test_length_and_header_come_first():
    out = whole(encode_response(3, 9, 77, {}))
    length, correlation_id, tags = struct.unpack_from(">iiB", out)
    assert (length, correlation_id, tags) == (len(out) - 4, 77, 0)
    assert out[9:] == encode_response_body(3, 9, {})
    assert whole(encode_response(3, 8, 77, {}))[8:] == encode_response_body(3, 8, {})


def test_api_versions_never_has_tags_in_its_header():
    assert whole(encode_response(18, 3, 1, {}))[8:] == encode_response_body(18, 3, {})


def test_metadata_response_structure_serves_all_versions(oracle):
    topic_id = uuid.uuid4()
    fields = {
        "throttle_time": 5,
        "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": None}],
        "cluster_id": "c",
        "controller_id": 1,
        "cluster_authorized_operations": 3,
        "topics": [
            {
                "error_code": ErrorCode.none,
                "name": "t",
                "topic_id": topic_id,
                "is_internal": False,
                "partitions": [{"partition_index": 0, "leader_id": 1, "leader_epoch": 4, "replica_nodes": [1, 2]}],
            }
        ],
    }
    for version in range(14):
        found = oracle.kio_entity(load_response_schema(3, version), encode_response_body(3, version, fields))
        assert found.topics[0].name == "t"
        assert found.topics[0].partitions[0].replica_nodes == (1, 2)
    assert found.topics[0].topic_id == topic_id
    assert found.throttle_time.total_seconds() == 0.005


def test_a_field_that_no_version_has_is_our_bug_and_is_named():
    with pytest.raises(TypeError, match=r"metadata\.topics\.partitions has no field 'leeder'"):
        encode_response(3, 1, 1, {"topics": [{"partitions": [{"leeder": 1}]}]})


def test_a_value_that_does_not_fit_is_our_bug_and_is_named():
    with pytest.raises(TypeError, match="controller_id"):
        encode_response(3, 1, 1, {"controller_id": 2**31})
    with pytest.raises(TypeError, match="cluster_id"):
        encode_response(3, 2, 1, {"cluster_id": 5})
    with pytest.raises(TypeError, match="cluster_id"):
        encode_response(3, 2, 1, {"cluster_id": "x" * 40_000})


def test_none_is_encoded_as_null_in_nullable_fields_and_as_the_default_in_others(oracle):
    found = oracle.kio_entity(load_response_schema(3, 9), encode_response_body(3, 9, {"cluster_id": None}))
    assert found.cluster_id is None
    found = oracle.kio_entity(
        load_response_schema(3, 9), encode_response_body(3, 9, {"topics": [{"name": None}], "controller_id": None})
    )
    assert found.topics[0].name == ""
    assert found.controller_id == -1


def test_no_append_time_is_minus_one(oracle):
    fields = {"responses": [{"partition_responses": [{"log_append_time": None}, {"log_append_time": 1500}, {}]}]}
    found = oracle.kio_entity(load_response_schema(0, 9), encode_response_body(0, 9, fields))
    times = [answer.log_append_time for answer in found.responses[0].partition_responses]
    assert times[0] is None
    assert times[1].timestamp() == 1.5
    assert times[2] is None


def test_a_tagged_field_at_its_default_is_left_out():
    plain_answer = encode_response_body(18, 3, {})
    assert encode_response_body(18, 3, {"finalized_features_epoch": -1, "supported_features": []}) == plain_answer
    assert encode_response_body(18, 3, {"finalized_features_epoch": 5}) != plain_answer


def test_preloading_prepares_what_it_names():
    preload([(11, [5]), (999, [1]), (0, [2])])
    assert codec._decoder.cache_info().currsize > 0
