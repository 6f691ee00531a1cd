"""Finds the next record that matches a filter or is marked. Blocks: call it in a thread."""

import time
from collections.abc import Callable
from typing import Final, Protocol

from yak.tui.messages.kept import Kept

PIECE: Final = 500
BREATH_S: Final = 0.0005


class Places(Protocol):
    """Records by position."""

    def span(self) -> tuple[int, int]:
        """The first position, and the one after the last."""

    def at(self, place: int) -> Kept | None:
        """The record there."""


def find(
    records: Places,
    start: int,
    step: int,
    holds: Callable[[Kept], bool],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Kept | None:
    """The first match after `start` in the direction of `step` (1 or -1), wrapping around; None if there is none."""
    first, end = records.span()
    count = end - first
    for tried in range(1, count + 1):
        if tried % PIECE == 0:
            time.sleep(BREATH_S)
            if is_cancelled():
                return None
        record = records.at(first + (start - first + step * tried) % count)
        if record is not None and holds(record):
            return record
    return None
