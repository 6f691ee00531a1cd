"""The inbox gives every message once and in order, and its positions never run ahead of what was given."""

from collections import defaultdict

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from messages import message

from yak.client.consumer import Inbox
from yak.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def offsets(taken):
    return [(each.partition, each.offset) for each in taken]


def test_messages_are_given_in_order_and_positions_follow():
    inbox = Inbox()
    for partition, offset in [(0, 5), (1, 0), (0, 6)]:
        inbox.put(message(partition=partition, offset=offset))
    assert inbox.uncommitted() == {}
    assert offsets(inbox.take(2)) == [(0, 5), (1, 0)]
    assert inbox.uncommitted() == {A: 6, B: 1}
    inbox.committed({A: 6})
    assert inbox.uncommitted() == {B: 1}
    assert offsets(inbox.take(9)) == [(0, 6)]
    assert inbox.uncommitted() == {A: 7, B: 1}
    assert inbox.take(9) == []


def test_a_paused_partition_keeps_its_messages_for_later():
    inbox = Inbox()
    for offset in range(3):
        inbox.put(message(partition=0, offset=offset))
        inbox.put(message(partition=1, offset=offset))
    inbox.pause([A])
    assert inbox.has_some()
    assert offsets(inbox.take(2)) == [(1, 0), (1, 1)]
    assert inbox.paused == [A]
    inbox.pause([B])
    assert not inbox.has_some()
    inbox.resume([B])
    inbox.resume([A])
    assert offsets(inbox.take(9)) == [(0, 0), (0, 1), (0, 2), (1, 2)]


def test_a_seek_drops_what_was_fetched_and_is_the_position():
    inbox = Inbox()
    inbox.put(message(partition=0, offset=9))
    inbox.put(message(partition=1, offset=9))
    inbox.seek(A, 4)
    assert inbox.position(A) == 4
    assert inbox.epoch_before(A, 4) is None
    assert offsets(inbox.take(9)) == [(1, 9)]
    assert inbox.uncommitted() == {A: 4, B: 10}


@pytest.mark.parametrize(
    ("position", "log_start", "expected"),
    [(1000, 0, 7), (2, 5, 7), (5, 5, 5), (6, 0, 6)],
    ids=["above", "below", "at-start", "behind-a-marker"],
)
def test_position_outside_the_log_becomes_the_end_that_librdkafka_was_reset_to(position, log_start, expected):
    inbox = Inbox()
    inbox.seek(A, position)
    inbox.reached_end(A, 7, log_start)
    assert inbox.position(A) == expected


def test_position_becomes_that_of_a_record_before_it():
    """librdkafka was reset to it: the topic was created again, or its log truncated."""
    inbox = Inbox()
    inbox.seek(A, 5)
    inbox.put(message(partition=0, offset=0))
    inbox.put(message(partition=0, offset=1))
    assert inbox.uncommitted() == {A: 0}
    assert offsets(inbox.take(1)) == [(0, 0)]
    assert inbox.uncommitted() == {A: 1}


def test_end_of_the_log_behind_buffered_records_moves_no_position():
    inbox = Inbox()
    inbox.seek(A, 1000)
    inbox.put(message(partition=0, offset=6))
    inbox.reached_end(A, 7, 0)
    assert inbox.position(A) == 6
    assert offsets(inbox.take(9)) == [(0, 6)]
    assert inbox.position(A) == 7


def test_end_of_the_log_is_the_position_of_a_partition_without_one_and_is_not_committed():
    inbox = Inbox()
    inbox.reached_end(A, 7, 0)
    assert inbox.position(A) == 7
    assert inbox.uncommitted() == {}
    inbox.forget([A])
    assert inbox.position(A) is None


def test_records_of_a_reassigned_partition_are_neither_returned_nor_committed():
    inbox = Inbox()
    inbox.put(message(partition=0, offset=1))
    inbox.put(message(partition=1, offset=1))
    inbox.take(1)
    inbox.put(message(partition=0, offset=2))
    inbox.pause([A])
    inbox.forget([A])
    assert inbox.uncommitted() == {}
    assert inbox.position(A) is None
    assert inbox.paused == []
    assert offsets(inbox.take(9)) == [(1, 1)]


def test_the_epoch_is_that_of_the_record_before():
    inbox = Inbox()
    inbox.put(message(offset=7, epoch=12))
    inbox.take(1)
    assert inbox.epoch_before(A, 8) == 12
    assert inbox.epoch_before(A, 5) is None


def test_inbox_stored_offset_is_not_stored_again_and_stays_uncommitted():
    inbox = Inbox()
    inbox.put(message(partition=0, offset=1))
    inbox.take(1)
    assert inbox.unstored() == {A: 2}
    inbox.stored({A: 2})
    assert inbox.unstored() == {}
    assert inbox.uncommitted() == {A: 2}


def test_inbox_stored_offset_makes_unknown_what_is_committed():
    inbox = Inbox()
    inbox.put(message(partition=0, offset=1))
    inbox.take(1)
    inbox.committed({A: 2})
    assert (inbox.unstored(), inbox.uncommitted()) == ({}, {})
    inbox.stored({A: 0})
    assert (inbox.unstored(), inbox.uncommitted()) == ({A: 2}, {A: 2})
    assert inbox.superseded({A: 0, B: 3}) == {}
    assert inbox.superseded({A: 2, B: 3}) == {A: 2}


def test_messages_are_drawn_within_bytes_and_a_count_but_never_none():
    inbox = Inbox(lambda record: len(record.raw_value))
    for offset, value in enumerate((b"12345", b"12345k", b"", b"", b"")):
        inbox.put(message(offset=offset, value=value))
    assert offsets(inbox.draw(4, 10)) == [(0, 0)]
    assert offsets(inbox.draw(6, 2)) == [(0, 1), (0, 2)]
    assert (offsets(inbox.draw(0, 10)), inbox.draw(6, 10)) == ([(0, 3), (0, 4)], [])


def test_forgotten_partitions_leave_nothing():
    inbox = Inbox(lambda _: 1)
    inbox.given([message(partition=0, offset=8), message(partition=1, offset=8)])
    inbox.put(message(partition=0, offset=9))
    inbox.forget_all()
    assert (len(inbox), inbox.bytes_held, inbox.uncommitted()) == (0, 0, {})


class AnyUse(RuleBasedStateMachine):
    """Whatever is called in whatever order, as a consumer with two partitions would."""

    def __init__(self):
        super().__init__()
        self.inbox = Inbox(lambda _: 3)
        self.next_fetched = defaultdict(int)
        self.expected = {}
        self.paused = set()
        self.committed = {}

    @rule(partition=st.sampled_from([A, B]), count=st.integers(1, 4))
    def fetch(self, partition, count):
        for _ in range(count):
            self.expected.setdefault(partition, self.next_fetched[partition])
            self.inbox.put(message(partition=partition.partition, offset=self.next_fetched[partition]))
            self.next_fetched[partition] += 1

    @rule(count=st.integers(0, 5))
    def take(self, count):
        taken = self.inbox.take(count)
        assert len(taken) <= count
        for each in taken:
            assert each.topic_partition not in self.paused
            assert each.offset == self.expected[each.topic_partition]
            self.expected[each.topic_partition] += 1

    @rule(count=st.integers(0, 5), is_delivered=st.booleans())
    def draw(self, count, is_delivered):
        if self.paused:
            return  # for callers that pause at librdkafka
        taken = self.inbox.draw(10**6, count)
        if not is_delivered:
            self.inbox.put_back(taken)
            return
        self.inbox.given(taken)
        for each in taken:
            assert each.offset == self.expected[each.topic_partition]
            self.expected[each.topic_partition] += 1

    @rule(partition=st.sampled_from([A, B]), offset=st.integers(0, 50))
    def seek(self, partition, offset):
        self.inbox.seek(partition, offset)
        self.expected[partition] = self.next_fetched[partition] = offset

    @rule(partition=st.sampled_from([A, B]))
    def pause(self, partition):
        self.inbox.pause([partition])
        self.paused.add(partition)

    @rule(partition=st.sampled_from([A, B]))
    def resume(self, partition):
        self.inbox.resume([partition])
        self.paused.discard(partition)

    @rule(partition=st.sampled_from([A, B]))
    def lose_and_get_back(self, partition):
        self.inbox.forget([partition])
        self.paused.discard(partition)
        self.committed.pop(partition, None)
        self.expected.pop(partition, None)

    @rule()
    def commit(self):
        offsets = self.inbox.uncommitted()
        self.inbox.committed(offsets)
        self.committed.update(offsets)
        assert self.inbox.uncommitted() == {}

    @invariant()
    def bytes_are_those_of_the_records(self):
        assert self.inbox.bytes_held == 3 * len(self.inbox)

    @invariant()
    def positions_are_what_was_given(self):
        for partition in (A, B):
            position = self.inbox.position(partition)
            assert position is None or position == self.expected[partition]


TestAnyUse = AnyUse.TestCase
