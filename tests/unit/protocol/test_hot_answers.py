"""`yak.protocol.produce_answer`, `yak.protocol.fetch_answer` and their `yak.protocol.hot_pieces` against the codec."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.protocol.conftest import whole
from yak.protocol.codec import encode_response
from yak.protocol.fetch_answer import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionAnswer,
    SnapshotId,
    fetch_response,
)
from yak.protocol.hot_pieces import LeaderHint, NodeEndpoint
from yak.protocol.produce_answer import ProducePartitionAnswer, RecordError, produce_response

INT16 = st.integers(-1, 133)
INT32 = st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)])
INT64 = st.sampled_from([0, 1, -1, 77, 2**63 - 1, -(2**63)])
TEXT = st.sampled_from(["", "words", "é" * 70, "x" * 126, "x" * 127, "x" * 249])
NULLABLE_TEXT = st.none() | TEXT
IDS = st.none() | st.integers(1, 2**128 - 1).map(lambda number: uuid.UUID(int=number))
LEADERS = st.none() | st.builds(LeaderHint, INT32, INT32)
ENDPOINTS = st.lists(st.builds(NodeEndpoint, INT32, TEXT, INT32, NULLABLE_TEXT), max_size=2)
RECORDS = st.sampled_from([b"", b"r", b"r" * 126, b"r" * 127, b"r" * 1024, b"r" * 1025, b"r" * 16383, b"r" * 20_000])
PRODUCED = st.builds(
    ProducePartitionAnswer,
    INT32,
    INT16,
    INT64,
    st.integers(-1, 2**41),
    INT64,
    st.lists(st.builds(RecordError, INT32, NULLABLE_TEXT), max_size=2),
    NULLABLE_TEXT,
    LEADERS,
) | st.builds(ProducePartitionAnswer, INT32, INT16, INT64)
FETCHED = st.builds(
    FetchPartitionAnswer,
    INT32,
    INT16,
    INT64,
    INT64,
    INT64,
    RECORDS,
    st.none() | st.lists(st.builds(AbortedTransaction, INT64, INT64), max_size=2),
    INT32,
    st.none() | st.builds(DivergingEpoch, INT32, INT64),
    LEADERS,
    st.none() | st.builds(SnapshotId, INT64, INT32),
) | st.builds(FetchPartitionAnswer, INT32, INT16, INT64, INT64, INT64, RECORDS)


def topics_of(partitions):
    keys = st.tuples(TEXT, IDS)
    return st.lists(st.tuples(keys, st.lists(partitions, max_size=3)), max_size=3) | st.tuples(
        st.tuples(keys, st.lists(partitions, min_size=1, max_size=1))
    )


def hint(leader):
    return None if leader is None else leader._asdict()


@settings(max_examples=150)
@given(topics=topics_of(PRODUCED), endpoints=ENDPOINTS, correlation_id=INT32)
def test_produce_answers_of_every_version_are_the_codecs(topics, endpoints, correlation_id):
    fields = {
        "responses": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_responses": [
                    {
                        "index": answer.index,
                        "error_code": answer.error_code,
                        "base_offset": answer.base_offset,
                        "log_append_time": answer.log_append_time_ms,
                        "log_start_offset": answer.log_start_offset,
                        "record_errors": [
                            {"batch_index": error.batch_index, "batch_index_error_message": error.message}
                            for error in answer.record_errors
                        ],
                        "error_message": answer.error_message,
                        "current_leader": hint(answer.current_leader),
                    }
                    for answer in answers
                ],
            }
            for (name, topic_id), answers in topics
        ],
        "node_endpoints": [endpoint._asdict() for endpoint in endpoints],
    }
    for version in range(3, 14):
        keyed = [(topic_id if version >= 13 else name, answers) for (name, topic_id), answers in topics]
        ours = whole(produce_response(version, correlation_id, keyed, endpoints))
        assert ours == whole(encode_response(0, version, correlation_id, fields)), version


@settings(max_examples=150)
@given(topics=topics_of(FETCHED), endpoints=ENDPOINTS, error_code=INT16, session_id=INT32)
def test_fetch_answers_of_every_version_are_the_codecs(topics, endpoints, error_code, session_id):
    fields = {
        "throttle_time": 3,
        "error_code": error_code,
        "session_id": session_id,
        "responses": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": answer.index,
                        "error_code": answer.error_code,
                        "high_watermark": answer.high_watermark,
                        "last_stable_offset": answer.last_stable_offset,
                        "log_start_offset": answer.log_start_offset,
                        "records": answer.records,
                        "aborted_transactions": None
                        if answer.aborted_transactions is None
                        else [aborted._asdict() for aborted in answer.aborted_transactions],
                        "preferred_read_replica": answer.preferred_read_replica,
                        "diverging_epoch": hint(answer.diverging_epoch),
                        "current_leader": hint(answer.current_leader),
                        "snapshot_id": hint(answer.snapshot_id),
                    }
                    for answer in answers
                ],
            }
            for (name, topic_id), answers in topics
        ],
        "node_endpoints": [endpoint._asdict() for endpoint in endpoints],
    }
    for version in range(4, 19):
        keyed = [(topic_id if version >= 13 else name, answers) for (name, topic_id), answers in topics]
        ours = whole(fetch_response(version, 9, 3, error_code, session_id, keyed, endpoints))
        assert ours == whole(encode_response(1, version, 9, fields)), version


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 18])
def test_long_records_are_parts_of_their_own_and_not_copies(version):
    records = [b"a" * 5000, memoryview(b"b" * 5000)]
    key = uuid.uuid4() if version >= 13 else "t"
    for count in (1, 2):
        answers = [FetchPartitionAnswer(index, records=records[index]) for index in range(count)]
        parts = fetch_response(version, 1, 0, 0, 0, [(key, answers)])
        assert [part for part in parts if any(part is given for given in records)] == records[:count]
        assert int.from_bytes(bytes(parts[0][:4]), "big") == sum(map(len, parts)) - 4


def test_short_records_travel_with_their_header():
    assert len(fetch_response(12, 1, 0, 0, 0, [("t", [FetchPartitionAnswer(0, records=b"r" * 100)])])) == 1


def test_topic_name_where_the_version_needs_a_topic_id_raises_assertion_error():
    with pytest.raises(AssertionError):
        produce_response(13, 1, [("t", [ProducePartitionAnswer(0)])])
    with pytest.raises(AssertionError):
        fetch_response(12, 1, 0, 0, 0, [(uuid.uuid4(), [FetchPartitionAnswer(0)])])
