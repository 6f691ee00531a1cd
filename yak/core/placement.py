"""Map a coordinated key, such as a group id, to its partition, whose leader is the key's coordinator."""

from __future__ import annotations

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
_REMEMBERED_CHARS_MAX = 128


def partition_of(key: str, partitions: int) -> int:
    """Java's `String.hashCode` without its sign, modulo the partitions (Kafka's GroupCoordinatorService.partitionFor).

    Kafka's tools therefore find a key's records in the partition that they expect.
    """
    return (_remembered(key) if len(key) <= _REMEMBERED_CHARS_MAX else _hash(key)) % partitions


def _hash(key: str) -> int:
    units = key.encode("utf-16-be", "surrogatepass")
    number = 0
    for index in range(0, len(units), 2):
        number = (number * 31 + (units[index] << 8 | units[index + 1])) & _MASK
    if number & _SIGN:
        number = -(number - _SIGN - _SIGN)
        if number == _SIGN:
            number = 0
    return number


_remembered = lru_cache(maxsize=1024)(_hash)
"""Each request of a group or transaction has the same few keys."""
