"""Rows of requests and answers, in every version of every API that clients may send."""

import uuid

import pytest

from tests.unit.faults.sample_requests import BETWEEN_BROKERS, TOPIC_ID, sample_request
from yak.broker.apis import NAMES, TABLE
from yak.faults import rows
from yak.protocol.codec import decode_request, encode_response
from yak.protocol.request_header import read_request_header
from yak.protocol.schema_fields import schema_fields
from yak.protocol.schemas import load_response_schema
from yak.sim.wire import request_frame

CLIENT_APIS = sorted(set(NAMES) - BETWEEN_BROKERS)


def decoded(api_key, version):
    """A sample request as this broker decodes it."""
    frame = memoryview(request_frame(api_key, version, 1, sample_request(api_key, version)))
    return decode_request(api_key, version, frame, read_request_header(frame).body_offset)


@pytest.mark.parametrize("api_key", CLIENT_APIS, ids=lambda key: NAMES[key])
def test_every_api_has_a_place_for_an_error_in_each_version(api_key):
    """A refusal encodes, has the error, and names the topic of the request; a stamped answer of nothing has it too."""
    for version in TABLE[api_key].VERSIONS:
        if rows.only_reads(api_key):
            fields = _with_a_row(load_response_schema(api_key, version))
            rows.stamp(api_key, version, fields, 42, None)
        else:
            fields = rows.refused_fields(api_key, version, decoded(api_key, version), 42)
        assert encode_response(api_key, version, 7, fields)
        assert 42 in _errors(fields), (version, fields)
        if api_key in rows.TOPICAL and not rows.only_reads(api_key):
            assert {"orders", TOPIC_ID} & set(_values(fields)), (version, fields)


@pytest.mark.parametrize("api_key", sorted(rows.TOPICAL & set(CLIENT_APIS)), ids=lambda key: NAMES[key])
def test_requests_are_split_by_topic_in_each_version(api_key):
    for version in TABLE[api_key].VERSIONS:
        if api_key == 24 and version > 3:
            continue  # brokers alone send it
        request = decoded(api_key, version)
        (row,) = set(rows.named_rows(api_key, request))
        assert row[0] in ("orders", TOPIC_ID)
        assert row[1] == (None if api_key in (3, 19, 20, 37, 75) else 1)
        if not rows.only_reads(api_key):
            assert rows.split_request(api_key, request, lambda *given, row=row: given == row) == (request, None)
            assert rows.split_request(api_key, request, lambda *_given: False) == (None, request)


def _with_a_row(entity):
    arrays = [field for field in schema_fields(entity) if field.is_array and field.struct is not None]
    return {field.name: [_with_a_row(field.struct)] for field in arrays}


def _errors(value):
    return [found for name, found in _pairs(value) if name in ("error_code", "partition_error_code")]


def _values(value):
    return [found for _name, found in _pairs(value) if isinstance(found, (str, uuid.UUID))]


def _pairs(value):
    for name, found in value.items():
        yield name, found
        for each in found if isinstance(found, list) else ():
            if isinstance(each, dict):
                yield from _pairs(each)


def test_answers_are_merged_by_topic_and_partition():
    into = {"responses": [{"name": "a", "partition_responses": [{"index": 0, "error_code": 0}]}]}
    more = {
        "responses": [
            {"name": "a", "partition_responses": [{"index": 1, "error_code": 6}]},
            {"name": "b", "partition_responses": [{"index": 0, "error_code": 6}]},
        ]
    }
    rows.merge(0, 9, into, more)
    assert into["responses"] == [
        {"name": "a", "partition_responses": [{"index": 0, "error_code": 0}, {"index": 1, "error_code": 6}]},
        {"name": "b", "partition_responses": [{"index": 0, "error_code": 6}]},
    ]
