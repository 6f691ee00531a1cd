"""The deadlines of members, which no record has: sessions, revocations, rejoin and sync of classic members.

Each (kind, member) has one deadline and one valid heap entry, which is due at the deadline or before it. An entry that
comes up early moves to its deadline, so extending a deadline, as each heartbeat does, changes no heap.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

_STALE_MAX: Final = 64
"""Entries of moved or removed deadlines that the heap keeps beside as many as there are deadlines."""


class DeadlineAction(IntEnum):
    """What a member must do before its deadline."""

    SESSION = 0
    """Send a heartbeat."""
    REBALANCE = 1
    """Revoke partitions."""
    JOIN = 2
    """Rejoin, as a classic member that got REBALANCE_IN_PROGRESS."""
    SYNC = 3
    """Fetch its assignment, as a classic member that joined."""


@dataclass(slots=True, eq=False)
class Deadlines:
    """All deadlines of one group, in ms of the caller's clock."""

    _due: dict[tuple[DeadlineAction, str], tuple[int, int]] = field(default_factory=dict)
    _heap: list[tuple[int, DeadlineAction, str]] = field(default_factory=list)
    _queued: dict[tuple[DeadlineAction, str], int] = field(default_factory=dict)

    def set(self, what: DeadlineAction, member_id: str, at_ms: int, epoch: int = 0) -> None:
        """Set or move the deadline. `epoch` is the member epoch that it belongs to."""
        key = what, member_id
        self._due[key] = (at_ms, epoch)
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            heapq.heappush(self._heap, (at_ms, what, member_id))
            if len(self._heap) > 2 * len(self._due) + _STALE_MAX:
                # members that left had deadlines of up to 24 days
                self._heap = [(due[0], *known) for known, due in self._due.items()]
                self._queued = {known: due[0] for known, due in self._due.items()}
                heapq.heapify(self._heap)

    def set_once(self, what: DeadlineAction, member_id: str, at_ms: int) -> None:
        """Set the deadline unless there is one."""
        if (what, member_id) not in self._due:
            self.set(what, member_id, at_ms)

    def cancel(self, what: DeadlineAction, member_id: str) -> None:
        """Remove the deadline."""
        self._due.pop((what, member_id), None)

    def forget(self, member_id: str) -> None:
        """Remove all deadlines of a member."""
        for what in DeadlineAction:
            self.cancel(what, member_id)

    def next_ms(self) -> int | None:
        """The next deadline; None when there is none."""
        while self._heap:
            at_ms, what, member_id = self._heap[0]
            key = what, member_id
            due = self._due.get(key)
            if self._queued.get(key) != at_ms:
                heapq.heappop(self._heap)
            elif due is None:
                heapq.heappop(self._heap)
                del self._queued[key]
            elif due[0] > at_ms:
                self._queued[key] = due[0]
                heapq.heapreplace(self._heap, (due[0], what, member_id))
            else:
                return at_ms
        return None

    def over(self, now_ms: int) -> list[tuple[DeadlineAction, str, int]]:
        """The expired deadlines with their epochs. They stay until they are moved or removed."""
        return sorted(
            (what, member_id, epoch) for (what, member_id), (at_ms, epoch) in self._due.items() if at_ms <= now_ms
        )
