"""The end of a process inside a disk operation: before one of its writes, in the middle of one, or right after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from yak.seams.dice import Dice

Tear = Callable[[int], int]
"""Of so many bytes that were to be written, how many were."""
_BEFORE_PERCENT: Final = 50
"""How often the last write is not even begun; else it is done, in part or as a whole, and nobody learns of it."""


class ProcessEnded(BaseException):
    """Nothing of the process runs on, so nothing of the broker may catch it."""


class Death(AbstractContextManager["Tear | None"]):
    """Entered for each write; the process ends in the one that comes after `writes_left` others."""

    def __init__(self, dice: Dice, writes_left: int) -> None:
        self._dice = dice
        self._writes_left = writes_left

    def __enter__(self) -> Tear | None:
        """What is left of an append, if this is the last write. Raises ProcessEnded."""
        self._writes_left -= 1
        if self._writes_left >= 0:
            return None
        # of the later ones nothing is done: what cleans up on the way out does not run in a process that is gone
        if self._writes_left < -1 or self._dice.below(100) < _BEFORE_PERCENT:
            raise ProcessEnded
        return lambda size_bytes: self._dice.below(size_bytes + 1)

    def __exit__(self, *_: object) -> None:
        """Raises ProcessEnded, whatever came of the write."""
        if self._writes_left < 0:
            raise ProcessEnded
