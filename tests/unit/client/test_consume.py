"""Reading by assignment in batches, and where a tail starts, with a consumer that holds a small log of its own."""

from typing import ClassVar

import pytest
from confluent_kafka import KafkaError

from tests.messages import kafka_message
from yak.client.consume import PartitionReader, Window, offsets_behind, tail_starts
from yak.client.consumer import ConsumerHandle
from yak.errors import YakError
from yak.ids import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class LogConsumer:
    """Gives the records of `logs` (offsets by partition) from where it is assigned, and then their ends."""

    logs: ClassVar = {}
    made: ClassVar = []

    def __init__(self, config):
        self.config = config
        self.queue = []
        self.paused = []
        LogConsumer.made.append(self)

    def assign(self, wires):
        for each in wires:
            self.incremental_assign([each])

    def incremental_assign(self, wires):
        for wire in wires:
            place = TopicPartition(wire.topic, wire.partition)
            offsets, end = self.logs[place]
            self.queue += [kafka_message(*place, offset) for offset in offsets if offset >= wire.offset]
            self.queue.append(kafka_message(*place, end, error=KafkaError._PARTITION_EOF))

    def incremental_unassign(self, wires):
        gone = {TopicPartition(each.topic, each.partition) for each in wires}
        self.queue = [each for each in self.queue if (each.topic(), each.partition()) not in gone]

    def consume(self, limit, _wait_s):
        found, self.queue = self.queue[:limit], self.queue[limit:]
        return found

    def pause(self, wires):
        self.paused = sorted(each.partition for each in wires)

    def resume(self, wires):
        self.paused = []

    def get_watermark_offsets(self, wire, cached):
        return (0, self.logs[TopicPartition(wire.topic, wire.partition)][1])

    def close(self):
        pass


@pytest.fixture(autouse=True)
def logs(monkeypatch):
    monkeypatch.setattr("confluent_kafka.Consumer", LogConsumer)
    monkeypatch.setattr(LogConsumer, "logs", {ZERO: (list(range(20)), 20), ONE: ([3, 9, 15], 20)})
    monkeypatch.setattr(LogConsumer, "made", [])


def test_batches_hold_what_is_in_the_windows_and_end_with_them():
    reader = PartitionReader("nowhere:1", {ZERO: Window(5, 8), ONE: Window(0, 12)})
    taken = []
    while not reader.is_done:
        taken += [(each.partition(), each.offset()) for each in reader.fetch(4, 0.0)]
    assert sorted(taken) == [(0, 5), (0, 6), (0, 7), (1, 3), (1, 9)]


def test_lag_of_a_reader_is_counted_up_to_the_stop_offsets_or_the_watermarks():
    reader = PartitionReader("nowhere:1", {ZERO: Window(5, 8), ONE: Window(10, None)})
    assert reader.behind() == 3 + 10
    reader.fetch(2, 0.0)
    assert reader.behind() == 1 + 10
    reader.add(ONE, Window(15, 500))
    assert reader.behind() == 1 + 5, "what is not there yet cannot be read"


def test_offsets_behind_without_a_fetch_is_unknown(monkeypatch):
    class Unknown(LogConsumer):
        def get_watermark_offsets(self, wire, cached):
            return (-1001, -1001)

    monkeypatch.setattr("confluent_kafka.Consumer", Unknown)
    assert offsets_behind(ConsumerHandle({}), {ZERO: 0}, {}) is None
    assert offsets_behind(ConsumerHandle({}), {ZERO: 0}, {ZERO: 4}) == 4


def test_a_partition_that_was_added_is_read_too_and_all_pause_together():
    reader = PartitionReader("nowhere:1", {ZERO: Window(19, None)})
    reader.add(ONE, Window(0, None))
    assert sorted((each.partition(), each.offset()) for each in reader.fetch(10, 0.0)) == [
        (0, 19),
        (1, 3),
        (1, 9),
        (1, 15),
    ]
    reader.pause()
    assert LogConsumer.made[-1].paused == [0, 1]
    reader.resume()
    assert LogConsumer.made[-1].paused == []


@pytest.mark.parametrize("passing", [KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT])
def test_permanent_error_is_raised_and_transient_errors_are_waited_out(passing):
    reader = PartitionReader("nowhere:1", {ZERO: Window(0, None)})
    LogConsumer.made[-1].queue = [kafka_message(*ZERO, 0, error=passing), kafka_message(*ZERO, 0)]
    assert len(reader.fetch(10, 0.0)) == 1
    LogConsumer.made[-1].queue = [kafka_message(*ZERO, 0, error=KafkaError.UNKNOWN_TOPIC_OR_PART)]
    with pytest.raises(YakError):
        reader.fetch(10, 0.0)


def test_a_tail_counts_records_and_not_offsets():
    marks = {ZERO: (0, 20), ONE: (0, 20)}
    assert tail_starts("nowhere:1", marks, 2) == {ZERO: 18, ONE: 9}
    assert tail_starts("nowhere:1", marks, 3) == {ZERO: 17, ONE: 3}


def test_a_tail_of_more_than_there_is_starts_at_the_start():
    assert tail_starts("nowhere:1", {ONE: (2, 20)}, 50) == {ONE: 2}


def test_tail_of_zero_records_and_of_an_empty_log_contacts_no_broker():
    assert tail_starts("nowhere:1", {ZERO: (0, 20), ONE: (7, 7)}, 0) == {ZERO: 20, ONE: 7}
    assert tail_starts("nowhere:1", {ONE: (7, 7)}, 5) == {ONE: 7}
    assert LogConsumer.made == []
