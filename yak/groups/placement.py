"""Map a group to its partition of `__consumer_offsets`, whose leader is the group's coordinator."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def partition_of(group_id: str, partitions: int) -> int:
    """Java's `String.hashCode` without its sign, modulo the partitions (Kafka's GroupCoordinatorService.partitionFor).

    Kafka's tools therefore find a group's records in the partition that they expect.
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
