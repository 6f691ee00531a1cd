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
        self._bits = self._random.getrandbits

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        bits, count = self._bits, limit.bit_length()
        number = bits(count)
        while number >= limit:
            number = bits(count)
        return number

    def secret_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        limit = high - low + 1
        bits, count = self._bits, limit.bit_length()
        number = bits(count)
        while number >= limit:
            number = bits(count)
        return low + number

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 cases."""
        return self.below(100) < percent

    def choice(self, items: Sequence[_T]) -> _T:
        return self._random.choice(items)

    def fork(self, name: str) -> "SeededRandom":
        """A separate random source for one part of the world, so that a change in one part leaves the others alone."""
        return SeededRandom(f"{self._random.getrandbits(64)}:{name}")
