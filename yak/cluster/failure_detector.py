"""Who is alive, as the controller sees it: by changes of the heartbeat counters, timed on its own clock.

There are no expiring keys: after an outage of the store all would be expired at once. Every gap in our own view
restarts all timers, so an outage or a pause of ours fences nobody.
"""

from collections.abc import Mapping

from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.ids import BrokerEpoch, NodeId

MAX_GAP_MS = 1_000


class FailureDetector:
    """Fed with the counters at each of the controller's own heartbeats."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._seen: dict[tuple[NodeId, BrokerEpoch], tuple[int, int, bool]] = {}
        """(node id, epoch) -> counter, when it last changed, and whether it changed since we began to look."""
        self._last_ms: int | None = None

    def reset(self) -> None:
        """Start over: we took office, or the store was away."""
        self._seen.clear()
        self._last_ms = None

    def observe(self, counters: Mapping[NodeId, int], brokers: Mapping[NodeId, BrokerInfo], now_ms: int) -> None:
        """Take the counters read at `now_ms`."""
        if self._last_ms is not None and now_ms - self._last_ms > MAX_GAP_MS:
            self._seen.clear()
        self._last_ms = now_ms
        for node_id, broker in brokers.items():
            key = (node_id, broker.broker_epoch)
            counter = counters.get(node_id, 0)
            if key not in self._seen:
                self._seen[key] = (counter, now_ms, False)
            elif self._seen[key][0] != counter:
                self._seen[key] = (counter, now_ms, True)

    def to_unfence(self, brokers: Mapping[NodeId, BrokerInfo]) -> list[BrokerInfo]:
        """FENCED brokers whose counter moved since they were first seen in this boot."""
        return [b for b in brokers.values() if b.state is BrokerState.FENCED and self._record(b)[2]]

    def to_fence(self, brokers: Mapping[NodeId, BrokerInfo], now_ms: int) -> list[BrokerInfo]:
        """ACTIVE or STOPPING brokers whose counter stood still for the session timeout."""
        return [
            broker
            for broker in brokers.values()
            if broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING)
            and now_ms - self._record(broker, now_ms)[1] >= self._session_timeout_ms
        ]

    def _record(self, broker: BrokerInfo, now_ms: int = 0) -> tuple[int, int, bool]:
        return self._seen.get((broker.node_id, broker.broker_epoch), (0, now_ms, False))
