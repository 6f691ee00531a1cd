"""Our segments, read by two parsers that are not ours."""

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from tests.unit.storage.compaction.rounds import pieces
from yak.protocol.record_batch import read_header
from yak.storage.compaction import Compaction, Replacement, cleanable
from yak.storage.reader import scan_headers


def builders():
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    # lz4 is left to clients' tests: kafka-python needs a library for it
    for codec in (0, 1):
        yield codec, DefaultRecordBatchBuilder(
            magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
            batch_size=1 << 20,
        )  # fmt: skip


def as_aiokafka(data):
    return AiokafkaRecords(data)


def as_kafka_python(data):
    return KafkaPythonRecords(data)


@pytest.mark.parametrize("parser", [as_aiokafka, as_kafka_python])
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_every_record_is_read_back_by_another_parser(make_bench, parser, stop):
    bench = make_bench(segment_bytes=3000, index_interval_bytes=300)
    expected = []
    for number in range(20):
        for codec, builder in builders():
            count = number % 4 + 1
            for index in range(count):
                key = None if index % 2 else b"key-%d" % number
                value = None if index == 2 else b"value %d %d" % (codec, number) * 10
                builder.append(index, 1_700_000_000_000 + number + index, key, value, [("h", b"1")])
                expected.append((len(expected), 1_700_000_000_000 + number + index, key, value))
            batch = bytes(builder.build())
            bench.log.append(read_header(batch), batch, number // 5, 0)
    bench.reopen(clean=stop == "clean")
    found = []
    for name in bench.files():
        if not name.endswith(".log"):
            continue
        records = parser(bench.content(name))
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    assert found == expected
    for offset, timestamp, _, _ in expected[::7]:
        answer = bench.log.timestamp_search(timestamp).run(bench.disk)
        assert answer.offset <= offset
        assert answer.timestamp >= timestamp


@pytest.mark.parametrize("parser", [as_aiokafka, as_kafka_python])
def test_compacted_log_is_read_by_another_parser(make_bench, parser):
    bench = make_bench(cleanup_policy="compact", segment_bytes=3000, delete_retention_ms=10**9)
    written = {}
    for number in range(30):
        for _codec, builder in builders():
            for index in range(3):
                key = b"key-%d" % ((number * 3 + index) % 7)
                value = None if number % 5 == 4 else b"value %d" % number
                timestamp = 1_700_000_000_000 - 50 * number + index
                builder.append(index, timestamp, key, value, [("h", b"%d" % number)])
                written[len(written)] = (timestamp, key, value, [("h", b"%d" % number)])
            batch = bytes(builder.build())
            bench.log.append(read_header(batch), batch, 0, 0)
    bench.log.roll(0)
    bench.flush()
    scope = cleanable(bench.log, bench.log.log_end_offset, 1_800_000_000_000)
    for done in pieces(Compaction(bench.log, scope, 10**6, 1_800_000_000_000), bench.disk):
        if isinstance(done, Replacement):
            bench.log.replace_segments(done.replaced, done.cleaned).run(bench.disk)
    found, marked, empty = {}, 0, 0
    for segment in bench.log.segments[:-1]:
        records = parser(segment.open().read(segment.size, 0))
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            left = [(record.offset, (record.timestamp, record.key, record.value, record.headers)) for record in batch]
            found |= dict(left)
            empty += not left
    for header in (h for s in bench.log.segments for _, h in scan_headers(s.open(), 0, s.size)):
        marked += header.delete_horizon_ms is not None
    newest = {record[1]: offset for offset, record in sorted(written.items())}
    assert found == {offset: written[offset] for offset in newest.values()}
    assert marked > 0
    assert empty > 0
