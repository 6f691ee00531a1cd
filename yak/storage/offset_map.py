"""The newest offset of each key in the dirty part of a log, within bounded memory.

Kafka's SkimpyOffsetMap.java holds MD5 sums of the keys, so a client with two colliding keys could have another client's
record dropped. This map holds short keys themselves, and a 33-byte hash of long ones, which equals no short key.
"""

import hashlib

from yak.ids import Offset

ENTRY_BYTES = 200
"""Memory of one key, at most: a bytes object, an integer, and their share of the table, also while the table grows."""
_KEY_BYTES_MAX = 32
_SUM_BYTES = _KEY_BYTES_MAX + 1
NO_OFFSET = -1


def _sum(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_SUM_BYTES).digest()


class OffsetMap:
    """Keys to offsets; takes at most `limit_bytes` of memory, and always one key."""

    __slots__ = ("_keys_max", "_offsets", "latest_offset")

    def __init__(self, limit_bytes: int) -> None:
        self._offsets: dict[bytes, Offset] = {}
        self._keys_max = max(1, limit_bytes // ENTRY_BYTES)
        self.latest_offset: Offset = NO_OFFSET
        """The last offset in the map's range; the map knows nothing of later records."""

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: Offset) -> bool:
        """Store a later offset of a key; False when the map is full and the key is new."""
        short = key if len(key) <= _KEY_BYTES_MAX else _sum(key)
        offsets = self._offsets
        if len(offsets) >= self._keys_max and short not in offsets:
            return False
        offsets[short] = offset
        return True

    def get(self, key: bytes) -> Offset:
        """The newest offset of a key; -1 when the map does not contain it."""
        return self._offsets.get(key if len(key) <= _KEY_BYTES_MAX else _sum(key), NO_OFFSET)
