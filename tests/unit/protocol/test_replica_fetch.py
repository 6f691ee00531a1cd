"""`yak.protocol.replica_fetch` against kio, against the leader's side, and against broken answers."""

import datetime as dt
import random
import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader

from yak.errors import ProtocolViolation
from yak.limits import BROKER_REQUEST_ELEMENTS_MAX
from yak.protocol.codec import decode_request
from yak.protocol.fetch_answer import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionAnswer,
    SnapshotId,
    fetch_response,
)
from yak.protocol.hot_pieces import LeaderHint, NodeEndpoint
from yak.protocol.replica_fetch import (
    VERSION,
    FetchedPartition,
    WantedPartition,
    decode_replica_fetch_answer,
    replica_fetch_request,
)
from yak.protocol.request_header import read_request_header
from yak.protocol.varint import uvarint

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.sampled_from(["", "yak-2", "é" * 70, "x" * 126, "x" * 127, "x" * 300])
IDS = st.integers(1, 2**128 - 1).map(lambda number: uuid.UUID(int=number))
WANTED = st.builds(WantedPartition, INT32, INT32, INT64, INT32, INT64, INT32)
RECORDS = st.sampled_from([b"", b"r", b"r" * 126, b"r" * 127, b"r" * 1025, b"r" * 16_383, b"r" * 70_000])
TOPIC = uuid.UUID(int=0x1234)


@given(
    numbers=st.tuples(INT32, INT32, INT32, INT32, INT32, INT32),
    texts=st.tuples(TEXT, TEXT),
    replica=st.tuples(st.integers(0, 2**31 - 1), INT64),
    topics=st.lists(st.tuples(IDS, st.lists(WANTED, max_size=4)), max_size=3),
    forgotten=st.lists(st.tuples(IDS, st.lists(INT32, max_size=4)), max_size=3),
)
def test_a_followers_request_is_kios_and_the_leader_reads_it(oracle, numbers, texts, replica, topics, forgotten):
    correlation_id, max_wait_ms, min_bytes, max_bytes, session_id, session_epoch = numbers
    client_id, cluster_id = texts
    frame = replica_fetch_request(
        correlation_id,
        client_id,
        cluster_id=cluster_id,
        replica_id=replica[0],
        replica_epoch=replica[1],
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[(topic_id.bytes, wanted) for topic_id, wanted in topics],
        forgotten=[(topic_id.bytes, indexes) for topic_id, indexes in forgotten],
    )
    header = RequestHeader(
        request_api_key=1, request_api_version=VERSION, correlation_id=correlation_id, client_id=client_id
    )
    body = FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
        max_wait=dt.timedelta(milliseconds=max_wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=tuple(
            FetchTopic(
                topic_id=topic_id,
                partitions=tuple(
                    FetchPartition(
                        partition=partition.index,
                        current_leader_epoch=partition.current_leader_epoch,
                        fetch_offset=partition.fetch_offset,
                        last_fetched_epoch=partition.last_fetched_epoch,
                        log_start_offset=partition.log_start_offset,
                        partition_max_bytes=partition.max_bytes,
                    )
                    for partition in wanted
                ),
            )
            for topic_id, wanted in topics
        ),
        forgotten_topics_data=tuple(
            ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes)) for topic_id, indexes in forgotten
        ),
    )
    whole = oracle.kio_bytes(header) + oracle.kio_bytes(body)
    assert frame == struct.pack(">i", len(whole)) + whole

    read = read_request_header(frame[4:])
    assert (read.api_key, read.api_version, read.correlation_id, read.client_id) == (1, 17, correlation_id, client_id)
    request = decode_request(1, 17, memoryview(frame)[4:], read.body_offset)
    assert request.cluster_id == cluster_id
    assert (request.replica_id, request.replica_epoch) == replica
    assert [(topic.topic_id, [tuple(each[:6]) for each in topic.partitions]) for topic in request.topics] == [
        (topic_id, [tuple(partition) for partition in wanted]) for topic_id, wanted in topics
    ]


def as_fetched(response: FetchResponse) -> list[FetchedPartition]:
    """What a follower takes from kio's answer."""
    return [
        FetchedPartition(
            topic.topic_id.bytes,
            partition.partition_index,
            int(partition.error_code),
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            memoryview(bytes(partition.records or b"")),
            DivergingEpoch(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
            if partition.diverging_epoch.epoch >= 0
            else None,
            LeaderHint(partition.current_leader.leader_id, partition.current_leader.leader_epoch)
            if (partition.current_leader.leader_id, partition.current_leader.leader_epoch) != (-1, -1)
            else None,
        )
        for topic in response.responses
        for partition in topic.partitions
    ]


@given(seed=st.integers(0, 2**32), correlation_id=INT32, newer=st.booleans())
def test_every_answer_is_read_as_kio_reads_it_whatever_tags_a_newer_leader_adds(oracle, seed, correlation_id, newer):
    rng = random.Random(seed)
    response = oracle.random_entity(FetchResponse, rng)
    written = oracle.bytes_with_unknown_tags(response, rng) if newer else oracle.kio_bytes(response)
    head = oracle.kio_bytes(ResponseHeader(correlation_id=correlation_id))
    if newer:
        head = head[:-1] + b"\x01\x07\x02ab"
    frame = memoryview(head + written)
    if any(topic.topic_id is None for topic in response.responses):
        with pytest.raises(ProtocolViolation, match="without an id"):
            decode_replica_fetch_answer(frame)
        return
    answer = decode_replica_fetch_answer(frame)
    assert answer.correlation_id == correlation_id
    assert (answer.error_code, answer.session_id) == (int(response.error_code), response.session_id)
    assert answer.partitions == as_fetched(response)


ANSWERS = st.builds(
    FetchPartitionAnswer,
    INT32,
    st.sampled_from([0, 1, 6, 74, 76]),
    INT64,
    INT64,
    INT64,
    RECORDS,
    st.none() | st.just(()),
    INT32,
    st.none() | st.builds(DivergingEpoch, st.integers(0, 2**31 - 1), INT64),
    st.none() | st.builds(LeaderHint, st.integers(0, 9), st.integers(0, 9)),
    st.none() | st.builds(SnapshotId, INT64, INT32),
)


@given(
    topics=st.lists(st.tuples(IDS, st.lists(ANSWERS, max_size=4)), max_size=3),
    endpoints=st.lists(st.builds(NodeEndpoint, INT32, TEXT, INT32, st.none() | TEXT), max_size=2),
)
def test_a_follower_reads_what_our_leader_writes(topics, endpoints):
    frame = b"".join(map(bytes, fetch_response(VERSION, 9, 3, 0, 77, topics, endpoints)))
    answer = decode_replica_fetch_answer(memoryview(frame)[4:])
    assert answer[:3] == (9, 0, 77)
    assert answer.partitions == [
        FetchedPartition(
            topic_id.bytes,
            each.index,
            each.error_code,
            each.high_watermark,
            each.last_stable_offset,
            each.log_start_offset,
            memoryview(each.records),
            each.diverging_epoch,
            each.current_leader,
        )
        for topic_id, answers in topics
        for each in answers
    ]


def whole_answer(*partitions: FetchPartitionAnswer, endpoints=()) -> bytes:
    return b"".join(map(bytes, fetch_response(VERSION, 9, 0, 0, 77, [(TOPIC, partitions)], endpoints)))[4:]


def test_records_are_a_view_into_the_frame_and_not_a_copy():
    frame = memoryview(whole_answer(FetchPartitionAnswer(0, records=b"r" * 5000), FetchPartitionAnswer(1)))
    first, second = decode_replica_fetch_answer(frame).partitions
    assert first.records.obj is frame.obj
    assert len(first.records) == 5000
    assert len(second.records) == 0


def test_minus_one_is_no_divergence_and_no_leader():
    tags = b"\x02" + struct.pack(">BBiqB", 0, 13, -1, -1, 0) + struct.pack(">BBiiB", 1, 9, -1, -1, 0)
    frame = whole_answer(FetchPartitionAnswer(3))
    assert frame.endswith(b"\0\0\0")
    (partition,) = decode_replica_fetch_answer(memoryview(frame[:-3] + tags + b"\0\0")).partitions
    assert (partition.index, partition.diverging_epoch, partition.current_leader) == (3, None, None)


EVERY_SHAPE = [
    whole_answer(),
    whole_answer(FetchPartitionAnswer(0)),
    whole_answer(FetchPartitionAnswer(0, records=b"r" * 40)),
    whole_answer(FetchPartitionAnswer(0), FetchPartitionAnswer(1, aborted_transactions=()), FetchPartitionAnswer(2)),
    whole_answer(
        FetchPartitionAnswer(
            0,
            6,
            records=b"r" * 200,
            diverging_epoch=DivergingEpoch(3, 70),
            current_leader=LeaderHint(2, 4),
            snapshot_id=SnapshotId(5, 1),
        ),
        FetchPartitionAnswer(1, aborted_transactions=[AbortedTransaction(1, 2), AbortedTransaction(3, 4)]),
        endpoints=[NodeEndpoint(1, "h", 9092, "r")],
    ),
]


@pytest.mark.parametrize("frame", EVERY_SHAPE)
def test_an_answer_cut_anywhere_is_a_violation(frame):
    decode_replica_fetch_answer(memoryview(frame))
    for end in range(len(frame)):
        with pytest.raises(ProtocolViolation):
            decode_replica_fetch_answer(memoryview(frame[:end]))


FRONT = struct.pack(">iBihi", 9, 0, 0, 0, 77)
HEAD = FRONT + b"\x02" + TOPIC.bytes
FIXED = struct.pack(">ihqqq", 0, 0, 5, 5, 0)


@pytest.mark.parametrize(
    "frame",
    [
        FRONT + b"\x00\0",  # null topics
        FRONT + b"\xff\xff\xff\xff\x0f",
        FRONT + b"\xff" * 9,
        FRONT + b"\x03" + TOPIC.bytes + b"\x01\0\0",  # two topics, one is there
        HEAD + b"\x00\0\0",  # null partitions
        HEAD + uvarint(2**32 - 1) + FIXED,
        HEAD + uvarint(300) + bytes(37 * 298),
        HEAD + b"\x02" + FIXED + uvarint(2**32 - 1) + bytes(100),  # aborted transactions
        HEAD + b"\x02" + FIXED + b"\x09" + bytes(30),
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + uvarint(2**32 - 1) + bytes(100),  # records
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + b"\xff" * 9,
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + b"\x05rrrr" + b"\xff\xff\xff\xff\x0f",  # tags
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + b"\x01" + b"\x01\x00\x0c" + bytes(12) + b"\0\0",
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + b"\x01" + b"\x01\x00\x0e" + bytes(14) + b"\0\0",
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + b"\x01" + b"\x01\x01\x08" + bytes(8) + b"\0\0",
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + b"\x01" + b"\x01\x01\x09" + bytes(5),
        HEAD + b"\x02" + FIXED + b"\0" + bytes(4) + b"\x01" + b"\x02\x01\x00\x01\x00" + b"\0\0",  # a tag twice
        FRONT + b"\x02" + bytes(16) + b"\x01\0\0",  # the zero id
        FRONT + b"\x01" + b"\x01\x00\x7f",
    ],
)
def test_replica_fetch_answer_with_false_sizes_is_a_protocol_violation(frame):
    with pytest.raises(ProtocolViolation):
        decode_replica_fetch_answer(memoryview(frame))


def test_too_many_partitions_are_refused_before_they_are_built():
    count = BROKER_REQUEST_ELEMENTS_MAX + 1
    with pytest.raises(ProtocolViolation, match="elements"):
        decode_replica_fetch_answer(memoryview(HEAD + uvarint(count + 1) + bytes(37 * count)))


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_answer_is_read_or_refused_and_nothing_else(oracle, seed):
    rng = random.Random(seed)
    data = bytearray(rng.choice(EVERY_SHAPE))
    oracle.damage(data, rng)
    try:
        answer = decode_replica_fetch_answer(memoryview(bytes(data)))
    except ProtocolViolation:
        return
    assert sum(len(partition.records) for partition in answer.partitions) <= len(data)


def test_top_level_error_of_a_replica_fetch_answer_is_returned():
    frame = b"".join(map(bytes, fetch_response(VERSION, 1, 0, int(ErrorCode.fetch_session_id_not_found), 0, ())))
    answer = decode_replica_fetch_answer(memoryview(frame)[4:])
    assert answer == (1, 70, 0, [])
