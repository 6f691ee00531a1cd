"""A limit on the bandwidth of replicas that catch up, so that clients keep theirs (KIP-73).

`leader.replication.throttled.rate` and `follower.replication.throttled.rate` are bytes a second. Only replicas outside
of the ISR are throttled, by a broker that the topic names in `leader.replication.throttled.replicas` as the leader, or in
`follower.replication.throttled.replicas` as the follower: `*`, or `PARTITION:NODE` pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from yak.core.context import Context
from yak.ids import NodeId

UNLIMITED = 2**63 - 1


class Throttle:
    """A leaky bucket that drains at the rate. Replicas wait while it holds more than a tenth of a second's worth."""

    def __init__(self, context: Context, node_id: NodeId, config_name: str) -> None:
        self._context, self._node_id, self._config_name = context, node_id, config_name
        self.rate = UNLIMITED
        """Bytes a second."""
        self.update_rate()
        self._level = 0.0
        self._drained_ms = 0

    def update_rate(self) -> None:
        """Apply the rate in force."""
        context = self._context
        rate = context.image.broker_config(self._config_name, self._node_id, context.config.static)
        assert isinstance(rate, int)
        self.rate = rate

    def took(self, count: int) -> int:
        """Count bytes that were sent or received; returns the ms until the bucket is low enough again, 0 when it is."""
        if self.rate >= UNLIMITED:
            return 0
        self._drain()
        self._level += count
        return max(0, int((self._level - self.rate / 10) * 1000 / max(1, self.rate)))

    def room(self) -> int:
        """Bytes that one read may take: at most a tenth of a second's worth, at least 1."""
        self._drain()
        return max(1, int(self.rate / 10 - self._level))

    def is_full(self) -> bool:
        """Whether a read must wait now."""
        self._drain()
        return self._level > self.rate / 10

    def _drain(self) -> None:
        now_ms = self._context.clock.now_ms
        passed_ms, self._drained_ms = max(0, now_ms - self._drained_ms), now_ms
        self._level = max(0.0, self._level - self.rate * passed_ms / 1000)


def is_named(listed: Sequence[str], partition: int, node_id: NodeId) -> bool:
    """Whether a list of throttled replicas names this broker's replica (Kafka's TopicConfigHandler.parseThrottledPartitions)."""
    return bool(listed) and ("*" in listed or f"{partition}:{node_id}" in listed)
