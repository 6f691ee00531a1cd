"""A member of the demo's group: what it tells and when, and that it commits only what it told."""

import zlib
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.errors import YakError
from yak.local.demo.group_events import Committed, Given, NotCommitted, Read, Taken
from yak.local.demo.group_member import GroupMember, MemberSettings, consumer_config

SETTINGS = MemberSettings("127.0.0.1:1", "g", "t", "member-1", 6000)


class Consumer:
    """Plays a script: each poll takes the next step, which is a message or something to call."""

    def __init__(self, *script):
        self.script = list(script)
        self.calls = []
        self.refuse = None
        self.callbacks = {}

    def subscribe(self, topics, **callbacks):
        self.calls.append(("subscribe", *topics))
        self.callbacks = callbacks

    def poll(self, _timeout):
        step = self.script.pop(0)
        return step(self) if callable(step) else step

    def commit(self, offsets, asynchronous):
        assert asynchronous is False
        if isinstance(self.refuse, KafkaException):
            raise self.refuse
        self.calls.append(("commit", {each.partition: each.offset for each in offsets}))
        return [SimpleNamespace(partition=each.partition, offset=each.offset, error=self.refuse) for each in offsets]

    def incremental_assign(self, partitions):
        self.calls.append(("assign", *(each.partition for each in partitions)))

    def incremental_unassign(self, partitions):
        self.calls.append(("unassign", *(each.partition for each in partitions)))

    def close(self):
        self.calls.append(("close",))


def message(partition, offset, value=b"v", error=None):
    return SimpleNamespace(partition=lambda: partition, offset=lambda: offset, value=lambda: value, error=lambda: error)


def rebalance(kind, *partitions):
    def step(consumer):
        consumer.callbacks[f"on_{kind}"](consumer, [SimpleNamespace(partition=each) for each in partitions])

    return step


def play(consumer, before_end=lambda member: None):
    told = []
    member = GroupMember(SETTINGS, consumer, lambda event: (told.append(event), consumer.calls.append("told")))

    def enough():
        if consumer.script:
            return False
        before_end(member)
        return True

    member.run(enough)
    return told


def test_each_record_is_told_before_it_can_be_committed():
    consumer = Consumer(rebalance("assign", 2), message(2, 7, b"abc"), None)
    told = play(consumer, lambda member: member.commit())
    assert [type(each) for each in told] == [Given, Read, Committed]
    assert told[1].checksum == zlib.crc32(b"abc")
    assert (told[1].partition, told[1].offset) == (2, 7)
    assert told[2].offsets == ((2, 8),)
    assert told[2].asked_at <= told[2].at
    assert consumer.calls == [
        ("subscribe", "t"), "told", ("assign", 2), "told", ("commit", {2: 8}), "told", ("close",),
    ]  # fmt: skip


def test_only_what_is_new_is_committed():
    consumer = Consumer(rebalance("assign", 0, 1), message(0, 0), message(1, 4))
    member_commits = []

    def end(member):
        member.commit()
        member.commit()
        member.positions[1] = 6
        member.commit()
        member_commits.extend(call[1] for call in consumer.calls if call[0] == "commit")

    play(consumer, end)
    assert member_commits == [{0: 1, 1: 5}, {1: 6}]


def test_a_partition_that_is_taken_is_committed_first_and_then_forgotten():
    consumer = Consumer(rebalance("assign", 0, 1), message(0, 3), message(1, 5), rebalance("revoke", 0))
    told = play(consumer, lambda member: member.commit())
    assert [each for each in consumer.calls if each[0] in {"commit", "unassign"}] == [
        ("commit", {0: 4}), ("unassign", 0), ("commit", {1: 6}),
    ]  # fmt: skip
    assert next(each for each in told if isinstance(each, Taken)).in_order is True


def test_a_partition_that_was_lost_is_not_committed():
    consumer = Consumer(rebalance("assign", 0), message(0, 3), rebalance("lost", 0))
    told = play(consumer, lambda member: member.commit())
    assert [each for each in consumer.calls if each[0] == "commit"] == []
    assert told[-1].in_order is False


@pytest.mark.parametrize("refusal", ["raised", "answered"])
def test_a_commit_that_was_refused_is_told_and_tried_again(refusal):
    consumer = Consumer(rebalance("assign", 0), message(0, 3))
    error = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)

    def end(member):
        consumer.refuse = KafkaException(error) if refusal == "raised" else error
        member.commit()
        consumer.refuse = None
        member.commit()

    told = play(consumer, end)
    assert isinstance(told[-2], NotCommitted)
    assert "rebalance" in told[-2].why.lower()
    assert told[-1].offsets == ((0, 4),)


def test_an_error_that_will_not_heal_ends_the_member_and_it_leaves():
    refused = KafkaError(KafkaError.INVALID_SESSION_TIMEOUT)
    consumer = Consumer(message(0, 0, error=refused))
    with pytest.raises(YakError) as caught:
        play(consumer)
    assert "INVALID_SESSION_TIMEOUT" in caught.value.why
    assert consumer.calls[-1] == ("close",)


def test_an_error_that_heals_is_passed_over():
    consumer = Consumer(rebalance("assign", 0), message(0, 0, error=KafkaError(KafkaError._TRANSPORT)), message(0, 0))
    assert [type(each) for each in play(consumer)] == [Given, Read]


def test_commits_are_explicit_and_a_rebalance_leaves_alone_what_stays():
    config = consumer_config(SETTINGS)
    assert config["enable.auto.commit"] is False
    assert config["partition.assignment.strategy"] == "cooperative-sticky"
    assert (config["session.timeout.ms"], config["client.id"], config["group.id"]) == (6000, "member-1", "g")
    assert config["heartbeat.interval.ms"] * 5 <= 1500
