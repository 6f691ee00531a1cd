"""Limits fencing on suspicion to once per broker epoch and interval: a load balancer may refuse connects for ever."""

from yak.ids import BrokerEpoch, NodeId

FENCED_AGAIN_MS = 30_000
"""The interval. If the store refuses (TOO_MANY_FENCED), the session timeout decides."""


class FastFences:
    """Remembers the calls that reached the store. A failed call does not count: the next suspicion sends it again."""

    def __init__(self) -> None:
        self._until_ms: dict[tuple[NodeId, BrokerEpoch], int] = {}

    def is_recent(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> bool:
        """Whether a call for this broker epoch was sent within the interval."""
        self._until_ms = {key: until_ms for key, until_ms in self._until_ms.items() if until_ms > now_ms}
        return (node_id, broker_epoch) in self._until_ms

    def begin(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """Record a call for this broker epoch."""
        self._until_ms[node_id, broker_epoch] = now_ms + FENCED_AGAIN_MS

    def pause(self) -> None:
        """Forget all calls: one failed, or the store is unreachable and answers none."""
        self._until_ms.clear()
