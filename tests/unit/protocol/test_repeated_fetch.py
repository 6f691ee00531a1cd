"""`yak.protocol.repeated_fetch`: what the pattern reads is what the decoder reads, and nothing else is read."""

import random
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.errors import ProtocolViolation
from yak.protocol.codec import decode_request
from yak.protocol.fetch_request import FetchRequest
from yak.protocol.repeated_fetch import FetchPattern, partition_name
from yak.protocol.replica_fetch import WantedPartition, replica_fetch_request
from yak.protocol.request_header import read_request_header

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
IDS = st.integers(1, 2**128 - 1).map(lambda number: uuid.UUID(int=number))
WANTED = st.builds(WantedPartition, INT32, INT32, INT64, INT32, INT64, INT32)
TOPIC = uuid.UUID(int=7)
ONE = WantedPartition(0, 3, 100, 3, 0, 1 << 20)
SESSION = {
    "client_id": "yak-replica:boot-2",
    "cluster_id": "cluster",
    "replica_id": 2,
    "replica_epoch": 12,
    "max_wait_ms": 500,
    "min_bytes": 1,
    "max_bytes": 1 << 22,
    "session_id": 5,
}


def request(number: int, epoch: int, *topics: tuple[uuid.UUID, list[WantedPartition]], **other: object) -> memoryview:
    """A follower's request without its length prefix."""
    named = [(topic_id.bytes, partitions) for topic_id, partitions in topics]
    rest = {"forgotten": [], **SESSION, **other}
    return memoryview(replica_fetch_request(number, session_epoch=epoch, topics=named, **rest))[4:]


def decoded(frame: memoryview) -> tuple[str | None, FetchRequest]:
    """Client id and body, by the decoder."""
    header = read_request_header(frame)
    return header.client_id, decode_request(header.api_key, header.api_version, frame, header.body_offset)


@given(
    numbers=st.tuples(INT32, INT32),
    topic_id=IDS,
    wanted=WANTED,
    client_id=st.sampled_from(["", "yak", "é" * 40]),
    cluster_id=st.sampled_from(["", "c", "c" * 300]),
)
def test_a_repeated_request_says_what_the_decoder_reads(numbers, topic_id, wanted, client_id, cluster_id):
    texts = {"client_id": client_id, "cluster_id": cluster_id}
    pattern = FetchPattern.of(request(1, 1, (TOPIC, [ONE]), **texts))
    assert pattern is not None
    again = request(*numbers, (topic_id, [wanted]), **texts)
    read = pattern.read(again)
    assert read is not None
    assert read[:3] == (*numbers, partition_name(topic_id, wanted.index))
    (partition,) = decoded(again)[1].topics[0].partitions
    assert read[3:] == partition[1:6] == wanted[1:]


@pytest.mark.parametrize(
    "frame",
    [
        request(2, 2, (TOPIC, [ONE]), client_id="yak-replica:boot-3"),
        request(2, 2, (TOPIC, [ONE]), cluster_id="clustes"),
        request(2, 2, (TOPIC, [ONE]), replica_id=3),
        request(2, 2, (TOPIC, [ONE]), replica_epoch=13),
        request(2, 2, (TOPIC, [ONE]), max_wait_ms=499),
        request(2, 2, (TOPIC, [ONE]), min_bytes=2),
        request(2, 2, (TOPIC, [ONE]), max_bytes=1),
        request(2, 2, (TOPIC, [ONE]), session_id=6),
        request(2, 2, (TOPIC, [ONE]))[:-1],
        memoryview(bytes(request(2, 2, (TOPIC, [ONE]))) + b"\0"),
        memoryview(b"\0\0" + bytes(request(2, 2, (TOPIC, [ONE])))[2:]),
        memoryview(b"\0\1\0\x10" + bytes(request(2, 2, (TOPIC, [ONE])))[4:]),
        request(2, 2),
        request(2, 2, (TOPIC, [ONE, ONE])),
        request(2, 2, (TOPIC, [ONE]), forgotten=[(TOPIC.bytes, [1])]),
    ],
)
def test_anything_else_that_differs_makes_it_another_request(frame):
    pattern = FetchPattern.of(request(1, 1, (TOPIC, [ONE])))
    assert pattern is not None
    assert pattern.read(request(2, 2, (TOPIC, [ONE]))) is not None
    assert pattern.read(frame) is None


@pytest.mark.parametrize(
    "frame",
    [
        request(1, 1),
        request(1, 1, (TOPIC, [])),
        request(1, 1, (TOPIC, [ONE, ONE])),
        request(1, 1, (TOPIC, [ONE]), (uuid.UUID(int=8), [ONE])),
        request(1, 1, (TOPIC, [ONE]), forgotten=[(TOPIC.bytes, [1])]),
        request(1, 1, forgotten=[(TOPIC.bytes, [1, 2, 3])]),
    ],
)
def test_only_a_request_for_one_partition_is_a_pattern(frame):
    decoded(frame)
    assert FetchPattern.of(frame) is None


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_fetch_pattern_reads_damaged_bytes_as_the_decoder_does(seed):
    rng = random.Random(seed)
    whole = request(1, 1, (TOPIC, [ONE]))
    pattern = FetchPattern.of(whole)
    assert pattern is not None
    data = bytearray(whole)
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    frame = memoryview(bytes(data))
    read = pattern.read(frame)
    if read is None or read[2] != partition_name(TOPIC, 0):
        return
    client_id, body = decoded(frame)
    expected_id, expected = decoded(whole)
    assert client_id == expected_id
    assert body.topics[0].partitions[0][1:6] == read[3:]
    same = body._replace(session_epoch=expected.session_epoch, topics=expected.topics)
    assert same == expected


def test_a_topic_without_an_id_has_a_name_too():
    assert partition_name(None, 1) == b"\2" + bytes(16) + b"\2\0\0\0\1"


@settings(max_examples=200)
@given(data=st.binary(min_size=10, max_size=200))
def test_bytes_that_the_decoder_accepted_are_long_enough_for_the_fetch_pattern(data):
    try:
        decoded(memoryview(b"\0\1\0\x11" + data))
    except ProtocolViolation:
        return
    FetchPattern.of(memoryview(b"\0\1\0\x11" + data))
