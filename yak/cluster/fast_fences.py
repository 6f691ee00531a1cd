"""The boots that this broker had fenced on suspicion, each at most once in a while: a load balancer may refuse connects for ever."""

from yak.ids import BrokerEpoch, NodeId

FENCED_AGAIN_MS = 30_000
"""A boot is fenced on suspicion once in this time. A store that refuses it (TOO_MANY_FENCED) leaves it to the session."""


class FastFences:
    """Remembers the calls that reached the store. One that failed does not count: it is sent again at the next suspicion."""

    def __init__(self) -> None:
        self._until_ms: dict[tuple[NodeId, BrokerEpoch], int] = {}

    def is_recent(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> bool:
        """Whether a call for this boot was sent a moment ago."""
        self._until_ms = {key: until_ms for key, until_ms in self._until_ms.items() if until_ms > now_ms}
        return (node_id, broker_epoch) in self._until_ms

    def begin(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """A call for this boot is sent."""
        self._until_ms[node_id, broker_epoch] = now_ms + FENCED_AGAIN_MS

    def pause(self) -> None:
        """A call failed, or the store is away and no call in flight is answered: none of them counts."""
        self._until_ms.clear()
