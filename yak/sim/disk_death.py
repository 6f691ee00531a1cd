"""The end of a process inside a disk operation: before, during or right after one of its writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from yak.ports.random_source import RandomSource

Tear = Callable[[int], int]
"""Of so many bytes to write, how many were written."""
_BEFORE_PERCENT: Final = 50
"""How often the last write does not even begin; otherwise it completes in part or as a whole, unknown to anyone."""


class ProcessEnded(BaseException):
    """The process is gone, so no handler in the broker may catch this."""


class Death(AbstractContextManager["Tear | None"]):
    """Entered for each write; the process ends in the write after `writes_left` others."""

    def __init__(self, rng: RandomSource, writes_left: int) -> None:
        self._rng = rng
        self._writes_left = writes_left

    def __enter__(self) -> Tear | None:
        """The size of the torn append, if this is the last write. Raises ProcessEnded."""
        self._writes_left -= 1
        if self._writes_left >= 0:
            return None
        # later writes do not happen: a process that is gone runs no cleanup
        if self._writes_left < -1 or self._rng.below(100) < _BEFORE_PERCENT:
            raise ProcessEnded
        return lambda size_bytes: self._rng.below(size_bytes + 1)

    def __exit__(self, *_: object) -> None:
        """Raises ProcessEnded, whatever the outcome of the write."""
        if self._writes_left < 0:
            raise ProcessEnded


class _Gone(AbstractContextManager["Tear | None"]):
    def __enter__(self) -> Tear | None:
        raise ProcessEnded

    def __exit__(self, *_: object) -> None:
        """Never entered."""


GONE: Final = _Gone()
"""Entered for each write of a process that has ended: a cleanup in a thread of it must not happen."""
