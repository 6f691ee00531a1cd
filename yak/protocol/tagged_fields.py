"""The block of tagged fields that ends every flexible structure (KIP-482): found, bounded, skipped.

Kafka ignores unknown tags, so that newer clients keep working. Tags that repeat or descend, or a size beyond the
request, violate the protocol.
"""

from collections.abc import Iterator
from typing import NamedTuple

from yak.errors import ProtocolViolation
from yak.limits import TAGGED_FIELDS_MAX
from yak.ports.disk import Buffer
from yak.protocol.varint import read_uvarint


class TaggedField(NamedTuple):
    """One field: start of its tag, the tag, position of its size, start and end of its value."""

    start: int
    tag: int
    size_start: int
    value_start: int
    value_end: int


def read_tag_count(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """(number of tagged fields, position after it), bounded by the remaining bytes and by TAGGED_FIELDS_MAX."""
    count, position = read_uvarint(data, position)
    if count > TAGGED_FIELDS_MAX or count * 2 > end - position:
        raise ProtocolViolation(f"{count} tagged fields in one structure")
    return count, position


def iterate_tags(data: Buffer, position: int, end: int, count: int) -> Iterator[TaggedField]:
    """Each tagged field, in order. Raises ProtocolViolation on a repeated or descending tag, or a size past the end."""
    last_tag = -1
    for _ in range(count):
        start = position
        tag, position = read_uvarint(data, position)
        if tag <= last_tag:
            raise ProtocolViolation(f"tagged field {tag} follows {last_tag}")
        last_tag = tag
        size_start = position
        size, position = read_uvarint(data, position)
        if size > end - position:
            raise ProtocolViolation(f"tagged field {tag} of {size} bytes with {end - position} left")
        yield TaggedField(start, tag, size_start, position, position + size)
        position += size


def skip_tags(data: Buffer, position: int, end: int) -> int:
    """Position after the block; all of its fields are ignored."""
    count, position = read_tag_count(data, position, end)
    for field in iterate_tags(data, position, end, count):
        position = field.value_end
    return position
