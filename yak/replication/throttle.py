"""A limit on the bandwidth of replicas that catch up, so that clients keep theirs (KIP-73).

`leader.replication.throttled.rate` and `follower.replication.throttled.rate` are bytes a second. Only replicas outside
of the ISR are throttled, and only those that the topic names in `leader.replication.throttled.replicas` and
`follower.replication.throttled.replicas`: `*`, or `PARTITION:NODE` pairs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from yak.ids import NodeId

UNLIMITED = 2**63 - 1
PAUSE_MS = 20


class Throttle:
    """A leaky bucket that drains at the rate. Replicas wait while it holds more than a tenth of a second's worth."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        """Bytes a second."""
        self._level = 0.0
        self._drained_ms = 0
        self._waiting: OrderedDict[tuple[Any, Any], int] = OrderedDict()

    def took(self, count: int, now_ms: int) -> None:
        """Count bytes that were sent or received."""
        if self.rate < UNLIMITED:
            self._drain(now_ms)
            self._level += count

    def room(self, now_ms: int) -> int:
        """Bytes that one read may take: at most a tenth of a second's worth, at least 1."""
        self._drain(now_ms)
        return max(1, int(self.rate / 10 - self._level))

    def must_wait(self, owner: Any, item: Any, now_ms: int) -> bool:
        """Whether this item must wait now; `take_due` returns it when it may be retried."""
        if self.rate >= UNLIMITED:
            return False
        self._drain(now_ms)
        if self._level <= self.rate / 10:
            return False
        self._waiting.setdefault((owner, item), now_ms + PAUSE_MS)
        return True

    def taken(self, count: int, now_ms: int) -> int:
        """Count received bytes; returns the ms until the bucket is low enough again, 0 when it is."""
        self.took(count, now_ms)
        if self.rate >= UNLIMITED:
            return 0
        self._drain(now_ms)
        return max(0, int((self._level - self.rate / 10) * 1000 / max(1, self.rate)))

    def next_due(self) -> int | None:
        """When `take_due` is due, in ms."""
        return self._waiting[next(iter(self._waiting))] if self._waiting else None

    def take_due(self, now_ms: int) -> list[tuple[Any, Any]]:
        """Remove and return the items that may be retried."""
        due = []
        while self._waiting and self._waiting[next(iter(self._waiting))] <= now_ms:
            due.append(self._waiting.popitem(last=False)[0])
        return due

    def forget(self, owner: Any, item: Any) -> None:
        """Remove an item that waits."""
        self._waiting.pop((owner, item), None)

    def _drain(self, now_ms: int) -> None:
        passed_ms = max(0, now_ms - self._drained_ms)
        self._drained_ms = now_ms
        self._level = max(0.0, self._level - self.rate * passed_ms / 1000)


def is_named(listed: Sequence[str], partition: int, node_id: NodeId) -> bool:
    """Whether a list of throttled replicas names this replica."""
    return bool(listed) and ("*" in listed or f"{partition}:{node_id}" in listed)
