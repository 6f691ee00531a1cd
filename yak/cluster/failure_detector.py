"""The controller's failure detector: it watches the heartbeat counters on its own clock.

There are no expiring keys, since an outage of the store would expire all of them at once. A local pause restarts all
timers, so an outage or a pause of the controller fences no broker. A store that is always slow only slows the timers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from yak.cluster.image import BrokerInfo
from yak.cluster.pause_detection import PauseDetector
from yak.cluster.records import BrokerState
from yak.ids import BrokerEpoch, NodeId


@dataclass(slots=True)
class _Seen:
    """One broker epoch's counter, the time of its last change, and its value when the broker was first seen FENCED."""

    counter: int
    since_ms: int
    fenced_counter: int | None = None
    has_moved: bool = False


class FailureDetector:
    """Reads the counters at each of the controller's own heartbeats."""

    def __init__(self, patience_ms: int, gap_ms: int) -> None:
        self._patience_ms = patience_ms
        self._gaps = PauseDetector(gap_ms, patience_ms)
        self._seen: dict[tuple[NodeId, BrokerEpoch], _Seen] = {}

    def reset(self) -> None:
        """Start over after an election or an outage of the store."""
        self._seen.clear()
        self._gaps.reset()

    def observe(self, counters: Mapping[NodeId, int], brokers: Mapping[NodeId, BrokerInfo], now_ms: int) -> None:
        """Note the counters read at `now_ms`."""
        paused_ms = self._gaps.paused_ms(now_ms)
        if paused_ms is None:
            self._seen.clear()
            paused_ms = 0
        before, self._seen = self._seen, {}
        for node_id, broker in brokers.items():
            key, counter = (node_id, broker.broker_epoch), counters.get(node_id, 0)
            known = before.get(key)
            seen = self._seen[key] = known or _Seen(counter, now_ms)
            if known is not None:
                seen.since_ms += paused_ms
            if seen.counter != counter:
                seen.counter, seen.since_ms, seen.has_moved = counter, now_ms, True
            if broker.state is not BrokerState.FENCED:
                seen.fenced_counter = None
            elif seen.fenced_counter is None:
                seen.fenced_counter = counter

    def to_unfence(self, brokers: Mapping[NodeId, BrokerInfo]) -> list[BrokerInfo]:
        """FENCED brokers whose counter moved since they were first seen FENCED: earlier counts prove nothing.

        A broker that was unfenced and then fenced comes back under another epoch, as a new member.
        """
        return [
            broker
            for broker in brokers.values()
            if broker.state is BrokerState.FENCED
            and not broker.must_register_again
            and (seen := self._of(broker)) is not None
            and seen.fenced_counter not in (None, seen.counter)
        ]

    def to_fence(self, brokers: Mapping[NodeId, BrokerInfo], now_ms: int) -> list[BrokerInfo]:
        """ACTIVE or STOPPING brokers whose counter did not change for `patience_ms`."""
        return [
            broker
            for broker in brokers.values()
            if broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING)
            and (seen := self._of(broker)) is not None
            and now_ms - seen.since_ms >= self._patience_ms
        ]

    def has_moved(self, broker: BrokerInfo) -> bool:
        """Whether this broker epoch's counter was seen to move, which proves that the broker was alive."""
        seen = self._of(broker)
        return seen is not None and seen.has_moved

    def _of(self, broker: BrokerInfo) -> _Seen | None:
        return self._seen.get((broker.node_id, broker.broker_epoch))
