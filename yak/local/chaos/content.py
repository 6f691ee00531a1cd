"""The value of a run's record: a unique number and its checksum."""

import struct
import zlib
from typing import Final

from yak.sim.history_checker.history import UNREADABLE

_HEAD: Final = struct.Struct(">QI")
_WRITER_BITS: Final = 32


def value_of(writer: int, sequence: int) -> int:
    """The unique number of a writer's record."""
    return writer << _WRITER_BITS | sequence


def encode(value: int, size_bytes: int) -> bytes:
    """The record's value: the number, its CRC-32, and zeros up to the size."""
    return _HEAD.pack(value, zlib.crc32(value.to_bytes(8, "big"))).ljust(size_bytes, b"\0")


def decode(content: bytes | None) -> int:
    """The number; UNREADABLE when no client of the run can have written this value."""
    if content is None or len(content) < _HEAD.size or any(content[_HEAD.size :]):
        return UNREADABLE
    value, check = _HEAD.unpack_from(content)
    return int(value) if zlib.crc32(content[:8]) == check else UNREADABLE
