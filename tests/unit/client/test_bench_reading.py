"""What reading clients of a benchmark count: each record of their share once, and nothing else."""

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from yak.client.bench import consume, end_to_end, workload
from yak.client.bench.end_to_end import RoundTrips
from yak.client.bench.load import ClientResult, Load, Slice, Stop

END = KafkaError._PARTITION_EOF


def record(offset: int, value: bytes = b"x" * 10, partition: int = 0) -> Message:
    return Message(topic="t", partition=partition, offset=offset, value=value)


class Log:
    """A consumer of one partition that hands out prepared batches; its position follows its records."""

    def __init__(self, *batches: Sequence[Message]) -> None:
        self._batches = list(batches)
        self._position = 0
        self.unassigned: list[int] = []

    def assign(self, _partitions: object) -> None: ...

    def unassign(self) -> None: ...

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.unassigned += [each.partition for each in partitions]

    def consume(self, _count: int, seconds: float) -> Sequence[Message]:
        assert seconds <= 0.05, "librdkafka waits so long for records where there are markers"
        found = self._batches.pop(0) if self._batches else []
        for message in found:
            if message.error() is None:
                self._position = message.offset() + 1
        return found

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition("t", each.partition, self._position) for each in partitions]


def read(log: Log, end: int, **more: Any) -> ClientResult:
    result = ClientResult(0)
    load = Load("consume", "x:1", "t", **more)
    consume.read(log, load, (Slice(0, 0, end),), result, None, None)  # type: ignore[arg-type]
    return result


def test_partition_that_ends_with_a_transactions_marker_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "IDLE_SECONDS", 0.0)
    log = Log([record(0), record(1)], [Message(topic="t", partition=0, offset=3, error=KafkaError(END))])
    found = read(log, 3)
    assert (found.records, found.bytes, found.errors) == (2, 20, 0), found.first_error


def test_records_of_the_next_readers_slice_are_not_counted_whatever_their_size() -> None:
    log = Log([record(0), record(1), record(5, b"y" * 7), record(9, b"y" * 7)])  # markers and aborted records between
    found = read(log, 5)
    assert (found.records, found.bytes) == (2, 20)


def test_error_of_a_reader_is_counted() -> None:
    log = Log([Message(topic="t", partition=0, offset=0, error=KafkaError(KafkaError._TRANSPORT))], [record(0)])
    found = read(log, 1)
    assert (found.records, found.errors) == (1, 1)


class Loop:
    """A producer and a consumer of one partition; `store` says what becomes of a record."""

    def __init__(self, store: Callable[["Loop", bytes], KafkaError | None]) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.log: list[Message] = []

    def produce(self, _topic: str, value: bytes, _key: None, _partition: int, on_delivery: Any) -> None:
        error = self._store(self, value)
        on_delivery(error, record(len(self.log), value))

    def append(self, value: bytes) -> None:
        self.log.append(record(len(self.log), value))

    def flush(self, _seconds: float) -> int:
        return 0

    def poll(self, seconds: float) -> Message | None:
        return self.log.pop(0) if seconds == 0.05 and self.log else None


def round_trips(store: Callable[[Loop, bytes], KafkaError | None], monkeypatch: pytest.MonkeyPatch) -> ClientResult:
    monkeypatch.setattr(end_to_end, "LAST_RECORDS_SECONDS", 0.05)
    result, loop = ClientResult(0), Loop(store)
    session: Any = type("Session", (), {"progress": lambda *_: None})()
    RoundTrips(Load("e2e", "x:1", "t", rate=1000.0), 0, result).run(loop, loop, Stop(10, None), session)  # type: ignore[arg-type]
    return result


def number(value: bytes) -> int:
    return int(struct.unpack_from(">q", value, 16)[0])


def test_record_that_comes_back_twice_hides_no_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = 0

    def store(loop: Loop, value: bytes) -> None:
        nonlocal stored
        stored += 1
        for _ in range({3: 0, 5: 2}.get(stored, 1)):  # the third is lost, the fifth is stored twice
            loop.append(value)

    found = round_trips(store, monkeypatch)
    assert (found.records, found.latency.count, found.errors) == (9, 9, 1)
    assert found.first_error == "1 records did not come back in 0 s"


def test_record_whose_delivery_failed_and_that_comes_back_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = 0

    def store(loop: Loop, value: bytes) -> KafkaError | None:
        nonlocal stored
        stored += 1
        if stored != 4:  # the fourth is lost as well
            loop.append(value)
        return KafkaError(KafkaError._MSG_TIMED_OUT) if stored == 2 else None

    found = round_trips(store, monkeypatch)
    assert (found.records, found.errors) == (8, 2)


def test_consumer_of_a_workload_that_does_not_reach_the_end_has_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "is_at_end", lambda *_: False)
    result = ClientResult(1)
    log: Any = Log([record(0)])
    workload.receive(log, Load("workload", "x:1", "t", clients=2, readers=1), (Slice(0, 0, 0),), result, 0.0, 0.02)
    assert (result.records, result.errors) == (1, 1)
    assert "not at their end" in result.first_error
