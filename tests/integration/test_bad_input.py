"""Bad input to a live broker, one of each kind: each gets its proper answer, and a healthy client notices nothing.

Every variant is a row of a unit test: frames in tests/unit/server/test_shell_frames.py, requests in
tests/unit/protocol, batches and fetches in tests/unit/broker/test_produce_and_fetch.py, names in
tests/unit/broker/apis/test_topics_apis.py.
"""

import datetime as dt
import struct
import zlib
from collections.abc import Iterator

import psutil
import pytest
from kio.schema.errors import ErrorCode
from support.client_kinds import Confluent
from support.raw import Closed, Health, RawClient, assert_no_bugs, batch

from tests.rig import fetch_fields
from yak.protocol.record_batch import compute_crc

TOPIC = "bad-input"
PACKED = "bad-input-packed"
NONE = ErrorCode.none
METADATA_V12 = struct.pack(">hhih", 3, 12, 1, -1) + b"\0"


@pytest.fixture(scope="module")
def health(module_broker) -> Iterator[Health]:
    Confluent(module_broker.bootstrap).create_topic(PACKED, configs={"compression.type": "lz4", "retention.ms": "-1"})
    Confluent(module_broker.bootstrap).create_topic(TOPIC, configs={"retention.ms": "-1"})
    healthy = Health(module_broker, "healthy")
    yield healthy
    healthy.close()


@pytest.fixture
def raw(module_broker, health):
    """A connection to misuse; afterwards the broker must be as it was."""
    with RawClient(module_broker.port) as client:
        yield client
    health.check()


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


CLOSES = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("160301020001") + bytes(506),
    "length 2^31-1": struct.pack(">i", 2**31 - 1) + b"x" * 50,
    "unknown API": framed(struct.pack(">hhih", 999, 0, 1, -1)),
    "unserved version": framed(struct.pack(">hhih", 3, 99, 1, -1) + bytes(20)),
    "body cut": framed(METADATA_V12 + b"\x02"),
    "compact count without end": framed(METADATA_V12 + b"\xff" * 10),
    "a million tags in the body": framed(METADATA_V12 + b"\x01\0\0\xc0\x84\x3d" + b"\x05\0" * 1_000_000),
}


def test_bytes_that_are_no_request_close_their_connection_alone(module_broker, health):
    with RawClient(module_broker.port) as other:
        for name, data in CLOSES.items():
            with RawClient(module_broker.port) as client:
                client.send(data)
                assert client.is_closed(), name
            assert other.ask(18, 0).error_code == NONE
    health.check()
    for name in ("HTTP", "TLS"):
        assert f"{name} on the Kafka port" in module_broker.log()


def test_connections_from_one_address_above_the_limit_are_closed(broker):
    broker.start(max_connections_per_ip=20)
    held = [RawClient(broker.port) for _ in range(30)]
    try:
        closed = [client for client in held[20:] if client.is_closed(5)]
        assert len(closed) == 10
        assert held[0].ask(18, 0).error_code == NONE
    finally:
        for client in held:
            client.sock.close()
    health = Health(broker, TOPIC)
    health.check()
    health.close()


def test_an_idle_connection_is_closed(broker):
    broker.start(connections_max_idle_ms=1500)
    with RawClient(broker.port) as client:
        assert client.ask(18, 0).error_code == NONE
        assert client.is_closed(8)
    assert_no_bugs(broker)


def test_bad_requests_are_answered_with_kafkas_errors_and_change_nothing(module_broker, raw):
    new = {"name": "a/../../etc", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    made = raw.ask(19, 5, topics=[new], timeout=dt.timedelta(seconds=5), validate_only=False)
    assert made.topics[0].error_code == ErrorCode.invalid_topic_exception
    damaged = bytearray(batch(b"hello"))
    damaged[65] = 0x55
    end = raw.end_offset(TOPIC)
    assert raw.produce(TOPIC, bytes(damaged)).error_code == ErrorCode.corrupt_message
    assert raw.produce(TOPIC, batch() + batch()).error_code == ErrorCode.invalid_record
    assert raw.end_offset(TOPIC) == end
    beyond = raw.ask(1, 12, **fetch_fields(TOPIC, 10**12)).responses[0].partitions[0]
    assert beyond.error_code == ErrorCode.offset_out_of_range
    forged = fetch_fields(TOPIC, 0) | {"session_id": 12345, "session_epoch": 3}
    assert raw.ask(1, 12, **forged).error_code == ErrorCode.fetch_session_id_not_found
    for client_id in (b"", b"\xff\xfe", b"a\nb\x1b[31m\0", b"x" * 30000):
        raw.send_frame(struct.pack(">hhih", 18, 0, 1, len(client_id)) + client_id)
        assert struct.unpack_from(">ih", raw.receive_frame(), 4) == (1, NONE)
    assert "\x1b" not in module_broker.log()
    with pytest.raises(Closed):
        raw.produce(TOPIC, None, acks=0)


def packed(codec: int, payload: bytes) -> bytes:
    """A batch whose records are these bytes, said to be packed by a codec."""
    copy = bytearray(batch()[:61] + payload)
    struct.pack_into(">i", copy, 8, len(copy) - 12)
    struct.pack_into(">h", copy, 21, codec)
    struct.pack_into(">I", copy, 17, compute_crc(copy))
    return bytes(copy)


def bomb() -> bytes:
    """A kilobyte or so that claims gigabytes: zeros packed by gzip, over and over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(600)) + packer.flush()


BAD_PACKED = {
    "gzip bomb": lambda: packed(1, bomb()),
    "snappy that claims 4 GB": lambda: packed(2, b"\xff\xff\xff\xff\x0f" + bytes(20)),
    "zstd with a window of 2 GB": lambda: packed(4, bytes.fromhex("28b52ffd00a8") + bytes(20)),
}


@pytest.mark.parametrize("name", BAD_PACKED)
def test_a_packed_batch_that_must_be_repacked_and_cannot_is_refused(module_broker, raw, name):
    process = psutil.Process(module_broker.pid)
    end = raw.end_offset(PACKED)
    before = process.memory_info().rss
    answer = raw.produce(PACKED, BAD_PACKED[name]())
    assert answer.error_code in (
        ErrorCode.corrupt_message,
        ErrorCode.invalid_record,
        ErrorCode.message_too_large,
        ErrorCode.unsupported_compression_type,
    )
    assert process.memory_info().rss - before < 300 * 1024 * 1024
    assert raw.end_offset(PACKED) == end
