"""Produce and Fetch through frames, on the simulated broker."""

import datetime as dt
import errno
import gzip
import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, fetch_fields
from tests.unit.broker.requests import (
    begin_fetch,
    begin_produce,
    delete_records,
    fetched,
    list_offset,
    produced,
    values_of,
)
from yak.broker.fetches import ConsumerFetch
from yak.core import events
from yak.protocol.compression import compress
from yak.protocol.record_batch import CODECS, compute_crc, iterate_headers, with_records
from yak.protocol.varint import zigzag
from yak.replication.partition import Partition
from yak.sim.request_fields import create_fields
from yak.sim.wire import record_batch


def patched(batch: bytes, offset: int, layout: str, value: int, *, fix_crc: bool = True) -> bytes:
    copy = bytearray(batch)
    struct.pack_into(layout, copy, offset, value)
    if fix_crc:
        struct.pack_into(">I", copy, 17, compute_crc(copy))
    return bytes(copy)


def with_bytes(batch: bytes, records: bytes) -> bytes:
    """The batch with these bytes for its records."""
    return patched(batch[:61] + records, 8, ">i", 49 + len(records))


def test_produced_records_are_fetched_at_their_offsets(rig):
    assert rig.produce("orders", [b"a", b"b"]).base_offset == 0
    assert rig.produce("orders", [b"c"]).base_offset == 2
    partition = rig.fetch("orders", 0)
    assert values_of(partition) == [b"a", b"b", b"c"]
    assert partition.high_watermark == 3
    assert values_of(rig.fetch("orders", 2)) == [b"c"]
    assert values_of(rig.fetch("orders", 3)) == []


def test_a_fetch_waits_for_the_next_record(rig):
    waiting = begin_fetch(rig, "orders", 0, client=rig.new_client(), max_wait_ms=2_000)
    rig.run_for(300)
    assert not waiting.is_done
    rig.produce("orders", [b"late"])
    rig.run_for(50)
    assert values_of(fetched(waiting)) == [b"late"]


def test_fetch_returns_empty_after_max_wait(rig):
    waiting = begin_fetch(rig, "orders", 0, max_wait_ms=500)
    rig.run_for(450)
    assert not waiting.is_done
    rig.run_for(150)
    assert values_of(fetched(waiting)) == []


TWO_BATCHES = {"segment_bytes": "400"}
"""Of a hundred bytes each in a segment."""


def test_more_bytes_than_an_older_segment_has_are_not_waited_for(rig):
    rig.create_topic("rolled", **TWO_BATCHES)
    for _ in range(5):
        rig.produce("rolled", [b"x" * 100])
    found = []
    while len(found) < 4:
        waiting = begin_fetch(rig, "rolled", len(found), max_wait_ms=2_500, min_bytes=1_000)
        rig.run_for(50)
        found += values_of(fetched(waiting))
    last = begin_fetch(rig, "rolled", len(found), max_wait_ms=2_500, min_bytes=1_000)
    rig.run_for(2_000)
    assert not last.is_done


def test_a_fetch_that_waits_for_more_bytes_is_answered_when_its_segment_is_closed(rig):
    rig.create_topic("rolled", **TWO_BATCHES)
    rig.produce("rolled", [b"x" * 100])
    waiting = begin_fetch(rig, "rolled", 0, client=rig.new_client(), max_wait_ms=5_000, min_bytes=1_000)
    for _ in range(2):
        assert not waiting.is_done
        rig.produce("rolled", [b"x" * 100])
        rig.run_for(50)
    assert len(values_of(fetched(waiting))) == 2


def test_fetch_returns_one_whole_batch_even_if_larger_than_requested(rig):
    rig.produce("orders", [b"x" * 1000])
    rig.produce("orders", [b"y" * 1000])
    assert values_of(rig.fetch("orders", 0, max_bytes=1)) == [b"x" * 1000]


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("name", ["max_bytes", "partition_max_bytes"])
def test_fetch_with_a_size_that_makes_no_sense_returns_one_batch(rig, name, size):
    rig.produce("orders", [b"a"])
    fields = fetch_fields("orders", 0)
    (fields if name in fields else fields["topics"][0]["partitions"][0])[name] = size
    assert values_of(rig.ask(1, 12, **fields).responses[0].partitions[0]) == [b"a"]


@pytest.mark.parametrize("offset", [2, 10**12, 2**63 - 1, -5, -(2**63)])
def test_an_offset_outside_the_log_is_out_of_range(rig, offset):
    rig.produce("orders", [b"a"])
    assert rig.fetch("orders", offset).error_code == ErrorCode.offset_out_of_range


def test_unknown_topic_or_partition_is_reported_by_fetch_and_produce(rig):
    assert rig.fetch("nowhere", 0).error_code == ErrorCode.unknown_topic_or_partition
    assert rig.produce("nowhere", [b"a"]).error_code == ErrorCode.unknown_topic_or_partition
    assert rig.produce("orders", [b"a"], partition=9).error_code == ErrorCode.unknown_topic_or_partition


def test_partitions_that_do_not_exist_come_last_in_the_answer_to_a_fetch(rig):
    """As KafkaApis.handleFetchRequest."""
    fields = fetch_fields("orders", 0)
    (row,) = fields["topics"][0]["partitions"]
    rows = [{**row, "partition": index} for index in (7, 0)]
    fields["topics"] = [{"topic": name, "partitions": rows} for name in ("absent", "orders")]
    answer = rig.ask(1, 12, **fields)
    assert [(topic.topic, [each.partition_index for each in topic.partitions]) for topic in answer.responses] == [
        ("orders", [0, 7]),
        ("absent", [7, 0]),
    ]


def test_acks_0_gets_no_answer_and_is_stored(rig):
    silent = begin_produce(rig, "orders", b"quiet", acks=0)
    rig.run_for(100)
    assert not silent.is_done
    assert values_of(rig.fetch("orders", 0)) == [b"quiet"]


def test_an_error_with_acks_0_closes_the_connection(rig):
    silent = begin_produce(rig, "nowhere", b"quiet", acks=0)
    rig.run_for(100)
    assert silent.is_lost


def test_answers_leave_in_the_order_of_the_requests(rig):
    first = rig.begin(19, 5, **create_fields("later", {}))
    second = begin_produce(rig, "orders", b"a")
    while not second.is_done:
        rig.run_for(1)
    assert first.is_done
    assert first.answer.topics[0].error_code == 0


def test_an_answer_behind_a_waiting_fetch_is_not_older_than_the_fetch(rig):
    """KafkaConsumer takes an end offset from the answer to ListOffsets: one below its position stays negative lag."""
    fetch = begin_fetch(rig, "orders", 0, max_wait_ms=400)
    rig.run_for(100)
    assert not fetch.is_done
    ends = rig.begin(2, 6, topics=[{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}])
    rig.run_for(20)
    assert fetch.is_done
    assert ends.answer.topics[0].partitions[0].offset == fetched(fetch).high_watermark == 0


def test_a_fetch_behind_a_longer_request_is_hurried_too(rig):
    created = rig.begin(19, 5, **create_fields("later", {}))
    fetch = begin_fetch(rig, "orders", 0, max_wait_ms=4_000)
    versions = rig.begin(18, 0)
    begin_produce(rig, "orders", b"a", client=rig.new_client())
    while not versions.is_done:
        rig.run_for(1)
    assert created.is_done
    assert fetched(fetch).high_watermark == 0


def test_a_repeated_sequence_is_acknowledged_where_it_stands(rig):
    producer = {"producer_id": 7, "epoch": 0}
    assert rig.produce("orders", [b"a"], sequence=0, **producer).base_offset == 0
    assert rig.produce("orders", [b"b"], sequence=1, **producer).base_offset == 1
    assert rig.produce("orders", [b"a"], sequence=0, **producer).base_offset == 0
    assert rig.fetch("orders", 0).high_watermark == 2


def test_a_gap_in_the_sequence_is_refused(rig):
    rig.produce("orders", [b"a"], producer_id=7, epoch=0, sequence=0)
    answer = rig.produce("orders", [b"c"], producer_id=7, epoch=0, sequence=2)
    assert answer.error_code == ErrorCode.out_of_order_sequence_number
    assert rig.produce("orders", [b"z"], producer_id=7, epoch=1, sequence=0).error_code == 0
    assert (
        rig.produce("orders", [b"b"], producer_id=7, epoch=0, sequence=1).error_code == ErrorCode.invalid_producer_epoch
    )


@pytest.mark.parametrize("how", ["kill", "orderly", "power_loss"])
def test_sequences_are_known_after_a_restart(how):
    rig = Rig()
    rig.create_topic("orders", flush_messages="1")
    rig.produce("orders", [b"a"], producer_id=7, epoch=0, sequence=0)
    rig.restart(orderly=how == "orderly", power_loss=how == "power_loss")
    assert rig.produce("orders", [b"a"], producer_id=7, epoch=0, sequence=0).base_offset == 0
    assert rig.produce("orders", [b"b"], producer_id=7, epoch=0, sequence=1).base_offset == 1
    assert values_of(rig.fetch("orders", 0)) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda batch: None, ErrorCode.invalid_record),
        (lambda batch: b"", ErrorCode.invalid_record),
        (lambda batch: batch[:11], ErrorCode.invalid_record),
        (lambda batch: batch[:16], ErrorCode.invalid_record),
        (lambda batch: batch[:30], ErrorCode.invalid_record),
        (lambda batch: batch + batch, ErrorCode.invalid_record),
        (lambda batch: patched(batch, 0, ">q", 7), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 8, ">i", 48), ErrorCode.corrupt_message),
        (lambda batch: patched(batch, 8, ">i", 13, fix_crc=False)[:16], ErrorCode.corrupt_message),
        (lambda batch: patched(batch, 8, ">i", 10_000, fix_crc=False), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 16, ">b", 1), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 16, ">b", 3), ErrorCode.corrupt_message),
        (lambda batch: patched(batch, 16, ">b", -1)[:30], ErrorCode.corrupt_message),
        (lambda batch: patched(batch, 30, ">b", 1, fix_crc=False), ErrorCode.corrupt_message),
        (lambda batch: patched(batch, 21, ">h", 0x20), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 21, ">h", 0x10), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 21, ">h", 5), ErrorCode.unsupported_compression_type),
        (lambda batch: patched(batch, 23, ">i", 5), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 57, ">i", 0), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 57, ">i", -1), ErrorCode.invalid_record),
        (lambda batch: patched(patched(batch, 21, ">h", 8), 35, ">q", -1), ErrorCode.invalid_timestamp),
        (lambda batch: patched(batch, 35, ">q", -2), ErrorCode.invalid_timestamp),
        (lambda batch: patched(batch, 35, ">q", 2**62), ErrorCode.invalid_timestamp),
        (lambda batch: patched(batch, 43, ">q", 3), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 61, ">b", 100), ErrorCode.invalid_record),
        (lambda batch: patched(patched(batch[:61], 8, ">i", 49), 21, ">h", 3), ErrorCode.invalid_record),
        (lambda batch: patched(patched(batch, 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2), ErrorCode.invalid_record),
        (lambda batch: with_bytes(batch, b"\x0e\0\0\x01\x01\x02x\0"), ErrorCode.invalid_record),
        (lambda batch: with_bytes(patched(batch, 57, ">i", 2), b"\x0e\0\0\0\x01\x02x\0" * 2), ErrorCode.invalid_record),
        (lambda batch: with_bytes(record_batch([b"x"] * 2, 0), b"\x0e\0\0\0\x01\x02x\0" * 2), ErrorCode.invalid_record),
        (lambda batch: with_bytes(batch, b"\xff" * 20), ErrorCode.invalid_record),
        (lambda batch: with_bytes(batch, b"\x7e\0\0\0\x01\x02x\0"), ErrorCode.invalid_record),
        (lambda batch: with_bytes(batch, b"\x0e\0\0\0\x7e\x02x\0"), ErrorCode.invalid_record),
        (lambda batch: with_bytes(batch, b"\x0e\0\0\0\x01\x02x\x7e"), ErrorCode.invalid_record),
        (lambda batch: with_bytes(batch, b"\x0e\0\0\0\x01\x02x\0zz"), ErrorCode.invalid_record),
        (lambda batch: patched(batch, 21, ">h", 7), ErrorCode.unsupported_compression_type),
        (lambda batch: patched(batch, 43, ">q", 5), ErrorCode.invalid_record),  # a producer id without a sequence
        (lambda batch: patched(batch, 43, ">q", -2), ErrorCode.invalid_record),
    ],
)  # fmt: skip
def test_a_bad_batch_is_refused_and_nothing_is_appended(rig, spoil, error):
    answer = rig.produce_raw("orders", spoil(record_batch([b"value"], rig.world.now_ms)))
    assert answer.error_code == error
    assert answer.base_offset == -1
    assert rig.fetch("orders", 0).high_watermark == 0
    assert rig.produce("orders", [b"healthy"]).error_code == 0


@pytest.mark.parametrize(
    "records",
    [gzip.compress(b"\xff" * 100), gzip.compress(b"\0" * 100)[:20], b"no gzip"],
    ids=["no records", "cut off", "no gzip"],
)
def test_records_that_no_client_could_parse_are_refused_for_good_and_not_repacked(rig, records):
    """Clients retry CORRUPT_MESSAGE; Kafka's LogValidator answers INVALID_RECORD, or UNKNOWN_SERVER_ERROR."""
    rig.create_topic("packed", compression_type="lz4")
    refused = rig.produce_raw(
        "packed", with_records(record_batch([b"x"], rig.world.now_ms), records, CODECS.index("gzip"))
    )
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.invalid_record, 0)


def test_produce_refused_in_kafka_before_the_log_is_read_returns_no_log_start_offset(rig):
    """KafkaApis.handleProduceRequest and ReplicaManager.appendToLocalLog."""
    batch = record_batch([b"value"], rig.world.now_ms)
    answer = rig.produce_raw("orders", batch, acks=2)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.invalid_required_acks, -1)
    rig.create_topic("__consumer_offsets")
    answer = rig.produce_raw("__consumer_offsets", batch)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.invalid_topic_exception, -1)
    for records in (None, b"", batch[:20], batch[:-1], batch * 2, patched(batch, 16, ">b", 1)):
        answer = rig.produce_raw("orders", records)
        assert (answer.error_code, answer.log_start_offset) == (ErrorCode.invalid_record, -1)
    assert rig.produce_raw("orders", patched(batch, 0, ">q", 7)).log_start_offset == 0


def test_a_batch_over_max_message_bytes_is_refused(rig):
    rig.create_topic("small", max_message_bytes="200")
    assert rig.produce("small", [b"x" * 300]).error_code == ErrorCode.message_too_large
    assert rig.produce("small", [b"x" * 10]).error_code == 0


def test_batch_after_the_wall_clock_moved_ahead_is_checked_against_it(rig):
    """A virtual machine that was suspended for five hours: the time of the steps stood still, the clients' did not."""
    later_ms = rig.world.now_ms + 5 * 3_600_000
    assert rig.produce("orders", [b"a"], timestamp_ms=later_ms).error_code == ErrorCode.invalid_timestamp
    rig.node.post(events.WallClockMoved(5 * 3_600_000))
    assert rig.produce("orders", [b"a"], timestamp_ms=later_ms).error_code == ErrorCode.none
    rig.node.post(events.WallClockMoved(0))
    assert rig.produce("orders", [b"a"], timestamp_ms=later_ms).error_code == ErrorCode.invalid_timestamp


@pytest.mark.parametrize("moved_ms", [0, 5 * 3_600_000])
def test_batch_with_log_append_time_has_the_time_of_the_wall_clock(rig, moved_ms):
    rig.create_topic("stamped", message_timestamp_type="LogAppendTime")
    rig.node.post(events.WallClockMoved(moved_ms))
    before_ms = rig.world.now_ms + moved_ms
    sent = {"timestamp_ms": 5, "producer_id": 7, "epoch": 0, "sequence": 0}
    first = rig.produce("stamped", [b"a"], **sent)
    data = bytes(rig.fetch("stamped", 0).records)
    ((_, header),) = iterate_headers(data)
    assert 0 <= header.max_timestamp - before_ms < 1_000
    assert header.crc == compute_crc(data)
    assert header.attributes & 8
    rig.run_for(100)
    again = rig.produce("stamped", [b"a"], **sent)
    assert again.base_offset == 0
    stored = dt.datetime.fromtimestamp(header.max_timestamp / 1000, dt.UTC)
    assert again.log_append_time == first.log_append_time == stored, "a repeat has the time of the stored batch"


def test_batch_that_claims_log_append_time_is_stored_with_create_time(rig):
    """As LogValidator: only the broker sets that type. Consumers would take the batch's time for that of each record."""
    claimed = patched(record_batch([b"a"], rig.world.now_ms - 5_000), 21, ">h", 8)
    assert rig.produce_raw("orders", claimed).error_code == ErrorCode.none
    data = bytes(rig.fetch("orders", 0).records)
    ((_, header),) = iterate_headers(data)
    assert (header.attributes, header.crc) == (0, compute_crc(data))
    rig.create_topic("stamped", message_timestamp_type="LogAppendTime")
    refused = rig.produce_raw("stamped", claimed)
    assert refused.error_code == ErrorCode.invalid_timestamp
    assert [each.batch_index for each in refused.record_errors] == [0], "Kafka refuses each record"


def batch_of_times(rig, *ages_ms: int, codec: str | None = None) -> bytes:
    """A batch whose records are so old."""
    first, newest = rig.world.now_ms - ages_ms[0], rig.world.now_ms - min(ages_ms)
    records = b""
    for index, age_ms in enumerate(ages_ms):
        delta = zigzag(ages_ms[0] - age_ms)
        record = b"\0" + delta + zigzag(index) + b"\1\2x\0"
        records += zigzag(len(record)) + record
    batch = patched(patched(record_batch([b"x"], first), 57, ">i", len(ages_ms)), 23, ">i", len(ages_ms) - 1)
    batch = patched(batch, 35, ">q", newest)
    attributes = 0 if codec is None else CODECS.index(codec)
    return with_records(batch, compress(attributes, records), attributes)


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("to_codec", ["producer", "lz4"])
def test_batch_without_its_largest_timestamp_gets_that_of_its_records(rig, codec, to_codec):
    """LogValidator computes it for each batch. Some clients send -1, and no search by time found their records."""
    rig.create_topic("timed", compression_type=to_codec)
    now_ms = rig.world.now_ms
    batch = batch_of_times(rig, 5_000, 2_000, 3_000, codec=codec)
    assert rig.produce_raw("timed", patched(batch, 35, ">q", -1)).base_offset == 0
    assert rig.produce("timed", [b"next"], timestamp_ms=now_ms - 1_000).base_offset == 3
    data = bytes(rig.fetch("timed", 0).records)
    (place, header), _next = iterate_headers(data)
    assert header.max_timestamp == now_ms - 2_000
    assert header.crc == compute_crc(data[place : place + header.size_bytes])
    assert list_offset(rig, now_ms - 4_000, topic="timed").offset == 1


def test_batch_whose_records_are_all_before_its_first_timestamp_is_stored_with_their_largest(rig):
    now_ms = rig.world.now_ms
    batch = patched(
        patched(batch_of_times(rig, 5_000), 35, ">q", -1), 61, ">4s", zigzag(7) + b"\0" + zigzag(-8) + b"\0"
    )
    assert rig.produce_raw("orders", batch).base_offset == 0
    ((_, header),) = iterate_headers(bytes(rig.fetch("orders", 0).records))
    assert (header.base_timestamp, header.max_timestamp) == (now_ms - 5_000, now_ms - 5_008)


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("count", [3, 30])
def test_old_record_after_a_new_record_is_refused_by_the_topics_timestamp_bound(rig, codec, count):
    """LogValidator.validateTimestamp checks each record; the header has the first timestamp and the newest only."""
    rig.create_topic("recent", message_timestamp_before_max_ms="60000")
    wrong = batch_of_times(rig, *[0] * (count - 1), 120_000, codec=codec)
    answer = rig.produce_raw("recent", wrong)
    assert answer.error_code == ErrorCode.invalid_timestamp
    assert [each.batch_index for each in answer.record_errors] == [count - 1]
    assert rig.produce_raw("recent", batch_of_times(rig, *[0] * (count - 1), 30_000, codec=codec)).base_offset == 0
    assert rig.produce_raw("orders", wrong).base_offset == 0, "a topic without a bound"


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("count", [3, 30])
def test_records_with_a_timestamp_too_far_ahead_are_named_in_the_answer(rig, codec, count):
    """LogValidator lists the records of compressed and of large batches too; a job reads them."""
    later_ms = rig.world.now_ms + 7_200_000
    answer = rig.produce_raw("orders", batch_of_times(rig, 0, -7_200_000, *[0] * (count - 2), codec=codec))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.invalid_timestamp, -1)
    assert [each.batch_index for each in answer.record_errors] == [1]
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    words = answer.record_errors[0].batch_index_error_message
    assert f"timestamp {later_ms} is after" in words
    assert "(message.timestamp.after.max.ms)" in words
    assert rig.produce_raw("orders", batch_of_times(rig, 0, codec=codec)).base_offset == 0


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_records_of_a_compacted_topic_without_key_or_time_are_named_by_the_first_fault(rig, codec):
    """LogValidator.validateRecord looks for the key first; one timestamp makes the batch's error INVALID_TIMESTAMP."""
    rig.create_topic("kept", cleanup_policy="compact", message_timestamp_before_max_ms="60000")
    for ages_ms in ((120_000, 0), (0, 120_000)):
        answer = rig.produce_raw("kept", batch_of_times(rig, *ages_ms, codec=codec))
        assert answer.error_code == ErrorCode.invalid_record
        assert ["key" in each.batch_index_error_message for each in answer.record_errors] == [True, True]


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_batch_whose_header_alone_has_a_timestamp_too_far_ahead_is_refused(rig, codec):
    newest = rig.world.now_ms + 7_200_000
    batch = patched(batch_of_times(rig, *[0] * 30, codec=codec), 35, ">q", newest)
    answer = rig.produce_raw("orders", batch)
    assert (answer.error_code, answer.record_errors) == (ErrorCode.invalid_timestamp, ())
    assert str(newest) in answer.error_message


def test_refused_batch_is_answered_with_the_log_start_offset(rig):
    """As Kafka's appendToLocalLog: a Java producer needs it to act upon UNKNOWN_PRODUCER_ID."""
    rig.produce("orders", [b"a"], producer_id=7, epoch=0, sequence=0)
    delete_records(rig, "orders", -1)
    refused = rig.produce("orders", [b"b"], producer_id=7, epoch=0, sequence=5)
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.out_of_order_sequence_number, 1)
    unreadable = rig.produce_raw("orders", patched(record_batch([b"c"], 0), 30, ">b", 1, fix_crc=False))
    assert (unreadable.error_code, unreadable.log_start_offset) == (ErrorCode.corrupt_message, -1)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_topics_codec_is_applied_in_order(rig, codec):
    rig.create_topic("packed", compression_type=codec)
    pending = [begin_produce(rig, "packed", b"v" * 500, b"%d" % index, client=rig.new_client()) for index in range(4)]
    rig.run_for(1_000)
    assert sorted(produced(each).base_offset for each in pending) == [0, 2, 4, 6]
    partition = rig.fetch("packed", 0)
    assert {header.codec for _, header in iterate_headers(bytes(partition.records))} == {CODECS.index(codec)}
    assert len(values_of(partition)) == 8


def test_flush_every_message_holds_the_ack_and_the_high_watermark_until_the_device_has_it():
    rig = Rig()
    rig.create_topic("safe", flush_messages="1")
    assert rig.produce("safe", [b"a"]).base_offset == 0
    rig.restart(power_loss=True)
    assert values_of(rig.fetch("safe", 0)) == [b"a"]


def test_cold_bytes_come_from_the_device(rig):
    rig.produce("orders", [b"a"])
    rig.produce("orders", [b"b"])  # memory has the newest batch
    rig.node.disk.cached_bytes = 0
    rig.node.jobs.delays_us = {"read": 50_000}
    waiting = begin_fetch(rig, "orders", 0)
    rig.run_for(40)
    assert not waiting.is_done
    rig.run_for(40)
    assert values_of(fetched(waiting)) == [b"a", b"b"]


def test_append_that_fails_in_one_of_two_directories_takes_that_one_offline_only():
    rig = Rig(directories=("/data", "/more"))
    rig.create_topic("orders", partitions=2)
    rig.produce("orders", [b"a"])
    rig.node.disk.fail_next("append", errno.EIO, path_contains="orders-0/")
    assert rig.produce("orders", [b"b"]).error_code == ErrorCode.kafka_storage_error
    assert rig.produce("orders", [b"c"]).error_code == ErrorCode.kafka_storage_error
    assert rig.fetch("orders", 0).error_code == ErrorCode.kafka_storage_error
    assert rig.produce("orders", [b"d"], partition=1).error_code == ErrorCode.none
    assert len(rig.node.broker.log_store.online()) == 1


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.not_leader_or_follower), (6, ErrorCode.kafka_storage_error)]
)
def test_fetch_before_version_6_gets_not_leader_for_an_offline_directory(version, code):
    rig = Rig()
    rig.create_topic("orders")
    rig.node.disk.fail_next("append", errno.EIO, path_contains="orders-0/")
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.kafka_storage_error
    rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    answer = rig.ask(1, version, topics=[{"topic": "orders", "partitions": rows}])
    assert [partition.error_code for partition in answer.responses[0].partitions] == [code]


def test_a_replica_id_from_a_client_is_refused(rig):
    fields = fetch_fields("orders", 0) | {"replica_id": 1}
    answer = rig.ask(1, 12, **fields)
    assert answer.error_code == ErrorCode.cluster_authorization_failed


def test_leader_epochs_fence_both_ways(rig):
    fields = fetch_fields("orders", 0)
    for epoch, code in ((99, ErrorCode.unknown_leader_epoch), (0, ErrorCode.fenced_leader_epoch)):
        fields["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
        assert rig.ask(1, 12, **fields).responses[0].partitions[0].error_code == code
        rig.restart()


@pytest.mark.parametrize(
    ("partitions", "session"),
    [([0], {}), ([0, 1], {}), ([0], {"session_epoch": 0})],
    ids=["one partition", "two partitions", "new session"],
)
def test_fetch_waits_until_its_partitions_have_min_bytes_together(rig, partitions, session):
    fields = fetch_fields("orders", 0, max_wait_ms=5_000, min_bytes=300) | session
    (row,) = fields["topics"][0]["partitions"]
    fields["topics"][0]["partitions"] = [row | {"partition": index} for index in partitions]
    waiting = rig.begin(1, 12, client=rig.new_client(), **fields)
    for index in (0, partitions[-1]):
        assert not waiting.is_done
        rig.produce("orders", [b"x" * 100], partition=index)
        rig.run_for(50)
    found = [len(values_of(each)) for each in waiting.answer.responses[0].partitions]
    assert found == ([1, 1] if len(partitions) == 2 else [2])


def test_fetch_that_waits_for_min_bytes_does_not_count_what_is_not_committed(rig):
    rig.create_topic("flushed", flush_messages="1")
    waiting = begin_fetch(rig, "flushed", 0, client=rig.new_client(), max_wait_ms=5_000, min_bytes=300)
    rig.run_for(5)
    for _ in range(2):  # the second is appended while the first is flushed
        begin_produce(rig, "flushed", b"x" * 100, client=rig.new_client())
    while not waiting.is_done:
        rig.run_for(1)
    assert len(values_of(fetched(waiting))) == 2


def test_a_batch_that_is_refused_keeps_its_error_when_another_one_of_the_request_is_not_committed_in_time(monkeypatch):
    rig = Rig()
    rig.create_topic("compacted", partitions=2, cleanup_policy="compact")
    behind = rig.node.broker.partitions["compacted", 1]
    advance = Partition.advance_high_watermark
    monkeypatch.setattr(Partition, "advance_high_watermark", lambda self: self is not behind and advance(self))
    without_keys = record_batch([b"x"] * 20, rig.world.now_ms)  # so many are checked in a job
    with_key = record_batch([b"x"], rig.world.now_ms, keys=[b"k"])
    rows = [{"index": 0, "records": without_keys}, {"index": 1, "records": with_key}]
    topics = [{"name": "compacted", "partition_data": rows}]
    pending = rig.begin(0, 9, timeout=dt.timedelta(seconds=1), topic_data=topics)
    rig.run_for(2_000)
    refused, late = pending.answer.responses[0].partition_responses
    assert refused.error_code == ErrorCode.invalid_record
    assert refused.record_errors
    assert late.error_code == ErrorCode.request_timed_out


def session_fields(positions: dict[int, int], *, session_id: int = 0, epoch: int = 0) -> dict[str, Any]:
    """A fetch of "orders" from these positions, in a session."""
    fields = fetch_fields("orders", 0) | {"session_id": session_id, "session_epoch": epoch}
    (partition,) = fields["topics"][0]["partitions"]
    fields["topics"][0]["partitions"] = [
        {**partition, "partition": index, "fetch_offset": offset} for index, offset in positions.items()
    ]
    return fields


def values_by_partition(answer: Any) -> dict[int, list[bytes]]:
    return {each.partition_index: values_of(each) for topic in answer.responses for each in topic.partitions}


def test_a_record_that_comes_while_a_session_waits_for_the_device_is_in_its_next_fetch(rig):
    reader = rig.new_client()
    rig.produce("orders", [b"cold"], partition=1)
    rig.produce("orders", [b"newest"], partition=1)
    rig.node.disk.cached_bytes = 0
    rig.node.jobs.delays_us = {"read": 50_000}
    waiting = rig.begin(1, 12, client=reader, **session_fields({0: 0, 1: 0}))
    rig.run_for(10)
    rig.produce("orders", [b"meanwhile"], partition=0)
    assert not waiting.is_done
    rig.run_for(100)
    assert values_by_partition(waiting.answer) == {0: [], 1: [b"cold", b"newest"]}
    fields = session_fields({1: 2}, session_id=waiting.answer.session_id, epoch=1)
    assert values_by_partition(rig.ask(1, 12, client=reader, **fields)) == {0: [b"meanwhile"]}


def test_a_record_that_comes_between_two_slices_of_a_fetch_is_in_the_next_fetch_of_its_session(monkeypatch):
    monkeypatch.setattr("yak.broker.broker.LARGE_REQUEST_ELEMENTS", 12)
    monkeypatch.setattr("yak.broker.fetches.SLICE_ELEMENTS", 1)
    rig = Rig()
    rig.create_topic("orders", partitions=20)
    reader, positions = rig.new_client(), dict.fromkeys(range(20), 0)
    broker = rig.node.broker
    read_some, seen = ConsumerFetch._read_some, []

    def read_then_produce(fetch: ConsumerFetch, reading: Any, items: list[Any]) -> None:
        read_some(fetch, reading, items)
        seen.extend(item.index for item in items)
        if len(seen) == 1:
            # the records of a request that is served before the next slice
            begin_produce(rig, "orders", b"between", partition=seen[0])

    monkeypatch.setattr(ConsumerFetch, "_read_some", read_then_produce)
    opened = rig.ask(1, 12, client=reader, **session_fields(positions))
    rig.run_for(50)
    assert broker.partitions["orders", seen[0]].high_watermark == 1
    fields = session_fields({}, session_id=opened.session_id, epoch=1)
    found = values_by_partition(opened) | values_by_partition(rig.ask(1, 12, client=reader, **fields))
    assert found[seen[0]] == [b"between"]


def test_fetch_session_of_a_closed_connection_is_not_notified_and_can_be_resumed(rig):
    reader = rig.new_client()
    opened = rig.ask(1, 12, client=reader, **session_fields({0: 0, 1: 0}))
    reader.close()
    rig.run_for(50)
    rig.produce("orders", [b"after"], partition=1)
    assert not rig.node.broker.partitions["orders", 1].sessions
    resumed = rig.new_client()
    fields = session_fields({}, session_id=opened.session_id, epoch=1)
    assert values_by_partition(rig.ask(1, 12, client=resumed, **fields)) == {1: [b"after"]}
    fields = session_fields({1: 1}, session_id=opened.session_id, epoch=2)
    fields["max_wait"] = dt.timedelta(seconds=2)
    waiting = rig.begin(1, 12, client=resumed, **fields)
    rig.produce("orders", [b"later"], partition=1)
    rig.run_for(50)
    assert values_by_partition(waiting.answer) == {1: [b"later"]}
