"""The OpenMessaging Benchmark's workloads by name, and the partitions of their consumers."""

import struct
import time

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from tests.messages import kafka_message
from yak.client.bench.clients import shares_of
from yak.client.bench.load import ClientResult, Load, Slice
from yak.client.bench.result import Result, document
from yak.client.bench.workload import NAMES, Workload, is_at_end, receive, workload
from yak.errors import UsageError


@pytest.mark.parametrize(
    "expected",
    [
        Workload("simple-workload", 10, 1024, 1, 1, 10_000),
        Workload("1-topic-1-partition-1kb", 1, 1024, 1, 1, 50_000),
        Workload("1-topic-16-partition-100b", 16, 100, 1, 1, 50_000),
        Workload("1-topic-3-partition-100b-3producers", 3, 100, 3, 1, None),
        Workload("1-topic-100-partitions-1kb-4p-4c-2000k", 100, 1024, 4, 4, 2_000_000),
        Workload("max-rate-1-topic-1-partition-4p-1c-1kb", 1, 1024, 4, 1, None),
        Workload("max-rate-1-topic-16-partitions-100b", 16, 100, 1, 1, None),
        Workload("max-rate-1-topic-80-partitions-80p-80c-64kb", 80, 65_536, 80, 80, None),
    ],
    ids=lambda expected: expected.name,
)
def test_a_name_says_what_the_original_file_says(expected: Workload) -> None:
    assert workload(expected.name) == expected


def test_every_name_is_one_workload() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for name in NAMES:
        found = workload(name)
        assert 1 <= found.consumers <= found.partitions <= 100, name
        assert (found.rate is None) == ("max-rate" in name or "3producers" in name), name


def test_an_unknown_name_is_refused_with_the_closest() -> None:
    with pytest.raises(UsageError) as refused:
        workload("1-topic-16-partition-1kb")
    assert refused.value.code == "bench-workload"
    assert refused.value.why == 'closest: "1-topic-16-partitions-1kb"'


@given(st.integers(1, 10), st.integers(1, 10), st.integers(1, 100))
def test_each_partition_is_read_by_one_consumer_from_its_end(producers: int, readers: int, partitions: int) -> None:
    slices = tuple(Slice(number, 3, number + 10) for number in range(partitions))
    load = Load("workload", "x:1", "t", clients=producers + readers, readers=readers, rate=1000.0)
    shares = shares_of(load, slices)
    assert shares[:producers] == [()] * producers
    read = [each for share in shares[producers:] for each in share]
    assert sorted(each.partition for each in read) == list(range(partitions))
    assert all(each.begin == each.end == each.partition + 10 for each in read)
    assert load.client_rate() == 1000.0 / producers


class Received:
    """A consumer whose records are all there at once."""

    def __init__(self, values: list[bytes]) -> None:
        self._values = values

    def consume(self, _records: int, _seconds: float) -> list[object]:
        values, self._values = self._values, []
        return [kafka_message("t", 0, 0, value=value) for value in values]


def test_a_consumer_counts_from_when_a_record_was_due_and_leaves_the_warm_up_out() -> None:
    due = struct.pack(">q", time.monotonic_ns() - 5_000_000_000)
    values = [b"WARM-UP." * 2, due + b"x" * 92, b"short", due + b"x" * 92]
    load = Load("workload", "x:1", "t", clients=2, readers=1, rate=10.0)
    result = ClientResult(1)
    receive(Received(values), load, (), result, 0.0, 0.0)  # type: ignore[arg-type]
    assert (result.records, result.bytes, result.latency.count) == (2, 200, 2)
    assert 5e9 <= result.latency.percentile(50) < 10e9


def test_at_full_speed_a_consumer_counts_and_times_nothing() -> None:
    load = Load("workload", "x:1", "t", clients=2, readers=1)
    result = ClientResult(1)
    receive(Received([b"ABCDEFGHI"] * 3), load, (), result, 0.0, 0.0)  # type: ignore[arg-type]
    assert (result.records, result.latency.count) == (3, 0)


def test_the_json_has_the_consumers_beside_the_producers() -> None:
    load = Load("workload", "x:1", "t", clients=2, readers=1, rate=10.0)
    producer, reader = ClientResult(0, 100, 10_000, ended_s=1.0), ClientResult(1, 90, 9_000, ended_s=2.0)
    reader.latency.record(3_000_000)
    found = document(Result(load, [producer], 100, [reader]), {})
    assert (found["clients"], found["records"], found["errors"]) == (1, 100, 0)
    consumed = found["consumed"]
    assert (consumed["consumers"], consumed["records"], consumed["records_per_s"]) == (1, 90, 45.0)
    assert consumed["latency_ms"]["p99"] == 3.0
    reader.failed("gone")
    assert document(Result(load, [producer], 100, [reader]), {})["first_error"] == "gone"


class AtOffsets:
    """A consumer that has read to these offsets, of partitions that end at 10."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = offsets

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, self._offsets[each.partition]) for each in places]

    def get_watermark_offsets(self, _place: TopicPartition, timeout: float) -> tuple[int, int]:
        assert timeout > 0
        return (0, 10)


def test_a_consumer_is_at_the_end_when_it_is_in_all_partitions() -> None:
    slices = (Slice(0, 5, 5), Slice(1, 10, 10))
    assert is_at_end(AtOffsets(10, OFFSET_INVALID), "t", slices)  # type: ignore[arg-type]
    assert not is_at_end(AtOffsets(9, OFFSET_INVALID), "t", slices)  # type: ignore[arg-type]
    assert not is_at_end(AtOffsets(OFFSET_INVALID, 10), "t", slices)  # type: ignore[arg-type]
