"""The newest offset of each key in the part of a log that was not compacted yet, within bounded memory.

Kafka's SkimpyOffsetMap.java keeps MD5 sums of the keys; whoever finds two keys of one sum could there have a stranger's
record dropped. Here short keys are kept themselves, and of long ones a sum of 33 bytes, which no short key can be.
"""

import hashlib

from yak.ids import Offset

ENTRY_BYTES = 200
"""Memory of one key, at most: a bytes object, an integer, and their share of the table, also while it grows."""
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
        """The last offset whose record was looked at; of later ones the map knows nothing."""

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: Offset) -> bool:
        """Remember a later offset of a key; False when the map is full and the key is not in it."""
        short = key if len(key) <= _KEY_BYTES_MAX else _sum(key)
        offsets = self._offsets
        if len(offsets) >= self._keys_max and short not in offsets:
            return False
        offsets[short] = offset
        return True

    def get(self, key: bytes) -> Offset:
        """The newest offset of a key; -1 when it was not seen."""
        return self._offsets.get(key if len(key) <= _KEY_BYTES_MAX else _sum(key), NO_OFFSET)
