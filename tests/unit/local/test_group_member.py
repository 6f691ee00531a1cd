"""A member of the demo's group: what it tells and when, and that it commits only what it told."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.errors import YakError
from yak.local.demo.group_member import GroupMember, MemberSettings, consumer_config
from yak.local.demo.sources import record_id
from yak.sim.history_checker.history import Assign, Commit, Outcome, Poll

SETTINGS = MemberSettings("127.0.0.1:1", "g", "t", "member-1", 6000)


class Consumer:
    """Plays a script: each poll takes the next step, which is a message or something to call."""

    def __init__(self, *script):
        self.script = list(script)
        self.calls = []
        self.sent = []
        self.refuse = None
        self.callbacks = {}

    def __call__(self, config):
        self.config = config
        return self

    def subscribe(self, topics, **callbacks):
        self.calls.append(("subscribe", *topics))
        self.callbacks = callbacks

    def poll(self, _timeout):
        step = self.script.pop(0)
        return step(self) if callable(step) else step

    def commit(self, offsets, asynchronous):
        self.calls.append(
            ("commit" if asynchronous else "commit and wait", {each.partition: each.offset for each in offsets})
        )
        answer = [SimpleNamespace(partition=each.partition, offset=each.offset, error=None) for each in offsets]
        if asynchronous:
            self.sent.append(answer)
            return None
        if self.refuse is not None:
            raise KafkaException(self.refuse)
        return answer

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


def answer(error=None, of_each=None):
    def step(consumer):
        partitions = consumer.sent.pop(0)
        for each in partitions:
            each.error = of_each
        consumer.config["on_commit"](error, partitions)

    return step


def play(*script):
    """What a member told that polls through a script, and what its consumer was called for."""
    consumer = Consumer(*script)
    told = []
    member = GroupMember(SETTINGS, consumer, lambda event: (told.append(event), consumer.calls.append("told")))
    consumer.script = [(lambda _consumer: member.commit()) if step == "commit" else step for step in consumer.script]
    member.run(lambda: not consumer.script)
    return told, consumer.calls


def kinds(told):
    """The events in words."""
    words = []
    for each in told:
        if isinstance(each, Assign):
            words.append("revoked" if each.dropped else "assigned")
        else:
            words.append("read" if isinstance(each, Poll) else f"commit {each.outcome}")
    return words


def commits(calls):
    return [call for call in calls if call[0] in {"commit", "commit and wait"}]


def test_each_record_is_told_before_it_can_be_committed():
    told, calls = play(rebalance("assign", 2), message(2, 7, b'{"sample": 5}'), None, "commit", answer())
    assert kinds(told) == ["assigned", "read", "commit ok"]
    (found,) = told[1].runs
    assert (found.partition, list(found.offsets), list(found.values)) == ("t-2", [7], [record_id(b'{"sample": 5}')])
    assert told[2].offsets == {"t-2": 8}
    assert told[2].invoked <= told[2].ended
    assert calls == [
        ("subscribe", "t"), "told", ("assign", 2), "told", ("commit", {2: 8}), "told", ("close",),
    ]  # fmt: skip


def test_only_what_is_new_is_committed():
    _, calls = play(
        rebalance("assign", 0, 1), message(0, 0), message(1, 4), "commit", answer(), "commit", message(1, 5), "commit"
    )
    assert commits(calls) == [("commit", {0: 1, 1: 5}), ("commit", {1: 6})]


def test_one_commit_is_on_its_way_at_a_time_and_reading_goes_on():
    told, calls = play(
        rebalance("assign", 0), message(0, 0), "commit", message(0, 1), "commit", answer(), "commit", answer()
    )
    assert commits(calls) == [("commit", {0: 1}), ("commit", {0: 2})]
    assert kinds(told) == ["assigned", "read", "read", "commit ok", "commit ok"]


def test_a_partition_that_is_taken_is_committed_first_and_then_forgotten():
    told, calls = play(rebalance("assign", 0, 1), message(0, 3), message(1, 5), rebalance("revoke", 0), "commit")
    assert [each for each in calls if each[0] in {"commit", "commit and wait", "unassign"}] == [
        ("commit and wait", {0: 4}), ("unassign", 0), ("commit", {1: 6}),
    ]  # fmt: skip
    assert kinds(told)[-2:] == ["commit ok", "revoked"]
    assert told[-1].dropped == ("t-0",)


def test_a_commit_that_is_answered_after_its_partition_was_taken_is_told_and_changes_nothing():
    told, calls = play(
        rebalance("assign", 0), message(0, 3), "commit", rebalance("lost", 0), answer(),
        rebalance("assign", 0), message(0, 3), "commit",
    )  # fmt: skip
    assert [each.offsets for each in told if isinstance(each, Commit)] == [{"t-0": 4}]
    assert commits(calls) == [("commit", {0: 4}), ("commit", {0: 4})]


def test_a_partition_that_was_lost_is_not_committed():
    told, calls = play(rebalance("assign", 0), message(0, 3), rebalance("lost", 0), "commit")
    assert commits(calls) == []
    assert kinds(told) == ["assigned", "read", "revoked"]


@pytest.mark.parametrize("how", ["error", "of_each"])
def test_a_commit_that_was_refused_is_told_and_tried_again(how):
    refusal = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
    told, calls = play(rebalance("assign", 0), message(0, 3), "commit", answer(**{how: refusal}), "commit", answer())
    assert (told[-2].outcome, told[-2].offsets) == (Outcome.INFO, {"t-0": 4})
    assert (told[-1].outcome, told[-1].offsets) == (Outcome.OK, {"t-0": 4})
    assert commits(calls) == [("commit", {0: 4}), ("commit", {0: 4})]


def test_a_last_commit_that_is_refused_does_not_keep_the_partition():
    def refuse(consumer):
        consumer.refuse = KafkaError(KafkaError.ILLEGAL_GENERATION)

    told, calls = play(rebalance("assign", 0), message(0, 3), refuse, rebalance("revoke", 0))
    assert kinds(told)[-2:] == ["commit info", "revoked"]
    assert calls[-2:] == [("unassign", 0), ("close",)]


def test_an_error_that_will_not_heal_ends_the_member_and_it_leaves():
    consumer = Consumer(message(0, 0, error=KafkaError(KafkaError.INVALID_SESSION_TIMEOUT)))
    with pytest.raises(YakError) as caught:
        GroupMember(SETTINGS, consumer, lambda event: None).run(lambda: False)
    assert "INVALID_SESSION_TIMEOUT" in caught.value.why
    assert consumer.calls[-1] == ("close",)


def test_an_error_that_heals_is_passed_over():
    told, _ = play(rebalance("assign", 0), message(0, 0, error=KafkaError(KafkaError._TRANSPORT)), message(0, 0))
    assert kinds(told) == ["assigned", "read"]


def test_commits_are_explicit_and_a_rebalance_leaves_alone_what_stays():
    config = consumer_config(SETTINGS)
    assert config["enable.auto.commit"] is False
    assert config["partition.assignment.strategy"] == "cooperative-sticky"
    assert (config["session.timeout.ms"], config["client.id"], config["group.id"]) == (6000, "member-1", "g")
    assert config["heartbeat.interval.ms"] * 5 <= 1500  # the shortest session that can be asked for
