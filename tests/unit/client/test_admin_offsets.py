"""Offsets of partitions whose leader is moving."""

import math
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Uuid
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import OffsetSpec

from yak.client import admin as admin_module
from yak.client.admin import EARLIEST, Admin
from yak.errors import Unreachable, YakError
from yak.ids import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(3)]


class Client:
    """Answers each list_offsets with the next of `answers`: by partition an offset, or an error's code."""

    def __init__(self, answers):
        self.answers = answers
        self.requests = []
        self.calls = []

    def list_topics(self, timeout):
        self.calls.append(f"list_topics {timeout}")

    def list_offsets(self, request, *, request_timeout, **_options):
        self.requests.append(sorted(each.partition for each in request))
        self.calls.append(request_timeout)
        answers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {Wire(each.topic, each.partition): self.future(answers[each.partition]) for each in request}

    @staticmethod
    def future(answer):
        made = Future()
        if isinstance(answer, KafkaError):
            made.set_exception(KafkaException(answer))
        elif answer < 0 and answer != OFFSET_INVALID:
            made.set_exception(KafkaException(KafkaError(-answer)))
        else:
            made.set_result(SimpleNamespace(offset=answer, timestamp=-1, leader_epoch=3))
        return made


@pytest.fixture
def ask(monkeypatch):
    monkeypatch.setattr(admin_module, "LEADER_PAUSE_S", 0.001)

    def make(*answers, timeout_s=5.0):
        made = Admin.__new__(Admin)
        made.timeout_s, made.client = timeout_s, Client(list(answers))
        made._leaders_read_s = -math.inf
        return made

    return make


NOT_LEADER, NO_LEADER = -KafkaError.NOT_LEADER_FOR_PARTITION, -KafkaError.LEADER_NOT_AVAILABLE
NO_KNOWN_LEADER = KafkaError(KafkaError._NOENT)
"""librdkafka's error, without a request, where it knows no leader of any partition."""


def test_only_partitions_whose_leader_moved_are_requested_again(ask):
    admin = ask([7, NOT_LEADER, NO_LEADER], [99, 8, NOT_LEADER], [99, 99, 9])
    found = admin.offsets(dict.fromkeys(ORDERS, EARLIEST))
    assert [found[each].offset for each in ORDERS] == [7, 8, 9]
    assert admin.client.requests == [[0, 1, 2], [1, 2], [2]]


@pytest.mark.parametrize("time_ms", [-1, -2, -315_619_200_000])
def test_time_before_1970_is_that_of_the_first_record_and_not_the_end(ask, monkeypatch, time_ms):
    requested = []
    monkeypatch.setattr(OffsetSpec, "for_timestamp", requested.append)
    ask([7, 7, 7]).offsets(dict.fromkeys(ORDERS, time_ms))
    assert requested == [0, 0, 0]


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH])
def test_partition_whose_leader_is_known_in_another_epoch_is_requested_again(ask, code):
    admin = ask([7, -code, 7], [99, 8, 99])
    assert admin.offsets(dict.fromkeys(ORDERS, EARLIEST))[ORDERS[1]].offset == 8


def test_a_partition_that_gets_no_leader_is_an_error_when_the_time_is_up(ask):
    with pytest.raises(YakError, match="orders-1"):
        ask([7, NO_LEADER, 7], timeout_s=0.02).offsets(dict.fromkeys(ORDERS, EARLIEST))


def test_other_errors_are_not_waited_for(ask):
    admin = ask([7, -KafkaError.UNKNOWN_TOPIC_OR_PART, 7])
    with pytest.raises(YakError) as caught:
        admin.offsets(dict.fromkeys(ORDERS, EARLIEST))
    assert caught.value.code == "unknown-topic"
    assert len(admin.client.requests) == 1


def test_offsets_of_a_leader_that_does_not_answer_are_requested_again(ask):
    admin = ask([7, OFFSET_INVALID, 9], [99, 8, 99])
    found = admin.offsets(dict.fromkeys(ORDERS, EARLIEST))
    assert [found[each].offset for each in ORDERS] == [7, 8, 9]


def test_leaders_are_refreshed_before_each_request_and_each_waits_twice_as_long(ask):
    answers = [7, OFFSET_INVALID, 9], [99, NO_KNOWN_LEADER, 99], [99, OFFSET_INVALID, 99], [99, 8, 99]
    admin = ask(*answers, timeout_s=60)
    assert admin.offsets(dict.fromkeys(ORDERS, EARLIEST))[ORDERS[1]].offset == 8
    expected = [("list_topics 1.0", 1.0), ("list_topics 2.0", 2.0), ("list_topics 4.0", 4.0), ("list_topics 8.0", 8.0)]
    assert [*zip(*[iter(admin.client.calls)] * 2, strict=True)] == expected


def test_leaders_that_were_read_a_moment_ago_are_not_refreshed_before_the_first_request(ask):
    admin = ask([7, 8, 9])
    admin.watermarks(ORDERS)
    assert admin.client.calls == ["list_topics 1.0", 1.0, 1.0]


def test_request_for_offsets_waits_no_longer_than_the_time_that_is_left(ask):
    admin = ask([7, OFFSET_INVALID, 9], [99, 8, 99], timeout_s=1.5)
    admin.offsets(dict.fromkeys(ORDERS, EARLIEST))
    first, second = admin.client.calls[1::2]
    assert (first, second < 1.5) == (1.0, True)


def test_partition_whose_leader_was_dead_is_not_left_out_if_the_next_leader_answers(ask):
    found = ask([7, OFFSET_INVALID, 9], [99, 8, 99]).offsets(dict.fromkeys(ORDERS, EARLIEST), answered_only=True)
    assert found[ORDERS[1]].offset == 8


def test_offsets_of_a_leader_that_never_answers_are_an_error_that_names_the_partition(ask):
    with pytest.raises(Unreachable, match="offsets of orders-1"):
        ask([7, OFFSET_INVALID, 7], timeout_s=0.02).watermarks(ORDERS)


def test_watermarks_of_answered_partitions_leave_out_those_of_a_silent_leader(ask):
    found = ask([7, OFFSET_INVALID, 9]).watermarks(ORDERS, answered_only=True)
    assert found == {ORDERS[0]: (7, 7), ORDERS[2]: (9, 9)}


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._NOENT], ids=["silent", "no-leader"])
def test_answered_offsets_leave_out_a_partition_that_a_connected_leader_keeps_waiting_or_that_has_none(ask, code):
    admin = ask([7, KafkaError(code), 9], timeout_s=0.1)
    found = admin.offsets(dict.fromkeys(ORDERS, EARLIEST), answered_only=True)
    assert list(found) == [ORDERS[0], ORDERS[2]]


def test_leader_that_keeps_two_requests_waiting_gets_no_third_one_for_answered_offsets(ask):
    admin = ask([7, KafkaError(KafkaError._TIMED_OUT), 9])
    admin.offsets(dict.fromkeys(ORDERS, EARLIEST), answered_only=True)
    assert admin.client.requests == [[0, 1, 2], [1]]


def test_partition_that_has_no_leader_for_a_thousand_requests_is_read_when_it_has_one(ask, monkeypatch):
    monkeypatch.setattr(admin_module.time, "sleep", lambda _seconds: None)
    admin = ask(*[[7, NO_LEADER, 9]] * 1100, [99, 8, 99], timeout_s=60)
    assert admin.offsets(dict.fromkeys(ORDERS, EARLIEST))[ORDERS[1]].offset == 8


class Library:
    """librdkafka's admin module: each client answers list_topics with the next of `answers`."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.timeouts_s = []

    def AdminClient(self, _config):  # noqa: N802 - librdkafka's name
        answer = self.answers.pop(0)

        def list_topics(timeout):
            self.timeouts_s.append(timeout)
            if isinstance(answer, KafkaError):
                raise KafkaException(answer)
            return SimpleNamespace(brokers={}, topics={}, cluster_id=answer, controller_id=1)

        return SimpleNamespace(list_topics=list_topics)


@pytest.fixture
def admin_of(monkeypatch):
    def make(*answers, timeout_ms=10_000):
        library = Library(*answers)
        monkeypatch.setattr(admin_module, "library", lambda: library)
        return library, Admin("b:9092", timeout_ms=timeout_ms, extra={"security.protocol": "ssl"})

    return make


def test_metadata_that_a_connected_broker_does_not_send_are_read_over_other_connections(admin_of):
    library, admin = admin_of(KafkaError(KafkaError._TIMED_OUT), "c")
    assert admin.metadata().cluster_id == "c"
    assert library.timeouts_s == [3.0, 7.0]


@pytest.mark.parametrize(
    ("code", "timeout_ms"), [(KafkaError._TIMED_OUT, 2_000), (KafkaError.CLUSTER_AUTHORIZATION_FAILED, 10_000)]
)
def test_metadata_error_that_other_connections_do_not_change_is_raised_at_once(admin_of, code, timeout_ms):
    library, admin = admin_of(KafkaError(code), "c", timeout_ms=timeout_ms)
    with pytest.raises(YakError):
        admin.metadata()
    assert library.timeouts_s == [min(3.0, timeout_ms / 1000)]


def test_topic_id_that_librdkafka_prints_in_another_alphabet_is_printed_as_kafka_does(ask, monkeypatch):
    answer = Future()
    answer.set_result(SimpleNamespace(topic_id=Uuid(-1, -2)))
    admin = ask()
    monkeypatch.setattr(admin, "_described_topics", lambda _names, _what: {"orders": answer})
    assert admin.topic_id("orders") == "_" * 21 + "g"
    assert admin.topic_ids(["orders"]) == {"orders": "/" * 21 + "g"}  # as in checkpoints


MANY = [TopicPartition("orders", number) for number in range(12_500)]


def test_many_partitions_are_requested_a_thousand_at_a_time(ask):
    admin = ask([7] * len(MANY))
    assert len(admin.offsets(dict.fromkeys(MANY, EARLIEST))) == len(MANY)
    assert [len(each) for each in admin.client.requests] == [1_000] * 12 + [500]


def test_leaders_of_many_partitions_have_more_time(ask):
    admin = ask([7] * len(MANY), timeout_s=30)
    admin.offsets(dict.fromkeys(MANY, EARLIEST), answered_only=True)
    assert admin.client.calls[1:] == [3.0] * 13
