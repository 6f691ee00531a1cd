"""Counters and clocks: who is taken for dead, and who for alive again."""

from dataclasses import replace

from yak.cluster.failure_detector import FailureDetector
from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.cluster.settings import ClusterSettings

PATIENCE_MS, GAP_MS = 5_375, 1_000


def brokers(state=BrokerState.ACTIVE, epoch=5):
    return {2: BrokerInfo(2, epoch, "b", (), "h", 1, None, "leader", state)}


def detector():
    return FailureDetector(PATIENCE_MS, GAP_MS)


def watch(it, counters, start_ms=0, state=BrokerState.ACTIVE):
    """Feed one counter every 500 ms; returns the time of the last."""
    now_ms = start_ms
    for number, counter in enumerate(counters):
        now_ms = start_ms + number * 500
        it.observe({2: counter}, brokers(state), now_ms)
    return now_ms


def test_the_patience_leaves_an_interval_and_some_for_late_timers():
    settings = ClusterSettings()
    assert (settings.patience_ms, settings.gap_ms) == (PATIENCE_MS, GAP_MS)
    assert ClusterSettings(session_timeout_ms=600).patience_ms == 500
    assert ClusterSettings(heartbeat_interval_ms=2_000).gap_ms == 4_000


def test_a_counter_that_moves_is_alive_and_one_that_stands_still_is_dead_after_the_patience():
    it = detector()
    now_ms = watch(it, range(30))
    assert it.to_fence(brokers(), now_ms) == []
    now_ms = watch(it, [29] * 10, now_ms + 500)
    assert it.to_fence(brokers(), now_ms) == []
    now_ms = watch(it, [29], now_ms + 500)
    assert [b.node_id for b in it.to_fence(brokers(), now_ms)] == [2]


def test_local_pause_fences_no_broker():
    it = detector()
    now_ms = watch(it, [1] * 11)
    it.observe({2: 1}, brokers(), now_ms + 20_000)
    assert it.to_fence(brokers(), now_ms + 20_000) == []
    it.reset()
    it.observe({2: 1}, brokers(), now_ms + 20_500)
    assert it.to_fence(brokers(), now_ms + 20_500) == []


def test_slow_store_still_lets_the_detector_fence():
    it = detector()
    found = None
    for now_ms in range(0, 30_000, 1_400):
        it.observe({2: 1}, brokers(), now_ms)
        if found is None and it.to_fence(brokers(), now_ms):
            found = now_ms
    assert found is not None
    assert 8_000 < found < 12_000


def test_heartbeat_counter_from_before_the_fencing_does_not_unfence_a_broker():
    it = detector()
    now_ms = watch(it, range(5))
    fenced = brokers(BrokerState.FENCED)
    it.observe({2: 5}, fenced, now_ms + 500)
    it.observe({2: 5}, fenced, now_ms + 1_000)
    assert it.to_unfence(fenced) == []
    it.observe({2: 6}, fenced, now_ms + 1_500)
    assert [b.node_id for b in it.to_unfence(fenced)] == [2]
    assert it.to_unfence(brokers()) == []


def test_new_broker_epoch_restarts_the_timer():
    it = detector()
    now_ms = watch(it, [1] * 12)
    again = brokers(epoch=9)
    it.observe({2: 1}, again, now_ms + 500)
    assert it.to_fence(again, now_ms + 500) == []


def test_broker_fenced_after_it_was_active_is_not_unfenced_before_it_registers_again():
    it = detector()
    fenced = {2: replace(brokers(BrokerState.FENCED)[2], was_active=True)}
    for number in range(5):
        it.observe({2: number}, fenced, number * 500)
    assert it.to_unfence(fenced) == []
    fresh = {2: replace(fenced[2], broker_epoch=9, was_active=False)}
    for number in range(5, 8):
        it.observe({2: number}, fresh, number * 500)
    assert [b.broker_epoch for b in it.to_unfence(fresh)] == [9]
