"""Which partition of `__consumer_offsets` has a group: that partition's leader is the group's coordinator."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def partition_of(group_id: str, partitions: int) -> int:
    """Java's `String.hashCode` without its sign, modulo the number of partitions (Kafka's GroupCoordinatorService.partitionFor).

    The same as Kafka's, so that its tools find a group's records where they look for them.
    """
    units = group_id.encode("utf-16-be", "surrogatepass")
    number = 0
    for index in range(0, len(units), 2):
        number = (number * 31 + (units[index] << 8 | units[index + 1])) & _MASK
    if number & _SIGN:
        number = -(number - _SIGN - _SIGN)
        if number == _SIGN:
            number = 0
    return number % partitions
