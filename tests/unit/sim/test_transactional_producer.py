"""The simulated transactional producer's requests and what it records, and the reader that drops aborted records."""

from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from yak.protocol.control_batch import EndTransactionMarker, build_marker
from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_writer import build_batch
from yak.sim.clients import take_records
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import Recorder
from yak.sim.seeded_random import SeededRandom
from yak.sim.transactional_producer import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE, SimTransactionalProducer

NONE, FENCED = ErrorCode.none, ErrorCode.producer_fenced


class FakeWorld:
    """Runs what is due at once, one after the other."""

    now_ms = now_us = 0

    def __init__(self):
        self.due = []

    def after(self, wait_us, then):
        self.due.append(then)

    def run(self, steps):
        for _ in range(steps):
            if self.due:
                self.due.pop(0)()


class Scripted(SimTransactionalProducer):
    """A producer whose brokers answer from `fails`: an error by request, otherwise success."""

    def __init__(self, *, is_protocol_2=False, fails=None):
        self.world, self.requests, self.fails = FakeWorld(), [], fails or {}
        self.counts, self.expected = [], []
        self.recorder = Recorder(self.world)
        deliveries = SimpleNamespace(recorder=self.recorder, count=self.counts.append)
        view = SimpleNamespace(cluster=SimpleNamespace(world=self.world))
        rng = SeededRandom("scripted")
        super().__init__(view, rng, deliveries, "tx", "id", timeout_ms=1, is_protocol_2=is_protocol_2, pause_us=1)
        self._channels = [SimpleNamespace(send=self.produced)] * 2
        self.epoch = 0

    def _ask(self, api_key, version, fields, done):
        self.requests.append((api_key, fields.get("committed")))
        if api_key == INIT_PRODUCER_ID:
            self.expected.append((fields["producer_id"], fields["producer_epoch"]))
        code = self.fails.get(api_key, NONE)
        if api_key == ADD_PARTITIONS:
            partitions = [SimpleNamespace(partition_error_code=code)]
            done(SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(results_by_partition=partitions)]))
            return
        if api_key == INIT_PRODUCER_ID or version >= 5:
            self.epoch += 1
        done(SimpleNamespace(error_code=code, producer_id=7, producer_epoch=self.epoch))

    def produced(self, api_key, version, fields, done):
        records = fields["topic_data"][0]["partition_data"][0]["records"]
        ((_, header),) = iterate_headers(bytes(records))
        assert header.is_transactional
        self.requests.append((api_key, (header.producer_epoch, header.base_sequence)))
        code = self.fails.get(api_key, NONE)
        result = SimpleNamespace(error_code=code, base_offset=len(self.requests))
        done(SimpleNamespace(responses=[SimpleNamespace(partition_responses=[result])]))

    def outcomes(self):
        return [ending.outcome for ending in self.recorder._transactions]


def test_protocol_1_adds_partitions_and_continues_with_its_epoch_and_sequences():
    producer = Scripted()
    producer.start()
    producer.world.run(4)
    keys = [key for key, _ in producer.requests]
    assert keys[:10] == [INIT_PRODUCER_ID, *[ADD_PARTITIONS, PRODUCE, PRODUCE, END_TXN] * 2, ADD_PARTITIONS]
    writes = [detail for key, detail in producer.requests if key == PRODUCE]
    assert {epoch for epoch, _ in writes} == {1}
    assert writes[2][1] > 0
    assert set(producer.outcomes()[:2]) <= {Outcome.OK, Outcome.FAIL}


def test_protocol_2_has_a_new_epoch_and_new_sequences_in_each_transaction():
    producer = Scripted(is_protocol_2=True)
    producer.start()
    producer.world.run(4)
    assert ADD_PARTITIONS not in {key for key, _ in producer.requests}
    writes = [detail for key, detail in producer.requests if key == PRODUCE]
    assert writes[:6] == [(1, 0), (1, 0), (2, 0), (2, 0), (3, 0), (3, 0)]


@pytest.mark.parametrize("where", [ADD_PARTITIONS, PRODUCE])
def test_a_producer_that_is_fenced_before_its_commit_has_aborted(where):
    producer = Scripted(fails={where: FENCED})
    producer.start()
    assert producer.outcomes() == [Outcome.FAIL]
    assert producer.counts[0] == "transactions fenced"
    producer.world.run(1)
    assert [key for key, _ in producer.requests].count(INIT_PRODUCER_ID) == 2


def test_a_producer_that_is_fenced_at_its_commit_does_not_know_the_outcome():
    producer = Scripted(fails={END_TXN: FENCED})
    producer.start()
    producer.world.run(40)
    commits = [committed for key, committed in producer.requests if key == END_TXN]
    expected = [Outcome.INFO if committed else Outcome.FAIL for committed in commits]
    assert set(commits) == {True, False}
    assert producer.outcomes()[: len(expected)] == expected
    assert producer.counts.count("transactions unknown") == commits.count(True)


@pytest.mark.parametrize("is_fenced", [False, True])
def test_producer_recovers_under_its_id_after_an_error_unless_it_is_fenced(is_fenced):
    producer = Scripted(fails={PRODUCE: ErrorCode.out_of_order_sequence_number})
    producer.start()
    if is_fenced:
        producer.fails[INIT_PRODUCER_ID] = FENCED
    producer.world.run(20)
    recovered = [expected for expected in producer.expected if expected != (-1, -1)]
    assert len(recovered) <= 1 if is_fenced else len(recovered) > 2
    assert {producer_id for producer_id, _epoch in recovered} <= {7}
    assert (-1, -1) in producer.expected[1:]


def test_a_stopped_producer_begins_no_transaction():
    producer = Scripted()
    producer.stop()
    producer.start()
    producer.world.run(10)
    assert producer.outcomes() == []


# -------------------------------------------------------------------------------------------------- the reader


class Got:
    """Collects the values that a reader reports."""

    def __init__(self):
        self.values = []

    def log_begins(self, topic, partition, log_start_offset):
        pass

    def read(self, topic, partition, offset, value, high_watermark):
        self.values.append((offset, value))

    def damaged(self, topic, partition, offset):
        raise AssertionError(offset)


def log_of(*batches):
    """Batches with consecutive offsets."""
    data, offset = b"", 0
    for batch in batches:
        placed = offset.to_bytes(8, "big") + batch[8:]
        ((_, header),) = iterate_headers(placed)
        data, offset = data + placed, header.next_offset
    return data


def written(producer_id, *values, is_transactional=True):
    return build_batch(
        [(None, value) for value in values],
        0,
        attributes=16 if is_transactional else 0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )


def marker(producer_id, *, is_commit):
    return build_marker(producer_id, 0, EndTransactionMarker(is_commit, 0), 0)


def fetched(data, *aborted):
    named = [SimpleNamespace(producer_id=producer_id, first_offset=offset) for producer_id, offset in aborted]
    return SimpleNamespace(records=data, aborted_transactions=named, log_start_offset=0, high_watermark=99)


def test_a_reader_drops_aborted_records_until_their_marker_and_all_control_records():
    data = log_of(
        written(1, b"gone", b"gone too"),
        written(2, b"kept"),
        written(-1, b"plain", is_transactional=False),
        marker(1, is_commit=False),
        written(1, b"kept later"),
        marker(2, is_commit=True),
        marker(1, is_commit=True),
    )
    got = Got()
    end = take_records(got, "t", 0, 0, fetched(data, (1, 0)))
    assert got.values == [(2, b"kept"), (3, b"plain"), (5, b"kept later")]
    assert end == 8


def test_a_reader_of_everything_gets_the_aborted_records_too():
    data = log_of(written(1, b"gone"), marker(1, is_commit=False))
    got = Got()
    assert take_records(got, "t", 0, 0, fetched(data)) == 2
    assert got.values == [(0, b"gone")]
