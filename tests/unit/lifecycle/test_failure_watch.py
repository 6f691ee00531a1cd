"""The watch over a controller whose address takes connections and drops them, as load balancers do for what is gone."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.lifecycle.watching import LEADER, context_of, make_broker, watch_of
from yak.lifecycle.failure_watch import RECONNECT_MS, SUSPECTED_MS_MAX, FailureWatch, SuspectedBrokers


@pytest.fixture
def broker() -> Any:
    return make_broker(LEADER)


def started(broker: Any) -> FailureWatch:
    watch = watch_of(broker)
    watch.on_connected(broker.peers.opened)
    watch.on_proven(broker.peers.opened)
    return watch


def test_failure_watch_two_refused_connects_declare_the_broker_dead(broker):
    watch = started(broker)
    broker.now_ms += RECONNECT_MS
    watch.on_lost(1, "reset", "")
    assert broker.peers.opened == 2
    watch.on_lost(2, "refused", "")
    broker.now_ms += 20
    broker.timers.run_due(broker.now_ms)
    watch.on_lost(3, "refused", "")
    assert broker.dead == [(1, 5)]


def test_failure_watch_dropped_connections_are_retried_with_pauses(broker):
    watch = started(broker)
    began_ms, opened = broker.now_ms, broker.peers.opened
    while broker.now_ms < began_ms + 1_000:
        watch.on_lost(broker.peers.opened, "reset", "")
        assert broker.peers.opened == opened
        broker.now_ms = broker.timers.next_due()
        broker.timers.run_due(broker.now_ms)
        opened = broker.peers.opened
        watch.on_connected(opened)
        watch.on_proven(opened)
    assert opened <= 1 + 1_000 // 20
    assert broker.dead == []


@pytest.mark.parametrize("is_restarted", [True, False])
def test_suspected_broker_is_suspected_for_the_full_time_after_an_earlier_suspicion(broker, is_restarted):
    suspected = SuspectedBrokers[Any](context_of(broker), lambda waiting: None)
    suspected.add(1)
    if is_restarted:
        broker.image.brokers[1] = replace(broker.image.brokers[1], broker_epoch=6)
    else:
        broker.now_ms += SUSPECTED_MS_MAX
    suspected.add(1)
    broker.now_ms += SUSPECTED_MS_MAX - 1
    assert suspected.has(1)
