"""The partition of a key, the same for every producer.

MurmurHash2 by Austin Appleby (public domain), 32 bits, in the form of Kafka's `Utils.murmur2` (its seed, little-endian
words). Java's `BuiltInPartitioner.partitionForKey` and librdkafka's `murmur2_random` use it.
"""

import struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash, from 0 to 2**32 - 1; Java shows the same bits as a signed number."""
    size = len(data)
    found = _SEED ^ size
    for word in struct.unpack_from(f"<{size >> 2}I", data):
        mixed = word * _M & _MASK
        mixed = (mixed ^ mixed >> 24) * _M & _MASK
        found = (found * _M & _MASK) ^ mixed
    rest = data[size & ~3 :]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * _M & _MASK
    found = (found ^ found >> 13) * _M & _MASK
    return found ^ found >> 15


def partition_for_key(key: bytes, partitions_count: int) -> int:
    """The partition of a key in a topic of this many partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions_count
