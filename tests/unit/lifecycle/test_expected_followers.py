"""A leader that expects followers makes replicated topics when they are there, or after a while without them."""

import datetime as dt

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.replicated import join
from yak.lifecycle.expected_followers import ExpectedFollowers

WAIT_MS = 1_500


def expect(rig, *addresses):
    broker = rig.node.broker
    broker.expected_followers = ExpectedFollowers(broker.context, addresses, WAIT_MS)
    rig.ask(18, 0)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    expect(rig, "host-2:9092", "HOST-3:9093")
    return rig


def create(rig, name, *, factor=2, timeout_ms=10_000, assignments=(), client=None):
    topic = {
        "name": name,
        "num_partitions": -1 if assignments else 1,
        "replication_factor": -1 if assignments else factor,
        "assignments": [
            {"partition_index": index, "broker_ids": replicas} for index, replicas in enumerate(assignments)
        ],
    }
    timeout = dt.timedelta(milliseconds=timeout_ms)
    return rig.begin(19, 5, client=client or rig.new_client(), topics=[topic], timeout=timeout)


def answered(rig, pending):
    rig.run_for(100)
    if not pending.is_done:
        return None
    topic = pending.answer.topics[0]
    return topic.error_code, topic.error_message


def said(rig, event):
    return [notice.fields["followers"] for notice in rig.node.notices if notice.event == event]


def test_a_replicated_topic_waits_until_all_are_there(rig):
    pending = create(rig, "orders")
    assert answered(rig, pending) is None
    join(rig, 2)
    assert answered(rig, pending) is None
    join(rig, 3, port=9093)
    assert answered(rig, pending) == (0, None)
    assert len(rig.node.broker.image.topics["orders"].partitions[0].replicas) == 2
    assert said(rig, "expected-followers-registered") == ["host-2:9092, HOST-3:9093"]
    assert answered(rig, create(rig, "more")) == (0, None)


def test_topic_with_one_replica_waits_for_no_follower(rig):
    assert answered(rig, create(rig, "orders", factor=1)) == (0, None)
    assert answered(rig, create(rig, "logs", assignments=[(1,)])) == (0, None)
    assert answered(rig, create(rig, "both", assignments=[(1,), (1, 2)])) is None


def test_creation_after_the_wait_uses_present_followers_and_names_the_missing(rig):
    join(rig, 2)
    enough, too_many = create(rig, "orders"), create(rig, "wide", factor=3)
    assert answered(rig, enough) is None
    rig.run_for(WAIT_MS)
    assert answered(rig, enough) == (0, None)
    code, words = answered(rig, too_many)
    assert code == ErrorCode.invalid_replication_factor
    assert "missing: HOST-3:9093" in words
    assert "host-2" not in words
    assert said(rig, "expected-followers-missing") == ["HOST-3:9093"]
    # from now on nothing waits, and the refusal goes on naming them
    code, words = answered(rig, create(rig, "wide", factor=3))
    assert (code, "HOST-3:9093" in words) == (ErrorCode.invalid_replication_factor, True)


def test_log_names_missing_followers_even_without_a_topic_creation_request(rig):
    rig.run_for(WAIT_MS + 100)
    assert said(rig, "expected-followers-missing") == ["host-2:9092, HOST-3:9093"]


def test_client_with_a_short_timeout_is_answered_to_try_again(rig):
    pending = create(rig, "orders", timeout_ms=500)
    rig.run_for(600)
    code, words = answered(rig, pending)
    assert code == ErrorCode.request_timed_out
    assert "host-2:9092" in words
    assert not rig.node.broker.image.topics


def test_a_client_that_leaves_is_forgotten(rig):
    client = rig.new_client()
    create(rig, "orders", client=client)
    rig.run_for(50)
    client.close()
    rig.run_for(WAIT_MS + 100)
    assert not rig.node.broker.image.topics
    assert not rig.node.broker.expected_followers._waiting


def test_more_partitions_of_a_replicated_topic_wait_too(rig):
    expect(rig)
    join(rig, 2)
    assert answered(rig, create(rig, "orders")) == (0, None)
    expect(rig, "host-2:9092", "host-3:9092")
    grown = rig.begin(37, 2, client=rig.new_client(), topics=[{"name": "orders", "count": 2}])
    rig.run_for(50)
    assert not grown.is_done
    join(rig, 3)
    assert grown.answer.results[0].error_code == 0
    assert len(rig.node.broker.image.topics["orders"].partitions) == 2


def test_a_topic_made_by_being_named_waits_too():
    rig = Rig(settings={"default.replication.factor": "2"})
    expect(rig, "host-2:9092")
    fields = {"topics": [{"name": "orders"}], "allow_auto_topic_creation": True}
    answer = rig.ask(3, 12, **fields)
    assert answer.topics[0].error_code == ErrorCode.unknown_topic_or_partition
    join(rig, 2)
    assert rig.ask(3, 12, **fields).topics[0].error_code == 0


def test_the_names_of_this_machine_are_one():
    rig = Rig()
    expect(rig, "localhost:9092", "[::1]:9093")
    join(rig, 2)
    assert rig.node.broker.expected_followers.missing() == ["localhost:9092", "[::1]:9093"]
    brokers = rig.node.broker.image.brokers
    for node_id, host, port in ((4, "127.0.0.1", 9092), (5, "::1", 9093)):
        info = type(brokers[2])(node_id, 1, "b", (), host, port, None, "follower", brokers[2].state)
        rig.node.broker.context.image = type(rig.node.broker.image)(brokers={**brokers, node_id: info})
        brokers = rig.node.broker.image.brokers
    assert rig.node.broker.expected_followers.missing() == []
