"""The consumer that all readers share, with a librdkafka that does what the test says."""

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Wire

from tests.errors import raises_error
from yak.client.consumer import (
    REBALANCED,
    Callbacks,
    ConsumerHandle,
    consumer_config,
    is_transient,
    refusal_in,
    source_of,
)
from yak.errors import YakError
from yak.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Record:
    """A fetched record, for the inbox too."""

    def __init__(self, partition, offset, error=None):
        self.topic_partition, self.offset, self.leader_epoch, self._error = partition, offset, 4, error

    def error(self):
        return KafkaError(self._error)

    def topic(self):
        return self.topic_partition.topic

    def partition(self):
        return self.topic_partition.partition


class Librdkafka:
    """Notes its calls; `during_consume` runs inside consume(), as rebalances do."""

    def __init__(self, config):
        self.calls = []
        self.messages = []
        self.seek_errors = []
        self.during_consume = lambda: None

    def subscribe(self, topics, on_assign, on_revoke, on_lost):
        self.on_revoke = on_revoke

    def assign(self, wires):
        self.calls.append(("assign", [(w.partition, w.offset) for w in wires]))

    def assignment(self):
        return [Wire(*A), Wire(*B)]

    def incremental_unassign(self, wires):
        self.calls.append(("incremental_unassign", [w.partition for w in wires]))

    def incremental_assign(self, wires):
        self.calls.append(("incremental_assign", [(w.partition, w.offset) for w in wires]))

    def pause(self, wires):
        self.calls.append(("pause", [w.partition for w in wires]))

    def resume(self, wires):
        """Nothing was paused before it was assigned."""

    def poll(self, _wait_s):
        return self.messages.pop(0) if self.messages else None

    def consume(self, count, wait_s):
        assert wait_s == 0
        self.during_consume()
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken

    def commit(self, offsets, asynchronous):
        self.calls.append(
            ("commit", [(w.partition, w.offset, w.leader_epoch, w.metadata) for w in offsets], asynchronous)
        )
        return offsets

    def store_offsets(self, offsets):
        self.calls.append(("store", [(w.partition, w.offset) for w in offsets]))

    def seek(self, wire):
        if self.seek_errors:
            raise KafkaException(KafkaError(self.seek_errors.pop(0)))
        self.calls.append(("seek", wire.partition, wire.offset))

    def get_watermark_offsets(self, _wire, cached):
        assert cached
        return


@pytest.fixture
def handle(monkeypatch):
    monkeypatch.setattr("confluent_kafka.Consumer", Librdkafka)
    return ConsumerHandle({})


def test_poll_gives_the_first_record_before_a_revocation_drops_it(handle):
    handle.subscribe(["t"], Callbacks())
    handle.consumer.messages = [Record(A, 7), Record(B, 3)]
    handle.consumer.during_consume = lambda: handle.consumer.on_revoke(handle.consumer, [Wire(*A)])
    for record in handle.poll(0.1, 10):
        handle.inbox.put(record)
    assert [source_of(each) for each in handle.inbox.take(9)] == [B]


def test_poll_with_a_maximum_of_one_takes_at_most_one_record(handle):
    handle.consumer.messages = [Record(A, 7), Record(A, 8)]
    assert [each.offset for each in handle.poll(0.1, 1)] == [7]
    assert [each.offset for each in handle.consumer.messages] == [8]


def test_commit_of_positions_has_the_epoch_of_the_record_before(handle):
    handle.inbox.given([Record(A, 7)])
    answers = handle.commit({A: 8, B: 2})
    assert handle.consumer.calls == [("commit", [(0, 8, 4, None), (1, 2, None, None)], False)]
    assert answers[A].offset == 8
    assert refusal_in(answers) is None


def test_commit_with_metadata_has_no_epoch_and_without_waiting_no_answer(handle):
    handle.inbox.given([Record(A, 7)])
    assert handle.commit({A: 8}, {A: "note"}, waits=False) == {}
    assert handle.consumer.calls == [("commit", [(0, 8, None, "note")], True)]


def test_store_given_stores_assigned_positions_once(handle):
    handle.inbox.given([Record(A, 7), Record(B, 1)])
    handle.store_given(lambda: [A])
    handle.store_given(lambda: [A])
    assert handle.consumer.calls == [("store", [(0, 8)])]


def test_position_after_a_seek_back_to_a_committed_offset_replaces_the_stored_one(handle):
    handle.inbox.given([Record(A, 7)])
    handle.commit({A: 8})
    handle.inbox.committed({A: 8})
    handle.inbox.seek(A, 0)
    handle.store_given(lambda: [A])
    handle.inbox.given([Record(A, 7)])
    assert handle.inbox.uncommitted() == {A: 8}, "librdkafka may have committed 0 since"
    handle.store_given(lambda: [A])
    assert [call for call in handle.consumer.calls if call[0] == "store"] == [("store", [(0, 0)]), ("store", [(0, 8)])]


def test_commit_replaces_the_stored_offset_that_a_periodic_commit_would_put_in_its_place(handle):
    handle.inbox.seek(A, 0)
    handle.store_given(lambda: [A])
    handle.commit({A: 5, B: 2})
    assert handle.consumer.calls[1:] == [
        ("store", [(0, 5)]),
        ("commit", [(0, 5, None, None), (1, 2, None, None)], False),
    ]


def test_assign_without_an_offset_leaves_it_to_the_group(handle):
    handle.assign({A: 7, B: None})
    handle.pause(dict.fromkeys([A, B]))
    assert handle.consumer.calls == [("assign", [(0, 7), (1, OFFSET_INVALID)]), ("pause", [0, 1])]


def test_seek_is_retried_until_librdkafka_fetches(handle):
    handle.consumer.seek_errors = [KafkaError._STATE, KafkaError._STATE]
    handle.seek(A, 5, 10.0, lambda: True)
    assert handle.consumer.calls == [("seek", 0, 5)]


@pytest.mark.parametrize(("code", "timeout_s", "may_wait"), [(KafkaError._STATE, 0.0, True),
                                                            (KafkaError._STATE, 10.0, False),
                                                            (KafkaError._FATAL, 10.0, True)])  # fmt: skip
def test_seek_raises_what_does_not_pass(handle, code, timeout_s, may_wait):
    handle.consumer.seek_errors = [code] * 2
    if timeout_s == 0.0:
        handle.consumer.seek_errors *= 100
    with pytest.raises(KafkaException):
        handle.seek(A, 5, timeout_s, lambda: may_wait)
    assert handle.consumer.calls == []


def test_watermarks_without_a_fetch_are_unknown(handle):
    assert handle.watermarks(A, None) == (-1, -1)


@pytest.mark.parametrize("name", ["NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"])
def test_change_of_a_leader_is_transient(name):
    assert is_transient(KafkaError(getattr(KafkaError, name)))


def test_only_some_readers_wait_through_a_rebalance():
    moved = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
    assert is_transient(KafkaError(KafkaError._TRANSPORT))
    assert not is_transient(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert is_transient(moved, REBALANCED)


def stopped(handle):
    """The handle, after librdkafka has stopped A, without `auto.offset.reset`."""
    handle.note_error(Record(A, 5000, KafkaError._AUTO_OFFSET_RESET))
    return handle


def test_seek_in_a_stopped_partition_of_a_cooperative_consumer_assigns_it_again(monkeypatch):
    monkeypatch.setattr("confluent_kafka.Consumer", Librdkafka)
    handle = stopped(ConsumerHandle({}, is_cooperative=True))
    handle.seek(A, 3, 1.0, lambda: True)
    handle.seek(A, 4, 1.0, lambda: True)
    assert handle.consumer.calls == [("incremental_unassign", [0]), ("incremental_assign", [(0, 3)]), ("seek", 0, 4)]


def test_seek_in_a_stopped_partition_of_an_eager_consumer_keeps_the_others_where_they_are(handle):
    stopped(handle).inbox.given([Record(B, 6)])
    handle.seek(A, 3, 1.0, lambda: True)
    handle.inbox.put(Record(B, 7))
    handle.inbox.put(Record(A, 3))
    handle.seek(A, 4, 1.0, lambda: True)
    stopped(handle).seek(A, 3, 1.0, lambda: True)
    assert handle.consumer.calls == [("assign", [(0, 3), (1, 7)]), ("seek", 0, 4), ("assign", [(0, 3), (1, 8)])]


def test_seek_after_another_error_or_another_assignment_is_a_seek(handle):
    handle.note_error(Record(A, 0, KafkaError._TIMED_OUT))
    handle.seek(A, 3, 1.0, lambda: True)
    stopped(handle).assign({A: 0, B: 0})
    handle.seek(A, 4, 1.0, lambda: True)
    assert [call for call in handle.consumer.calls if call[0] == "seek"] == [("seek", 0, 3), ("seek", 0, 4)]


def test_consumer_without_threads_for_brokers_fails():
    """librdkafka would wait for records without end, and say nothing."""
    note = consumer_config(None, reset="error", read_committed=False)["error_cb"]
    note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with raises_error(YakError, "no-threads"):
        note(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "Unable to create broker thread"))
