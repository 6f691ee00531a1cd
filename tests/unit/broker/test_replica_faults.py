"""lag_replica and freeze_isr on three simulated brokers."""

import pytest

from tests.cluster_rig import ClusterRig


@pytest.fixture
def rig() -> ClusterRig:
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", min_insync_replicas="1")
    rig.create_topic("other", min_insync_replicas="1")
    return rig


def add(rig, node_id, fault, **fields):
    broker = rig.nodes[node_id - 1].broker
    broker.faults.add({"id": fault, "fault": fault, "topic": "orders", **fields})


def lag(rig, **fields):
    """Have a follower lag in partition 0, and return its node id."""
    slow = rig.followers("orders")[0]
    add(rig, slow, "lag_replica", partition=0, broker=slow, **fields)
    return slow


def clear(rig, node_id):
    broker = rig.nodes[node_id - 1].broker
    assert broker.faults.clear()


def test_lagging_replica_leaves_the_isr_and_comes_back_when_the_rule_is_cleared(rig):
    slow = lag(rig)
    rig.run_for(100)
    pending = rig.begin_produce("orders", [b"a"])
    rig.run_for(1_000)
    assert not pending.is_done, "the lagging member of the ISR has not acknowledged"
    assert rig.produce("other", [b"b"]).error_code == 0, "it lags in the named partition only"
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    rig.run_until(lambda: pending.is_done)
    assert rig.replica(slow, "orders").log_end_offset == 0
    clear(rig, slow)
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(slow, "orders").log_end_offset == 1


def test_lag_of_the_leader_does_nothing_and_has_no_counts(rig):
    leader = rig.leader("orders")
    add(rig, leader, "lag_replica", partition=0, broker=leader)
    assert rig.produce("orders", [b"a"]).error_code == 0
    [rule] = rig.nodes[leader - 1].broker.context.faults.as_json()
    assert not {"calls", "hits"} & set(rule)


def test_replica_that_lags_by_a_time_stays_in_the_isr_and_delays_acks(rig):
    slow = lag(rig, delay_ms=800)
    for number in range(3):
        began_ms = rig.world.now_ms
        assert rig.produce("orders", [b"%d" % number]).error_code == 0
        assert 700 <= rig.world.now_ms - began_ms <= 1_700, (
            "it acknowledges that much later, and a record may come in between"
        )
        assert slow in rig.info("orders").isr
    pending = rig.begin_produce("orders", [b"a"])
    clear(rig, slow)
    began_ms = rig.world.now_ms
    rig.run_until(lambda: pending.is_done)
    assert rig.world.now_ms - began_ms < 500


def test_replica_that_lags_longer_than_the_limit_leaves_the_isr(rig):
    slow = lag(rig, delay_ms=60_000)
    rig.begin_produce("orders", [b"a"])
    rig.run_until(lambda: slow not in rig.info("orders").isr)


def test_replica_that_lags_without_new_records_stays_in_the_isr(rig):
    slow = lag(rig)
    rig.run_for(10_000)
    assert slow in rig.info("orders").isr


def test_frozen_isr_keeps_a_lagging_member_until_the_rule_is_cleared(rig):
    leader = rig.leader("orders")
    add(rig, leader, "freeze_isr")
    slow = lag(rig)
    rig.run_for(100)
    rig.begin_produce("orders", [b"a"])
    rig.run_for(10_000)
    assert len(rig.info("orders").isr) == 3
    clear(rig, leader)
    rig.run_until(lambda: slow not in rig.info("orders").isr)


def test_frozen_isr_does_not_take_back_a_replica_that_caught_up(rig):
    leader, slow = rig.leader("orders"), lag(rig)
    rig.run_for(100)
    rig.begin_produce("orders", [b"a"])
    rig.run_until(lambda: slow not in rig.info("orders").isr)
    add(rig, leader, "freeze_isr", partition=0)
    clear(rig, slow)
    rig.run_for(5_000)
    assert rig.replica(slow, "orders").log_end_offset == 1
    assert slow not in rig.info("orders").isr
    clear(rig, leader)
    rig.run_until(lambda: rig.is_in_sync("orders"))
