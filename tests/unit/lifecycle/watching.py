"""A failure watch over a fake broker, whose `now_ms` is its clock."""

from typing import Any

from tests.unit.contexts import StubContext
from yak.lifecycle.failure_watch import FailureWatch


def context_of(broker: Any) -> Any:
    return StubContext(clock=broker, image=broker.image, timers=broker.timers, notice=broker.notice)


def watch_of(broker: Any) -> FailureWatch:
    """A watch that adds the node id and the epoch of each dead broker to `broker.dead`."""
    return FailureWatch(
        context_of(broker),
        broker.node_id,
        broker.peers,
        broker.rng,
        broker.suspected_brokers,
        lambda *who: broker.dead.append(who),
    )
