"""Who is alive, as the controller sees it: by changes of the heartbeat counters, timed on its own clock.

There are no expiring keys: after an outage of the store all would be expired at once. A gap in our own view restarts all
timers, so an outage or a pause of ours fences nobody; a store that is slow all the time only makes them run slower.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.cluster.sight_gaps import SightGaps
from yak.ids import BrokerEpoch, NodeId


@dataclass(slots=True)
class _Seen:
    """One boot's counter, since when it stands still for us, and what it was when the broker was first seen FENCED."""

    counter: int
    since_ms: int
    fenced_counter: int | None = None
    has_moved: bool = False


class FailureDetector:
    """Fed with the counters at each of the controller's own heartbeats."""

    def __init__(self, patience_ms: int, gap_ms: int) -> None:
        self._patience_ms = patience_ms
        self._gaps = SightGaps(gap_ms, patience_ms)
        self._seen: dict[tuple[NodeId, BrokerEpoch], _Seen] = {}

    def reset(self) -> None:
        """Start over: we took office, or the store was away."""
        self._seen.clear()
        self._gaps.reset()

    def observe(self, counters: Mapping[NodeId, int], brokers: Mapping[NodeId, BrokerInfo], now_ms: int) -> None:
        """Take the counters read at `now_ms`."""
        uncounted_ms = self._gaps.uncounted_ms(now_ms)
        if uncounted_ms is None:
            self._seen.clear()
            uncounted_ms = 0
        before, self._seen = self._seen, {}
        for node_id, broker in brokers.items():
            key, counter = (node_id, broker.broker_epoch), counters.get(node_id, 0)
            known = before.get(key)
            seen = self._seen[key] = known or _Seen(counter, now_ms)
            if known is not None:
                seen.since_ms += uncounted_ms
            if seen.counter != counter:
                seen.counter, seen.since_ms, seen.has_moved = counter, now_ms, True
            if broker.state is not BrokerState.FENCED:
                seen.fenced_counter = None
            elif seen.fenced_counter is None:
                seen.fenced_counter = counter

    def to_unfence(self, brokers: Mapping[NodeId, BrokerInfo]) -> list[BrokerInfo]:
        """FENCED brokers whose counter moved since they were first seen so: what they counted before proves nothing.

        One that was let in before and then fenced comes back in another epoch, as the new member that it is.
        """
        return [
            broker
            for broker in brokers.values()
            if broker.state is BrokerState.FENCED
            and not broker.must_register_anew
            and (seen := self._of(broker)) is not None
            and seen.fenced_counter not in (None, seen.counter)
        ]

    def to_fence(self, brokers: Mapping[NodeId, BrokerInfo], now_ms: int) -> list[BrokerInfo]:
        """ACTIVE or STOPPING brokers whose counter stood still for `patience_ms`."""
        return [
            broker
            for broker in brokers.values()
            if broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING)
            and (seen := self._of(broker)) is not None
            and now_ms - seen.since_ms >= self._patience_ms
        ]

    def has_moved(self, broker: BrokerInfo) -> bool:
        """Whether this boot was seen to count, so that it was alive in our time."""
        seen = self._of(broker)
        return seen is not None and seen.has_moved

    def _of(self, broker: BrokerInfo) -> _Seen | None:
        return self._seen.get((broker.node_id, broker.broker_epoch))
