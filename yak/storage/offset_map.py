"""The newest offset of each key in the dirty part of a log, within bounded memory.

Kafka's SkimpyOffsetMap.java holds MD5 sums of the keys, so a client with two colliding keys could have another client's
record dropped. This map holds short keys themselves, and a 33-byte hash of long ones, which equals no short key.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice

from yak.ids import Offset

ENTRY_BYTES = 280
"""Memory of one key, at most: a bytes object, an integer, and their share of table and set, also while these grow."""
_NEWEST_AT_ONCE = 10_000
_KEY_BYTES_MAX = 32
_SUM_BYTES = _KEY_BYTES_MAX + 1
NO_OFFSET = -1


def _sum(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_SUM_BYTES).digest()


class OffsetMap:
    """Keys to offsets; takes at most `limit_bytes` of memory, and always one key."""

    __slots__ = ("_keys_max", "_newest", "_offsets", "latest_offset")

    def __init__(self, limit_bytes: int) -> None:
        self._offsets: dict[bytes, Offset] = {}
        self._newest: set[Offset] = set()
        self._keys_max = max(1, limit_bytes // ENTRY_BYTES)
        self.latest_offset: Offset = NO_OFFSET
        """The last offset in the map's range; the map knows nothing of later records."""

    def __len__(self) -> int:
        return len(self._offsets)

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[Offset]) -> int:
        """Store later offsets of keys, in order. Returns how many it took: all, unless the map is full at a new key."""
        found = self._offsets
        if keys and len(max(keys, key=len)) > _KEY_BYTES_MAX:
            keys = [key if len(key) <= _KEY_BYTES_MAX else _sum(key) for key in keys]
        if len(found) + len(keys) <= self._keys_max:
            found.update(zip(keys, offsets, strict=True))
            return len(keys)
        for taken, (key, offset) in enumerate(zip(keys, offsets, strict=True)):
            if len(found) >= self._keys_max and key not in found:
                return taken
            found[key] = offset
        return len(keys)

    def get(self, key: bytes) -> Offset:
        """The newest offset of a key; -1 when the map does not contain it."""
        return self._offsets.get(key if len(key) <= _KEY_BYTES_MAX else _sum(key), NO_OFFSET)

    def gather_newest(self) -> Iterator[None]:
        """Prepare `has_newest_in`, some keys at a time, when the map is complete."""
        left = iter(self._offsets.values())
        while some := list(islice(left, _NEWEST_AT_ONCE)):
            self._newest.update(some)
            yield

    def has_newest_in(self, offsets: range) -> bool:
        """Whether one of these offsets is the newest of its key. A batch may have far more records than there are keys."""
        if len(offsets) > len(self._newest):
            return any(offset in offsets for offset in self._newest)
        return not self._newest.isdisjoint(offsets)
