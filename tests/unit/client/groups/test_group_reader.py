"""A member's reading and committing, with a consumer that does what the test says instead of librdkafka's."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Wire

from tests.messages import kafka_message
from yak.client.consume import Window
from yak.client.groups import group_reader
from yak.client.groups.group_reader import CommitEvery, GroupReader
from yak.errors import YakError
from yak.ids import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
EOF = KafkaError._PARTITION_EOF
AT_THE_END = CommitEvery()


def message(offset, partition=0, *, error=None, time=1000):
    """A record of `orders`, or an event when `error` is a code."""
    value = str(offset).encode()
    return kafka_message("orders", partition, offset, error=error, timestamp=(1, time), value=value)


class FakeConsumer:
    """Plays `script`: each poll takes the next thing, a list of messages or a function to call with this consumer."""

    def __init__(self, config):
        self.config = config
        self.script = []
        self.stored = {}
        self.commit_errors = []
        self.assigned = self.paused = None
        self.events = []

    def subscribe(self, topics, on_assign, on_revoke, on_lost):
        self.topics, self.on_assign, self.on_revoke, self.on_lost = topics, on_assign, on_revoke, on_lost

    def poll(self, _timeout):
        self.rest = []
        if not self.script:
            return None
        found = self.script.pop(0)
        if callable(found):
            found(self)
            return None
        first, *self.rest = found
        return first

    def consume(self, _count, _timeout):
        return self.rest

    def committed(self, wires, timeout):
        answers = []
        for each in wires:
            offset = self.stored.get((each.topic, each.partition), -1001)
            answers.append(Wire(each.topic, each.partition, offset))
        return answers

    def assign(self, wires):
        self.assigned = {(each.topic, each.partition): each.offset for each in wires}

    def pause(self, wires):
        self.events.append(("pause", [each.partition for each in wires]))

    def resume(self, wires):
        """Nothing was paused before it was assigned."""

    marks = (0, 100)

    def get_watermark_offsets(self, _wire, cached):
        assert cached
        return self.marks

    def commit(self, offsets, asynchronous):
        assert asynchronous is False
        if self.commit_errors:
            code = self.commit_errors.pop(0)
            if code is not None:
                raise KafkaException(KafkaError(code))
        self.stored |= {(each.topic, each.partition): each.offset for each in offsets}
        self.events.append(("commit", {each.partition: each.offset for each in offsets}))
        return offsets

    def close(self):
        revoke(self)
        self.events.append(("close",))


def assign(*partitions):
    return lambda consumer: consumer.on_assign(consumer, [Wire(*each) for each in partitions])


def revoke(consumer):
    consumer.on_revoke(consumer, [Wire(*each) for each in consumer.assigned or ()])


class Bench:
    """A reader on a fake consumer, and what it printed."""

    def __init__(self, script, *, windows=None, every=AT_THE_END, stored=None, marks=(0, 100), timeout_s=0.05, **more):
        self.reported, self.warned, self.printed = [], [], []
        self.reader = GroupReader(
            "nowhere:1",
            "audit",
            ["orders"],
            windows or {ZERO: Window(0, None), ONE: Window(0, None)},
            marks=lambda partitions: dict.fromkeys(partitions, marks),
            flush=lambda: self.consumer.events.append(("flush", len(self.printed))),
            every=every,
            on_start=self.reported.append,
            warn=self.warned.append,
            timeout_s=timeout_s,
            **more,
        )
        self.consumer = self.reader._handle.consumer
        self.consumer.script = list(script)
        self.consumer.stored = dict(stored or {})

    def run(self, *, most=None):
        """Print what comes until the script is over, or there are `most`."""

        def more():
            return bool(self.consumer.script) and (most is None or len(self.printed) < most)

        for record in self.reader.records(more=more):
            if record is not None:
                self.printed.append((record.partition, record.offset))
        return self.printed

    @property
    def commits(self):
        return [event[1] for event in self.consumer.events if event[0] == "commit"]


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr("confluent_kafka.Consumer", FakeConsumer)
    monkeypatch.setattr(group_reader, "POLL_S", 0.001)


def test_records_are_flushed_before_their_offsets_are_committed():
    bench = Bench([assign(ZERO), [message(0), message(1), message(2)], [message(3)]], every=CommitEvery(records=2))
    bench.run()
    bench.reader.finish()
    events = bench.consumer.events
    for index, event in enumerate(events):
        if event[0] == "commit":
            assert events[index - 1][0] == "flush"
            assert event[1][0] <= events[index - 1][1]
    assert bench.commits[-1] == {0: 4}


def test_record_counts_as_processed_when_the_next_one_is_requested():
    bench = Bench([assign(ZERO), [message(0), message(1)]], every=CommitEvery(records=1))
    records = bench.reader.records()
    while next(records) is None:
        pass
    assert bench.commits == []
    next(records)
    assert bench.commits == [{0: 1}]


def test_only_so_many_as_were_taken_are_committed_at_the_end():
    bench = Bench([assign(ZERO), [message(n) for n in range(9)], [message(9)]])
    assert len(bench.run(most=3)) == 3
    bench.reader.finish()
    assert bench.commits == [{0: 3}]


def test_record_not_finished_by_a_reader_that_stopped_early_is_not_committed():
    bench = Bench([assign(ZERO), [message(0)]])
    bench.run()
    bench.reader.close()
    assert bench.commits == []
    assert bench.consumer.events[-1] == ("close",)


def test_without_commits_nothing_is_committed_whatever_happens():
    bench = Bench([assign(ZERO), [message(0)], revoke, assign(ZERO), [message(0), message(1)]], every=None)
    assert bench.run() == [(0, 0), (0, 1)], "it goes on from where it was"
    bench.reader.finish()
    bench.reader.close()
    assert bench.commits == []


def test_committed_offsets_win_and_others_begin_where_the_window_does():
    windows = {ZERO: Window(40, None), ONE: Window(40, None)}
    bench = Bench([assign(ZERO, ONE)], windows=windows, stored={("orders", 0): 7})
    bench.run()
    assert bench.consumer.assigned == {("orders", 0): 7, ("orders", 1): 40}
    assert [(each.partition, each.committed) for each in bench.reported[0]] == [(ZERO, 7), (ONE, None)]


def test_a_group_that_began_at_the_end_remembers_it_without_a_record():
    bench = Bench([assign(ZERO)], windows={ZERO: Window(40, None)})
    bench.run()
    bench.reader.finish()
    assert bench.commits == [{0: 40}]


def test_partitions_that_are_taken_away_are_committed_first_and_their_records_dropped():
    def revoke_and_assign_other(consumer):
        revoke(consumer)
        assign(ONE)(consumer)
        consumer.script.insert(0, [message(1), message(0, 1)])

    bench = Bench([assign(ZERO), [message(0)], revoke_and_assign_other, [message(1, 1)]])
    assert bench.run() == [(0, 0), (1, 0), (1, 1)]
    assert bench.commits == [{0: 1}]


def test_a_record_that_comes_again_after_an_assignment_is_given_once():
    bench = Bench([assign(ZERO), [message(0), message(1)], revoke, assign(ZERO), [message(1), message(2)]])
    assert bench.run() == [(0, 0), (0, 1), (0, 2)]


def test_records_of_a_lost_assignment_are_not_committed_and_a_warning_is_given():
    def lose(consumer):
        consumer.on_lost(consumer, [Wire(*ZERO)])

    bench = Bench([assign(ZERO), [message(0)], lose, revoke])
    bench.run()
    assert bench.commits == []
    assert "will be read again" in bench.warned[0]


def test_gaps_at_the_end_are_committed_too():
    bench = Bench([assign(ZERO), [message(0), message(5, error=EOF)], [message(6)]], windows={ZERO: Window(0, 5)})
    assert bench.run() == [(0, 0)]
    bench.reader.finish()
    assert bench.commits[-1] == {0: 5}
    assert ("pause", [0]) in bench.consumer.events


def test_reading_ends_when_each_partition_is_at_its_stop():
    endless = [[message(n)] for n in range(3, 50)]
    bench = Bench(
        [assign(ZERO, ONE), [message(0), message(1), message(2)], [message(0, 1)], *endless],
        windows={ZERO: Window(0, 2), ONE: Window(0, 1)},
    )
    assert bench.run() == [(0, 0), (0, 1), (1, 0)]
    assert bench.consumer.script == endless


def test_a_member_that_is_given_nothing_ends_only_where_there_is_an_end():
    assert Bench([assign(), [message(0)]], windows={ZERO: Window(0, 2)}).run() == []
    waiting = Bench([assign(), assign(ZERO), [message(0)]])
    assert waiting.run() == [(0, 0)]


def test_partition_that_others_read_to_the_stop_offset_is_not_read_again():
    bench = Bench([assign(ZERO), [message(0)]], windows={ZERO: Window(0, 2)}, stored={("orders", 0): 2})
    assert bench.run() == []
    assert bench.consumer.assigned == {}


def test_a_record_after_the_time_to_stop_is_neither_read_nor_committed():
    bench = Bench([assign(ZERO), [message(0), message(1, time=5000), message(2)], [message(3)]], until_ms=5000)
    assert bench.run() == [(0, 0)]
    bench.reader.finish()
    assert bench.commits == [{0: 1}]


def test_end_of_the_log_behind_the_stop_commits_no_record_that_was_not_read():
    timed = Bench([assign(ZERO), [message(0), message(1, time=5000), message(2, error=EOF)], []], until_ms=5000)
    compacted = Bench([assign(ZERO), [message(0), message(2), message(3, error=EOF)], []], windows={ZERO: Window(0, 2)})
    for bench, expected in ((timed, 1), (compacted, 2)):
        assert bench.run() == [(0, 0)]
        bench.reader.finish()
        assert bench.commits == [{0: expected}]


def test_records_of_a_topic_that_was_created_again_are_read_from_its_start():
    """librdkafka was reset to the start of a log that is shorter than what was read."""
    bench = Bench([assign(ZERO), [message(0), message(1), message(2)], [message(0), message(1)], [message(2)]])
    bench.consumer.marks = (0, 2)
    assert bench.run() == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1), (0, 2)]
    assert bench.warned == ["orders-0 ends at offset 2 now, before the next record of the group: reading from 0"]
    bench.reader.finish()
    assert bench.commits == [{0: 3}]


def test_end_of_a_topic_that_was_created_again_is_committed_in_place_of_the_earlier_offset():
    bench = Bench([assign(ZERO), [message(0), message(1), message(2)], [message(0, error=EOF)], []])
    bench.consumer.script[-1] = lambda _consumer: None
    bench.run()
    bench.reader.finish()
    assert bench.commits == [{0: 0}]


def test_stops_that_are_known_later_end_the_member_at_these_offsets():
    bench = Bench([])

    def stop(consumer):
        assert sorted(bench.reader.followed) == [ZERO, ONE]
        bench.reader.stop_at({ZERO: 1, ONE: 2})

    bench.consumer.script = [
        assign(ZERO, ONE), [message(0)], stop, [message(0, 1), message(1)], [message(1, 1), message(2, 1)],
    ]  # fmt: skip
    assert bench.run() == [(0, 0), (1, 0), (1, 1)]
    bench.reader.finish()
    assert bench.consumer.stored == {("orders", 0): 1, ("orders", 1): 2}


def test_a_new_partition_is_read_from_its_beginning():
    bench = Bench([assign(ONE), [message(0, 1)]], windows={ZERO: Window(40, None)}, marks=(0, 1))
    assert bench.run() == [(1, 0)]


def test_a_commit_that_fails_for_now_is_tried_again_until_it_is_done():
    bench = Bench([assign(ZERO), [message(0)]], timeout_s=30.0)
    bench.run()
    bench.consumer.commit_errors = [KafkaError.NOT_COORDINATOR, KafkaError._WAIT_COORD, None]
    bench.reader.finish()
    assert bench.commits == [{0: 1}]


def test_a_commit_that_never_succeeds_is_an_error_that_says_what_comes_again():
    bench = Bench([assign(ZERO), [message(0)]])
    bench.run()
    bench.consumer.commit_errors = [KafkaError.NOT_COORDINATOR] * 1000
    with pytest.raises(YakError) as caught:
        bench.reader.finish()
    assert caught.value.code == "not-committed"
    assert "orders-0 will give some records again" in caught.value.why


def test_a_commit_that_is_refused_for_good_ends_the_reading():
    bench = Bench([assign(ZERO), [message(0)], [message(1)]], every=CommitEvery(records=1))
    bench.consumer.commit_errors = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(YakError):
        bench.run()


def test_commit_that_fails_while_partitions_are_revoked_is_reported():
    bench = Bench([assign(ZERO), [message(0)], revoke, [message(1)]])
    bench.consumer.commit_errors = [KafkaError.ILLEGAL_GENERATION]
    bench.run()
    assert "will be read again" in bench.warned[0]


def test_an_error_inside_a_callback_comes_out_of_the_loop():
    bench = Bench([assign(ZERO), [message(0)]])

    def broken(_started):
        raise BrokenPipeError

    bench.reader._flush = broken
    bench.reader._marks = broken
    with pytest.raises(BrokenPipeError):
        bench.run()
    bench.reader.close()


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        (KafkaError._MAX_POLL_EXCEEDED, False),
        (KafkaError._ALL_BROKERS_DOWN, False),
        (KafkaError._RESOLVE, False),
        (KafkaError.NOT_COORDINATOR, False),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, True),
        (KafkaError.GROUP_MAX_SIZE_REACHED, True),
    ],
)
def test_only_errors_that_do_not_pass_end_the_reading(code, ends):
    bench = Bench([assign(ZERO), [message(-1, error=code)], [message(0)]])
    if ends:
        with pytest.raises(YakError):
            bench.run()
    else:
        assert bench.run() == [(0, 0)]


# -- in batches, for who looks at few of many -----------------------------------------------------------------------------


class BatchConsumer(FakeConsumer):
    """Plays its script by `consume` alone."""

    def consume(self, count, _timeout):
        if not self.script:
            return []
        found = self.script.pop(0)
        if callable(found):
            found(self)
            return []
        assert len(found) <= count
        return found

    def resume(self, wires):
        self.events.append(("resume", [each.partition for each in wires]))

    def get_watermark_offsets(self, wire, cached):
        assert cached
        return (0, 10) if wire.partition == 0 else self.ones_marks

    ones_marks = (0, -1001)


@pytest.fixture
def in_batches(monkeypatch):
    monkeypatch.setattr("confluent_kafka.Consumer", BatchConsumer)


def test_a_batch_counts_as_done_and_is_committed_when_it_is_said(in_batches):
    bench = Bench([assign(ZERO), [message(0), message(1, error=EOF), message(1), message(0)]], every=None)
    assert bench.reader.fetch(10, 0) == []
    assert [each.offset() for each in bench.reader.fetch(10, 0)] == [0, 1]
    assert bench.commits == []
    assert bench.reader.commit_now() == ""
    assert bench.commits == [{0: 2}]


def test_a_batch_has_nothing_of_a_partition_that_was_taken_away(in_batches):
    bench = Bench([assign(ZERO), revoke, [message(0)], assign(ONE), [message(0), message(0, 1)]], every=None)
    batches = [bench.reader.fetch(10, 0) for _ in range(5)]
    assert [[each.partition() for each in batch] for batch in batches] == [[], [], [], [], [1]]
    assert bench.reader.assigned == (ONE,)


def test_a_batch_ends_at_the_time_it_is_to_end_at(in_batches):
    script = [assign(ZERO), [message(0), message(1, time=5000), message(2, time=6000)]]
    bench = Bench(script, every=None, until_ms=5000)
    bench.reader.fetch(10, 0)
    assert [each.offset() for each in bench.reader.fetch(10, 0)] == [0]
    assert ("pause", [0]) in bench.consumer.events


def test_paused_member_stays_paused_after_another_assignment(in_batches):
    bench = Bench([assign(ZERO), assign(ZERO, ONE)], every=None)
    bench.reader.fetch(10, 0)
    bench.reader.pause()
    bench.reader.fetch(10, 0)
    assert bench.consumer.events == [("resume", [0]), ("pause", [0]), ("pause", [0, 1])]
    bench.reader.resume()
    assert bench.consumer.events[-1] == ("resume", [0, 1])


def test_lag_of_a_group_reader_is_known_once_all_partitions_were_fetched(in_batches):
    bench = Bench([assign(ZERO, ONE), [message(0), message(1)]], every=None)
    assert bench.reader.behind() is None
    bench.reader.fetch(10, 0)
    bench.reader.fetch(10, 0)
    assert bench.reader.behind() is None
    bench.consumer.ones_marks = (0, 7)
    assert bench.reader.behind() == 8 + 7
