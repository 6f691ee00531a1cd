"""Variable-length integers, seven bits a byte, low bits first: unsigned in messages (KIP-482), signed in records."""

from yak.errors import ProtocolViolation
from yak.ports.disk import Buffer

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UVARINT_MAX = 2**32 - 1
"""Lengths and counts are 32-bit numbers plus one; five bytes could hold more, which is refused."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it). Raises ProtocolViolation when the integer is too long or incomplete."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise ProtocolViolation("a variable-length integer of more than five bytes")
    except IndexError:
        raise ProtocolViolation("the message ends inside a variable-length integer") from None
    if value > UVARINT_MAX:
        raise ProtocolViolation("a variable-length integer over 32 bits")
    return value, position


def append_uvarint(out: bytearray, value: int) -> None:
    """Append `value` (not negative) to `out`."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint(value: int) -> bytes:
    """`value` (not negative) as bytes."""
    out = bytearray()
    append_uvarint(out, value)
    return bytes(out)


def read_zigzag(data: Buffer, position: int) -> tuple[int, int]:
    """(signed value, position after it), as in records: zigzag, up to ten bytes. Raises ProtocolViolation."""
    try:
        byte = data[position]
        position += 1
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position
        value, shift = byte & 0x7F, 7
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), position
            shift += 7
            if shift > 63:
                raise ProtocolViolation("a varint of more than ten bytes")
    except IndexError:
        raise ProtocolViolation("the batch ends inside a varint") from None


def int64(value: int) -> int:
    """A sum in 64 bits, as Java's long wraps around: the delta of a record may be any number of a varint."""
    if INT64_MIN <= value <= INT64_MAX:
        return value
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def zigzag(value: int) -> bytes:
    """A signed value as a zigzag varint, as in records."""
    return uvarint((value << 1) ^ (value >> 63))
