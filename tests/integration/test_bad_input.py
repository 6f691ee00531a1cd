"""Bad input to a live broker, row by row: each gets its proper answer, and a healthy client notices nothing."""

import datetime as dt
import gzip
import os
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from kio.schema.errors import ErrorCode
from support.client_kinds import Confluent
from support.raw import Closed, Health, RawClient, assert_no_bugs, batch

from yak.protocol.record_batch import compute_crc
from yak.sim.rig import fetch_fields

TOPIC = "bad-input"
PACKED = "bad-input-packed"
NONE = ErrorCode.none
LENGTH_MAX = 100 * 1024 * 1024


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


# ------------------------------------------------------------------------------------------------ 1 to 7: no frames


NOT_FRAMES = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": bytes.fromhex("160301020001") + bytes(506),
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "length -1": struct.pack(">i", -1) + b"x" * 50,
    "length -2^31": struct.pack(">i", -(2**31)) + b"x" * 50,
    "length 0": struct.pack(">i", 0) + b"x" * 50,
    "length 7": struct.pack(">i", 7) + b"x" * 7,
    "length max+1": struct.pack(">i", LENGTH_MAX + 1) + b"x" * 50,
    "length 2^31-1": struct.pack(">i", 2**31 - 1) + b"x" * 50,
    "noise": bytes(range(255, 128, -1)),
}


@pytest.mark.parametrize("name", NOT_FRAMES)
def test_bytes_that_are_no_frame_close_the_connection(raw, name):
    raw.send(NOT_FRAMES[name])
    assert raw.is_closed()


def test_http_and_tls_are_named_in_the_log(module_broker, health):
    for name in ("http", "tls"):
        with RawClient(module_broker.port) as client:
            client.send(NOT_FRAMES[name])
            assert client.is_closed()
    health.check()
    log = module_broker.log()
    assert "HTTP on the Kafka port" in log
    assert "TLS on the Kafka port" in log


@pytest.mark.parametrize("how", ["FIN", "RST"])
@pytest.mark.parametrize("sent", [1, 4, 20])
def test_half_a_frame_and_then_the_end(raw, sent, how):
    frame = raw.request(3, 12, topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    raw.send((struct.pack(">i", len(frame)) + frame)[:sent])
    time.sleep(0.05)
    if how == "RST":
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.sock.close()
    else:
        raw.sock.shutdown(socket.SHUT_WR)
        assert raw.is_closed()


def test_a_long_frame_that_comes_slowly_takes_no_memory_before_it_is_there(module_broker, raw):
    process = psutil.Process(module_broker.pid)
    before = process.memory_info().rss
    raw.send(struct.pack(">i", 50 * 1024 * 1024))
    for _ in range(10):
        raw.send(b"x")
        time.sleep(0.1)
    assert process.memory_info().rss - before < 20 * 1024 * 1024


def test_silent_connection_is_closed_after_ten_seconds_and_the_others_are_served(module_broker, health):
    silent = [RawClient(module_broker.port) for _ in range(300)]
    try:
        health.exercise()
        started = time.monotonic()
        assert all(client.is_closed(16) for client in silent)
        assert time.monotonic() - started > 5
    finally:
        for client in silent:
            client.sock.close()
    health.check()


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


# ------------------------------------------------------------------------------------------------ 8 to 13: bad requests


def header(api_key: int, version: int, *, flexible: bool = False, client_id: bytes | None = b"bad") -> bytes:
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", api_key, version, 1) + name + (b"\0" if flexible else b"")


METADATA_V12 = header(3, 12, flexible=True)
METADATA_V1 = header(3, 1)
PRODUCE_V9 = header(0, 9, flexible=True)
FETCH_V4 = header(1, 4)
UNENDING = b"\xff" * 10

CLOSES = {
    "unknown api key": header(999, 0),
    "negative api key": header(-1, 0),
    "inter-broker: LeaderAndIsr": header(4, 7, flexible=True) + bytes(100),
    "inter-broker: AlterPartition": header(56, 3, flexible=True) + bytes(100),
    "inter-broker: BrokerHeartbeat": header(63, 1, flexible=True) + bytes(40),
    "unserved version: Metadata 99": header(3, 99) + bytes(20),
    "unserved version: Metadata -1": header(3, -1) + bytes(20),
    "unserved version: Produce 2": header(0, 2) + bytes(20),
    "unserved version: Fetch 3": header(1, 3) + bytes(20),
    "body missing": METADATA_V12,
    "body cut": METADATA_V12 + b"\x02",
    "array of 2^31-1": METADATA_V1 + struct.pack(">i", 2**31 - 1),
    "array of -2": METADATA_V1 + struct.pack(">i", -2),
    "array larger than the frame": METADATA_V1 + struct.pack(">i", 1000) + b"\0\1x" * 10,
    "compact array of 2^35": METADATA_V12 + b"\xff\xff\xff\xff\x7f" + bytes(20),
    "compact count without end": METADATA_V12 + UNENDING,
    "produce: array of 2^31-1": header(0, 3) + struct.pack(">hhii", -1, -1, 1000, 2**31 - 1),
    "produce: compact count without end": PRODUCE_V9 + b"\0" + struct.pack(">hi", -1, 1000) + UNENDING,
    "produce: null records array": header(0, 3) + struct.pack(">hhii", -1, -1, 1000, -1),
    "fetch: array of 2^31-1": FETCH_V4 + struct.pack(">iiiibi", -1, 100, 1, 1000, 0, 2**31 - 1),
    "fetch: array of -5": FETCH_V4 + struct.pack(">iiiibi", -1, 100, 1, 1000, 0, -5),
    "string past the end": METADATA_V1 + struct.pack(">ih", 1, 30000) + b"x",
    "null topic name in an old version": METADATA_V1 + struct.pack(">ih", 1, -1),
    "negative string length": METADATA_V1 + struct.pack(">ih", 1, -7),
    "client id past the end": struct.pack(">hhih", 3, 1, 1, 5000) + b"x",
    "tags: size past the end": struct.pack(">hhih", 3, 12, 1, -1) + b"\x01\x05\xff\xff\x03" + b"\0\0\0\0",
    "tags: repeated": struct.pack(">hhih", 3, 12, 1, -1) + b"\x02\x05\x01a\x05\x01b" + b"\x01\0\0\0",
    "tags: falling": struct.pack(">hhih", 3, 12, 1, -1) + b"\x02\x06\x01a\x05\x01b" + b"\x01\0\0\0",
    "tags: a million": struct.pack(">hhih", 3, 12, 1, -1) + b"\xc0\x84\x3d" + b"\x05\x00" * 1_000_000,
    "tags: a million in the body": METADATA_V12 + b"\x01\0\0" + b"\xc0\x84\x3d" + b"\x05\x00" * 1_000_000,
}


@pytest.mark.parametrize("name", CLOSES)
def test_a_request_that_makes_no_sense_closes_the_connection(raw, name):
    raw.send_frame(CLOSES[name])
    assert raw.is_closed()


def test_bytes_behind_a_body_are_ignored(raw):
    raw.send_frame(METADATA_V12 + b"\x01\x00\x00\x00" + b"more")
    assert struct.unpack_from(">i", raw.receive_frame(), 4) == (1,)


def test_an_unknown_version_of_api_versions_is_answered_with_the_list(raw):
    raw.send_frame(header(18, 99, flexible=True) + b"\x01\x01\0")
    frame = raw.receive_frame()
    correlation_id, code, count = struct.unpack_from(">ihi", frame, 4)
    assert (correlation_id, code) == (1, ErrorCode.unsupported_version)
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", frame[14 : 14 + 6 * count])}
    assert ranges[18][1] < 99
    assert ranges[0][0] == 0
    assert raw.ask(18, 3, client_software_name="x", client_software_version="1").error_code == NONE


def test_bytes_of_a_topic_that_are_no_utf_8_are_replaced_as_by_kafka(raw):
    raw.send_frame(METADATA_V1 + struct.pack(">ih", 1, 4) + b"\xff\xfe\xfd\xfc")
    assert "\ufffd\ufffd\ufffd\ufffd".encode() in raw.receive_frame()


def test_unknown_tagged_fields_are_skipped(raw):
    tags = b"\x02\x63\x03abc\x64\x00"
    raw.send_frame(struct.pack(">hhih", 3, 12, 7, -1) + tags + b"\x01\x00\x00" + tags)
    assert struct.unpack_from(">i", raw.receive_frame(), 4) == (7,)


@pytest.mark.parametrize("client_id", [None, b"", b"\xff\xfe", b"a\nb\x1b[31m\0", b"x" * 30000])
def test_a_strange_client_id_is_no_reason_for_anything(module_broker, raw, client_id):
    raw.send_frame(header(18, 0, client_id=client_id))
    assert struct.unpack_from(">ih", raw.receive_frame(), 4) == (1, 0)
    assert "\x1b" not in module_broker.log()


# ------------------------------------------------------------------------------------------------ 14: topic names


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/../../etc", "/etc/passwd", "x" * 250, "a b", "a\0b", "a\nb", "ünïcode", "__yak\\x"]
)
def test_a_bad_topic_name_is_refused_everywhere(module_broker, raw, name):
    new = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = raw.ask(19, 5, topics=[new], timeout=dt.timedelta(seconds=5), validate_only=False)
    assert answer.topics[0].error_code == ErrorCode.invalid_topic_exception
    fields = {"allow_auto_topic_creation": True, "include_topic_authorized_operations": False}
    answer = raw.ask(3, 9, topics=[{"name": name}], include_cluster_authorized_operations=False, **fields)
    assert answer.topics[0].error_code == ErrorCode.invalid_topic_exception
    folders = {path.name for path in module_broker.data_dir.iterdir() if path.is_dir()}
    assert all(folder.startswith(("__yak", "__consumer_offsets-", "bad-input", "healthy")) for folder in folders), (
        folders
    )


def test_names_that_would_clash_are_refused(raw):
    def create(name: str) -> ErrorCode:
        new = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        return raw.ask(19, 5, topics=[new], timeout=dt.timedelta(seconds=5), validate_only=False).topics[0].error_code

    assert create("bad-input.clash") == NONE
    assert create("bad-input_clash") == ErrorCode.invalid_topic_exception


# ------------------------------------------------------------------------------------------------ 15: not reading


def test_a_client_that_does_not_read_is_not_read_and_gets_its_answers_in_order(module_broker, raw):
    process = psutil.Process(module_broker.pid)
    raw.produce(TOPIC, batch(os.urandom(900_000)))
    before = process.memory_info().rss
    end = raw.end_offset(TOPIC) - 1
    frames = [raw.request(1, 12, **fetch_fields(TOPIC, end)) for _ in range(1000)]
    data = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    raw.sock.setblocking(False)
    sent = raw.sock.send(data)
    time.sleep(1)
    assert process.memory_info().rss - before < 40 * 1024 * 1024
    raw.sock.settimeout(20)
    first = struct.unpack_from(">i", frames[0], 4)[0]
    whole = 0
    while whole < 100 and (whole + 1) * (len(frames[0]) + 4) <= sent:
        assert struct.unpack_from(">i", raw.receive_frame(), 4)[0] == first + whole
        whole += 1
    assert whole > 10


# ------------------------------------------------------------------------------------------------ 16 to 20: batches


def patched(data: bytes, offset: int, layout: str, value: int, *, fix_crc: bool = True) -> bytes:
    copy = bytearray(data)
    struct.pack_into(layout, copy, offset, value)
    if fix_crc:
        struct.pack_into(">I", copy, 17, compute_crc(copy))
    return bytes(copy)


def packed(codec: int, payload: bytes, count: int = 1) -> bytes:
    """A batch whose records are these bytes, said to be packed by a codec."""
    plain = batch(*[b"x"] * count)
    copy = bytearray(plain[:61] + payload)
    struct.pack_into(">i", copy, 8, len(copy) - 12)
    struct.pack_into(">h", copy, 21, codec)
    struct.pack_into(">I", copy, 17, compute_crc(copy))
    return bytes(copy)


def with_records(records: bytes, count: int = 1) -> bytes:
    return packed(0, records, count)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


BAD_BATCHES: dict[str, tuple[Callable[[], bytes | None], set[ErrorCode]]] = {
    "null": (lambda: None, {ErrorCode.invalid_record}),
    "empty": (lambda: b"", {ErrorCode.invalid_record}),
    "one byte": (lambda: b"x", {ErrorCode.corrupt_message, ErrorCode.invalid_record}),
    "wrong crc": (lambda: patched(batch(), 17, ">I", 0xDEADBEEF, fix_crc=False), {ErrorCode.corrupt_message}),
    "a bit flipped": (lambda: patched(batch(b"hello"), 65, ">B", 0x55, fix_crc=False), {ErrorCode.corrupt_message}),
    **{
        f"magic {magic}": (
            lambda magic=magic: patched(batch(), 16, ">b", magic),
            {ErrorCode.invalid_record if magic in (0, 1) else ErrorCode.corrupt_message},
        )
        for magic in (0, 1, 3, -1)
    },
    "base offset of its own": (lambda: patched(batch(), 0, ">q", 12345), {ErrorCode.invalid_record}),
    "length too small": (lambda: patched(batch(), 8, ">i", 48), {ErrorCode.corrupt_message}),
    "length negative": (lambda: patched(batch(), 8, ">i", -1), {ErrorCode.corrupt_message}),
    "length past the end": (lambda: patched(batch(), 8, ">i", 10_000), {ErrorCode.invalid_record}),
    "cut in the header": (lambda: batch()[:40], {ErrorCode.invalid_record}),
    "cut in the records": (lambda: batch(b"x" * 100)[:-5], {ErrorCode.invalid_record}),
    "two batches": (lambda: batch() + batch(), {ErrorCode.invalid_record}),
    "trailing bytes": (lambda: batch() + b"more", {ErrorCode.invalid_record, ErrorCode.corrupt_message}),
    "count above the delta": (lambda: patched(batch(), 57, ">i", 2), {ErrorCode.invalid_record}),
    "count of 2^31-1": (
        lambda: patched(patched(batch(), 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2),
        {ErrorCode.invalid_record},
    ),
    "count 0": (lambda: patched(patched(batch(), 57, ">i", 0), 23, ">i", -1), {ErrorCode.invalid_record}),
    "negative count": (lambda: patched(batch(), 57, ">i", -5), {ErrorCode.invalid_record}),
    "control batch": (lambda: patched(batch(), 21, ">h", 0x20), {ErrorCode.invalid_record}),
    "transactional batch": (lambda: patched(batch(), 21, ">h", 0x10), {ErrorCode.invalid_record}),
    "negative offset delta": (lambda: with_records(b"\x0e\0\0\x01\x01\x02x\0"), {ErrorCode.invalid_record}),
    "repeated offset delta": (lambda: with_records(b"\x0e\0\0\0\x01\x02x\0" * 2, 2), {ErrorCode.invalid_record}),
    "varint without end": (lambda: with_records(b"\xff" * 20), {ErrorCode.invalid_record}),
    "record past the end": (lambda: with_records(b"\x7e\0\0\0\x01\x02x\0"), {ErrorCode.invalid_record}),
    "key past the end": (lambda: with_records(b"\x0e\0\0\0\x7e\x02x\0"), {ErrorCode.invalid_record}),
    "headers without end": (lambda: with_records(b"\x0e\0\0\0\x01\x02x\x7e"), {ErrorCode.invalid_record}),
    "bytes after the records": (lambda: with_records(b"\x0e\0\0\0\x01\x02x\0zz"), {ErrorCode.invalid_record}),
    "codec 5": (lambda: packed(5, b"xyz"), {ErrorCode.unsupported_compression_type, ErrorCode.invalid_record}),
    "codec 7": (lambda: packed(7, b"xyz"), {ErrorCode.unsupported_compression_type, ErrorCode.invalid_record}),
    "too large": (lambda: batch(b"x" * 1_100_000), {ErrorCode.message_too_large}),
    "timestamp -2": (lambda: batch(timestamp_ms=-2), {ErrorCode.invalid_timestamp}),
    "timestamp 2^63-1": (lambda: batch(timestamp_ms=2**63 - 1), {ErrorCode.invalid_timestamp}),
    "timestamp of the year 9999": (lambda: batch(timestamp_ms=253_370_764_800_000), {ErrorCode.invalid_timestamp}),
    "producer id without a sequence": (lambda: batch(producer_id=5, epoch=0, sequence=-1), {ErrorCode.invalid_record}),
    "producer id -2": (lambda: batch(producer_id=-2, epoch=0, sequence=0), {ErrorCode.invalid_record}),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_is_appended(raw, name):
    make, codes = BAD_BATCHES[name]
    end = raw.end_offset(TOPIC)
    assert raw.produce(TOPIC, make()).error_code in codes
    assert raw.end_offset(TOPIC) == end


@pytest.mark.parametrize("name", ["null", "wrong crc", "magic 1", "count above the delta", "codec 7"])
def test_a_bad_batch_without_acks_closes_the_connection(raw, name):
    topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": BAD_BATCHES[name][0]()}]}
    fields = {"transactional_id": None, "acks": 0, "timeout": dt.timedelta(seconds=1), "topic_data": [topic]}
    raw.send_frame(raw.request(0, 9, **fields))
    assert raw.is_closed()


def bomb() -> bytes:
    """A kilobyte or so that claims gigabytes: zeros packed by gzip, over and over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(600)) + packer.flush()


BAD_PACKED = {
    "gzip bomb": lambda: packed(1, bomb()),
    "gzip of nonsense": lambda: packed(1, gzip.compress(b"\xff" * 100)),
    "gzip cut": lambda: packed(1, gzip.compress(os.urandom(1000))[:500]),
    "no gzip": lambda: packed(1, b"plain bytes"),
    "gzip in gzip": lambda: packed(1, gzip.compress(gzip.compress(b"\x0e\0\0\0\x01\x02x\0"))),
    "no snappy": lambda: packed(2, os.urandom(200)),
    "snappy that claims 4 GB": lambda: packed(2, b"\xff\xff\xff\xff\x0f" + bytes(20)),
    "no zstd": lambda: packed(4, os.urandom(200)),
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


# ------------------------------------------------------------------------------------------------ 21: producers


def producer_batch(producer_id: int, sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    return batch(*[b"x"] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)


def test_sequences_that_do_not_follow_are_refused(raw):
    def send(sequence: int, epoch: int = 0) -> int:
        return raw.produce(TOPIC, producer_batch(990_001, sequence, epoch)).error_code

    assert send(0) == NONE
    assert send(5) == ErrorCode.out_of_order_sequence_number
    assert send(1, epoch=1) in (ErrorCode.out_of_order_sequence_number, ErrorCode.invalid_producer_epoch)
    assert send(0, epoch=1) == NONE
    assert send(1, epoch=0) == ErrorCode.invalid_producer_epoch


def test_a_sequence_wraps_after_2_31(raw):
    assert raw.produce(TOPIC, producer_batch(990_002, 2**31 - 2, count=2)).error_code == NONE
    assert raw.produce(TOPIC, producer_batch(990_002, 0)).error_code == NONE
    assert raw.produce(TOPIC, producer_batch(990_003, 2**31 - 1, count=3)).error_code == NONE
    assert raw.produce(TOPIC, producer_batch(990_003, 2)).error_code == NONE


def test_very_many_producer_ids_take_bounded_memory(module_broker, raw):
    process = psutil.Process(module_broker.pid)
    before = process.memory_info().rss
    for first in range(0, 5000, 500):
        frames = []
        for producer_id in range(first, first + 500):
            data = producer_batch(1_000_000 + producer_id, 0)
            topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": data}]}
            fields = {"transactional_id": None, "acks": -1, "timeout": dt.timedelta(seconds=5), "topic_data": [topic]}
            frame = raw.request(0, 9, **fields)
            frames.append(struct.pack(">i", len(frame)) + frame)
        raw.send(b"".join(frames))
        for _ in frames:
            raw.receive_frame()
    assert process.memory_info().rss - before < 30 * 1024 * 1024


# ------------------------------------------------------------------------------------------------ 22, 23: fetches


def fetch(raw: RawClient, **changes: Any) -> Any:
    """Fetch v12 with some fields changed, of the request or of its one partition."""
    fields = fetch_fields(TOPIC, changes.pop("offset", 0))
    partition = fields["topics"][0]["partitions"][0]
    for name, value in changes.items():
        (partition if name in partition else fields)[name] = value
    return raw.ask(1, 12, **fields)


def partition_in(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("offset", [-5, 10**12, -(2**63), 2**63 - 1])
def test_an_offset_that_is_not_there_is_out_of_range(raw, offset):
    assert partition_in(fetch(raw, offset=offset)).error_code == ErrorCode.offset_out_of_range


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
def test_strange_sizes_are_capped(raw, size):
    for name in ("max_bytes", "partition_max_bytes"):
        partition = partition_in(fetch(raw, **{name: size}))
        assert partition.error_code == NONE
        assert partition.records, "at least one batch is always given"


def fetch_of_many(count: int) -> dict:
    fields = fetch_fields(TOPIC, 0)
    one = fields["topics"][0]["partitions"][0]
    fields["topics"][0]["partitions"] = [{**one, "partition": number} for number in range(count)]
    return fields


def test_fetch_of_ten_thousand_partitions_is_answered(raw):
    answer = raw.ask(1, 12, **fetch_of_many(10_000))
    codes = [partition.error_code for partition in answer.responses[0].partitions]
    assert len(codes) == 10_000
    assert set(codes[1:]) == {ErrorCode.unknown_topic_or_partition}


def test_fetch_of_more_partitions_than_a_client_may_name_ends_its_connection_alone(module_broker, raw):
    with pytest.raises(Closed):
        raw.ask(1, 12, **fetch_of_many(50_000))
    with RawClient(module_broker.port) as other:
        assert fetch(other, session_id=0, session_epoch=0).error_code == ErrorCode.none


def test_a_forged_session_is_refused(raw):
    assert fetch(raw, session_id=12345, session_epoch=3).error_code == ErrorCode.fetch_session_id_not_found
    opened = fetch(raw, session_id=0, session_epoch=0)
    assert opened.session_id
    wrong = fetch(raw, session_id=opened.session_id, session_epoch=7)
    assert wrong.error_code == ErrorCode.invalid_fetch_session_epoch


def test_leader_epochs_of_another_time_are_refused(raw):
    assert partition_in(fetch(raw, current_leader_epoch=99)).error_code == ErrorCode.unknown_leader_epoch
    assert partition_in(fetch(raw, current_leader_epoch=99_999)).error_code == ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("replica_id", [1, 2, 77])
def test_a_client_that_says_it_is_a_replica_is_refused(module_broker, raw, replica_id):
    fields = fetch_fields(TOPIC, 0)
    answer = raw.ask(1, 12, replica_id=replica_id, **fields)
    codes = {answer.error_code, partition_in(answer).error_code if answer.responses else NONE}
    assert ErrorCode.cluster_authorization_failed in codes
    assert not any(partition.records for topic in answer.responses for partition in topic.partitions)
