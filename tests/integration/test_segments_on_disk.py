"""The files that a broker leaves, read by strangers: two clients' record parsers, plain struct, and Kafka's own tool."""

import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from crc32c import crc32c
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords
from support.client_kinds import ALL_CODECS, CLIENT_KINDS, Message

T0 = 1_700_000_000_000
SMALL = {"retention.ms": "-1", "segment.bytes": "16384", "index.interval.bytes": "512"}
HEADER = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True)
class Fed:
    """A topic's folder, and what was written to it in order."""

    folder: Path
    messages: list[Message]
    codecs: set[str]

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.folder.glob(f"*{suffix}"))


@pytest.fixture(scope="module")
def fed(module_broker) -> dict[str, Fed]:
    """A broker that every client fed with every codec it has, and that was stopped then."""
    topics: dict[str, Fed] = {}
    for name, make in CLIENT_KINDS.items():
        client = make(module_broker.bootstrap)
        topic = f"from-{name}"
        client.create_topic(topic, configs=SMALL)
        written: list[Message] = []
        for codec in client.codecs:
            for burst in range(4):
                number = len(written)
                messages = [
                    Message(
                        b"%d " % (number + i) + bytes(range(256)) * 4,
                        b"key %d" % i if i % 3 else None,
                        (("codec", codec.encode()), ("empty", b"")) if i % 2 else (),
                        T0 + (number + i) * 1000,
                    )
                    for i in range(12)
                ]
                client.produce(topic, messages, codec=codec, idempotent=burst % 2 == 0)
                written += messages
        topics[topic] = Fed(module_broker.data_dir / f"{topic}-0", written, set(client.codecs))
    module_broker.stop()
    return topics


@pytest.fixture(params=sorted(CLIENT_KINDS))
def one(fed, request) -> Fed:
    return fed[f"from-{request.param}"]


def batches_of(data: bytes) -> list[tuple[int, tuple[Any, ...], bytes]]:
    """(position, header fields, whole bytes) of each batch; the file must end with the last one."""
    found = []
    position = 0
    while position < len(data):
        fields = HEADER.unpack_from(data, position)
        end = position + 12 + fields[1]
        assert end <= len(data), "a batch goes past the end of the file"
        found.append((position, fields, data[position:end]))
        position = end
    return found


def test_offsets_are_without_gaps_and_every_checksum_fits(one):
    next_offset = 0
    codecs = set()
    for log in one.files(".log"):
        for _position, fields, data in batches_of(log.read_bytes()):
            base_offset, _length, epoch, magic, crc, attributes, last_delta, first, newest, *_rest, count = fields
            assert base_offset == next_offset
            assert magic == 2
            assert epoch >= 0
            assert crc == crc32c(data[21:])
            assert count == last_delta + 1
            assert T0 <= first <= newest
            codecs.add(ALL_CODECS[attributes & 7])
            next_offset = base_offset + count
    assert next_offset == len(one.messages)
    assert codecs == one.codecs


@pytest.mark.parametrize("parser", [KafkaPythonRecords, AiokafkaRecords], ids=["kafka-python", "aiokafka"])
def test_other_parsers_find_what_was_written(one, parser):
    if parser is KafkaPythonRecords and one.codecs - set(CLIENT_KINDS["kafka-python"]("").codecs):
        pytest.skip("kafka-python has not the libraries of all codecs here")
    found: list[tuple[int, Message]] = []
    for log in one.files(".log"):
        records = parser(log.read_bytes())
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            for each in batch:
                headers = tuple((name, value) for name, value in each.headers)
                found.append((each.offset, Message(each.value, each.key, headers, each.timestamp)))
    assert found == list(enumerate(one.messages))


# ------------------------------------------------------------------------------------------------ Kafka's own tool


@pytest.fixture(scope="module")
def dump_log(java):
    """Run Kafka's DumpLogSegments on files."""

    def run(files: list[Path], *arguments: str) -> str:
        command = [*java, "org.apache.kafka.tools.DumpLogSegments", *arguments, "--files", ",".join(map(str, files))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr[-2000:]
        for word in ("Exception", "Mismatches", "invalid bytes", "Found", "out of order", "isvalid: false"):
            assert word not in done.stdout, done.stdout[-3000:]
        assert "Exception" not in done.stderr, done.stderr[-2000:]
        return done.stdout

    return run


@pytest.mark.jvm
def test_kafkas_dump_log_segments_reads_every_record(fed, dump_log):
    everything = [log for each in fed.values() for log in each.files(".log")]
    out = dump_log(everything, "--deep-iteration", "--print-data-log")
    assert len(re.findall(r"^\| offset: ", out, re.MULTILINE)) == sum(len(each.messages) for each in fed.values())
    assert out.count("isvalid: true") >= len(everything)
    for codec in ALL_CODECS:
        assert f"compresscodec: {codec}" in out


@pytest.mark.jvm
def test_kafkas_dump_log_segments_finds_the_indexes_sound(fed, dump_log):
    indexes = [path for each in fed.values() for path in each.files(".index")]
    out = dump_log(indexes, "--index-sanity-check")
    empty = sum(1 for path in indexes if not path.stat().st_size)
    assert out.count("passed sanity check") == len(indexes) - empty > 2
    assert out.count("is empty") == empty
    times = [path for each in fed.values() for path in each.files(".timeindex")]
    dump_log(times, "--verify-index-only")
    out = dump_log(times)
    assert out.count("timestamp: ") > len(times)


@pytest.mark.jvm
def test_kafkas_dump_log_segments_reads_the_producer_snapshots(fed, dump_log):
    snapshots = [each.files(".snapshot")[-1] for each in fed.values()]
    out = dump_log(snapshots)
    assert out.count("producerId: ") == sum(len(each.codecs) * 2 for each in fed.values())
