"""The `.snapshot` file: producers as of an offset, byte for byte Kafka's version 1 (ProducerSnapshot.json).

i16 version, u32 CRC-32C of everything after it, i32 count, then 58 bytes per producer. It holds only the last batch of
each producer.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import crc32c

_VERSION = 1
_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
CRC_END = _HEADER.size


class ProducerSnapshotEntry(NamedTuple):
    """One producer. `timestamp` in ms; `current_txn_first_offset` is -1 when no transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class BadSnapshot(ValueError):
    """The file is torn, of another version, or its CRC does not match."""


def format_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    """The file's content."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c.crc32c(body)) + body


def parse_snapshot(data: bytes) -> Iterator[ProducerSnapshotEntry]:
    """The entries in a file's content. Raises BadSnapshot."""
    if len(data) < CRC_END + _COUNT.size:
        raise BadSnapshot(f"only {len(data)} bytes")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise BadSnapshot(f"version {version} is unknown")
    if crc32c.crc32c(data[CRC_END:]) != crc:
        raise BadSnapshot("the CRC-32C does not fit")
    (count,) = _COUNT.unpack_from(data, CRC_END)
    body = data[CRC_END + _COUNT.size :]
    if count < 0 or len(body) != count * _ENTRY.size:
        raise BadSnapshot(f"{count} entries announced in {len(body)} bytes")
    return map(ProducerSnapshotEntry._make, _ENTRY.iter_unpack(body))
