"""Seeded randomness: every choice of a simulated run comes from one number."""

import random
import uuid
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class SeededRandom:
    """A random source that makes the same choices for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311  (a simulation needs reproducible choices, not secrets)

    def uuid4(self) -> uuid.UUID:
        """An id that looks random."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return self._random.randrange(limit)

    def secret_bytes(self, count: int) -> bytes:
        """Bytes that look random."""
        return self._random.randbytes(count)

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return self._random.randint(low, high)

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 cases."""
        return self._random.randrange(100) < percent

    def choice(self, items: Sequence[_T]) -> _T:
        """One of the items."""
        return self._random.choice(items)

    def fork(self, name: str) -> "SeededRandom":
        """A separate random source for one part of the world, so that a change in one part leaves the others alone."""
        return SeededRandom(f"{self._random.getrandbits(64)}:{name}")
