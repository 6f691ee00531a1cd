"""What the broker does at a later time: one queue of timers for all its rooms (Kafka's Timer)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

Action: TypeAlias = Callable[[], None]
_STALE_MAX: Final = 64
"""Entries of moved or disarmed timers that the heap keeps beside as many as there are timers."""


class Timers:
    """Actions by due time. A key has at most one timer; timers of one time run in the order in which they were armed."""

    def __init__(self) -> None:
        self._armed: dict[Hashable, tuple[int, int, Action]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        """(due time, number, key): an entry is stale when its key's timer has another number or none."""
        self._last_number = 0
        self._is_round_over = False

    def arm(self, key: Hashable, due_ms: int, action: Action) -> None:
        """Run `action` at `due_ms`, once. A timer that the key has is moved."""
        present = self._armed.get(key)
        if present is not None and present[0] == due_ms:
            self._armed[key] = (due_ms, present[1], action)
            return
        self._last_number = number = self._last_number + 1
        self._armed[key] = (due_ms, number, action)
        heapq.heappush(self._heap, (due_ms, number, key))
        if len(self._heap) > 2 * len(self._armed) + _STALE_MAX:
            self._heap = [(due, number, key) for key, (due, number, _action) in self._armed.items()]
            heapq.heapify(self._heap)

    def arm_at_the_latest(self, key: Hashable, due_ms: int, action: Action) -> None:
        """As `arm`, unless the key's timer is due earlier."""
        present = self._armed.get(key)
        if present is None or due_ms < present[0]:
            self.arm(key, due_ms, action)

    def disarm(self, key: Hashable) -> None:
        """Remove the key's timer, if it has one."""
        self._armed.pop(key, None)

    def next_due(self) -> int | None:
        """The earliest due time in ms; None while no timer is armed."""
        heap, armed = self._heap, self._armed
        while heap:
            due_ms, number, key = heap[0]
            present = armed.get(key)
            if present is not None and present[1] == number:
                return due_ms
            heapq.heappop(heap)
        return None

    def run_due(self, now_ms: int) -> None:
        """Run the timers that are due, earliest first, until one of them ends the round.

        A timer that one of them arms waits for the next call.
        """
        due = []
        while (due_ms := self.next_due()) is not None and due_ms <= now_ms:
            due.append(heapq.heappop(self._heap))
        self._is_round_over = False
        for index, (_due_ms, number, key) in enumerate(due):
            present = self._armed.get(key)
            if present is not None and present[1] == number:
                del self._armed[key]
                present[2]()
                if self._is_round_over:
                    for entry in due[index + 1 :]:
                        heapq.heappush(self._heap, entry)
                    return

    def end_round(self) -> None:
        """Called by an action that does a slice of long work: the timers behind it run in the next step.

        Otherwise the slices of several rooms that are due at one time make one long step.
        """
        self._is_round_over = True

    def __contains__(self, key: Hashable) -> bool:
        return key in self._armed

    def __len__(self) -> int:
        return len(self._armed)
