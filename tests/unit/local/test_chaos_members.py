"""A member of a group: what it records and when, and that it commits only what it recorded."""

from types import SimpleNamespace

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.local.chaos.members import COOPERATIVE, Member
from yak.local.demo.group_member import LineRecorder
from yak.local.demo.load import record_id
from yak.sim.history_checker.history import Assign, Outcome, Poll
from yak.sim.history_checker.json_lines import from_line

STOP = object()


class Consumer:
    """Plays a script: each poll takes the next step, which is a record or something to call."""

    def __init__(self, *script):
        self.script = list(script)
        self.calls = []
        self.refuse = None
        self.callbacks = {}
        self.group_offsets = {}

    def __call__(self, config):
        self.config = config
        return self

    def subscribe(self, topics, **callbacks):
        self.callbacks = callbacks

    def consume(self, _count, _timeout):
        step = self.script.pop(0)
        return (step(self) or []) if callable(step) else [step]

    def committed(self, partitions, timeout):
        if self.refuse is not None:
            raise KafkaException(self.refuse)
        offsets = [self.group_offsets.get(each.partition, -1001) for each in partitions]
        return [place(each.partition, offset) for each, offset in zip(partitions, offsets, strict=True)]

    def commit(self, offsets, asynchronous):
        assert not asynchronous
        self.calls.append(("commit", {each.partition: each.offset for each in offsets}))
        if self.refuse is not None:
            raise KafkaException(self.refuse)
        return [place(each.partition, each.offset) for each in offsets]

    def assign(self, partitions):
        self.calls.append(("assign", {each.partition: each.offset for each in partitions}))

    incremental_assign = assign


def place(partition, offset=-1001):
    return SimpleNamespace(topic="t", partition=partition, offset=offset, error=None)


def record(partition, offset, value=b"v"):
    return SimpleNamespace(
        topic=lambda: "t", partition=lambda: partition, offset=lambda: offset, value=lambda: value, error=lambda: None
    )


def rebalance(kind, *partitions):
    return lambda consumer: consumer.callbacks[f"on_{kind}"](consumer, [place(each) for each in partitions])


def refuse(error):
    def step(consumer):
        consumer.refuse = error and KafkaError(error)

    return step


def at_once(*steps):
    return lambda consumer: [step(consumer) for step in steps] and []


@pytest.fixture
def play(monkeypatch):
    """What a member that polls through a script recorded, and what its consumer was called for."""

    def run(*script, config=None, committed=None):
        consumer = Consumer(*script, lambda _consumer: member._stopping.set())
        consumer.group_offsets = committed or {}
        monkeypatch.setattr(confluent_kafka, "Consumer", consumer)
        lines = []
        stdout = SimpleNamespace(write=lines.append, flush=lambda: consumer.calls.append("recorded"))
        member = Member("m", "h:1", ["t"], "g", LineRecorder(stdout), commit_seconds=-1.0, config=config)
        member._run()
        return [from_line(line.decode()) for line in lines], [call for call in consumer.calls if call != "recorded"]

    return run


def kinds(events):
    """The events in words."""
    steps = []
    for each in events:
        if isinstance(each, Assign):
            steps.append("revoked" if each.dropped else "assigned")
        else:
            steps.append("read" if isinstance(each, Poll) else f"commit {each.outcome}")
    return steps


def commits(calls):
    return [call[1] for call in calls if call[0] == "commit"]


def test_record_is_reported_before_it_is_committed(play):
    events, calls = play(rebalance("assign", 2), record(2, 7, b'{"sample": 5}'), committed={2: 7})
    assert kinds(events) == ["assigned", "read", "commit ok"]
    assert events[0].starts == {"t-2": 7}
    (found,) = events[1].runs
    assert (found.partition, list(found.offsets), list(found.values)) == ("t-2", [7], [record_id(b'{"sample": 5}')])
    assert events[2].offsets == {"t-2": 8}
    assert events[2].invoked <= events[2].ended
    assert calls == [("assign", {2: 7}), ("commit", {2: 8})]


def test_partition_is_read_from_the_groups_offset_if_fetching_that_offset_fails(play):
    """librdkafka's assignment has the offset of the last assign, which is older than the group's."""

    def assign_again(consumer):
        consumer.callbacks["on_assign"](consumer, [place(2, offset=35_078)])

    events, calls = play(at_once(refuse(KafkaError._TIMED_OUT), assign_again))
    assert events[0].starts == {"t-2": None}
    assert calls == [("assign", {2: confluent_kafka.OFFSET_STORED})]


def test_partition_without_a_commit_starts_where_the_client_says(play):
    events, calls = play(rebalance("assign", 0))
    assert events[0].starts == {"t-0": -1}
    assert calls == [("assign", {0: confluent_kafka.OFFSET_STORED})]


def test_member_commits_only_new_offsets(play):
    _, calls = play(rebalance("assign", 0, 1), record(0, 0), record(1, 4), record(1, 5))
    assert commits(calls) == [{0: 1}, {1: 5}, {1: 6}]


def test_revoked_partition_is_committed_first_and_lost_one_is_not(play):
    refused = refuse(KafkaError.REBALANCE_IN_PROGRESS)
    events, calls = play(
        rebalance("assign", 0, 1), refused, record(0, 3), at_once(refuse(None), rebalance("revoke", 0)),
        refused, record(1, 5), at_once(refuse(None), rebalance("lost", 1)),
    )  # fmt: skip
    assert commits(calls) == [{0: 4}, {0: 4}, {1: 6}]
    assert kinds(events) == [
        "assigned", "read", "commit info", "commit ok", "revoked", "read", "commit info", "revoked",
    ]  # fmt: skip


def test_refused_commit_is_of_unknown_outcome_and_tried_again(play):
    refused = refuse(KafkaError.REBALANCE_IN_PROGRESS)
    events, _ = play(rebalance("assign", 0), refused, record(0, 3), refuse(None))
    found = [(each.outcome, each.offsets) for each in events if kinds([each])[0].startswith("commit")]
    assert found == [(Outcome.INFO, {"t-0": 4}), (Outcome.OK, {"t-0": 4})]


def test_member_commits_explicitly(play, monkeypatch):
    consumer = Consumer()
    monkeypatch.setattr(confluent_kafka, "Consumer", consumer)
    Member("m", "h:1", ["t"], "g", LineRecorder(None), config={"partition.assignment.strategy": COOPERATIVE})
    assert consumer.config["enable.auto.commit"] is False
    assert consumer.config["partition.assignment.strategy"] == "cooperative-sticky"
    assert (consumer.config["client.id"], consumer.config["group.id"]) == ("m", "g")
