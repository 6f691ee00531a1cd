"""A buffered record, and its size in memory.

A hundred thousand records are held as plain tuples, which become objects when they are read. Python's garbage collector
skips tuples of bytes, texts and numbers; walking through objects would stop everything for a tenth of a second.
"""

from dataclasses import dataclass
from sys import intern
from typing import Any, Final, TypeAlias

from yak.client.received import TIMESTAMP_TYPES, Received

OVERHEAD_BYTES: Final = 340
"""Python's memory for a record beside its bytes: the tuple, two `bytes`, three numbers (measured: 325)."""
HEADER_BYTES: Final = 180

Packed: TypeAlias = tuple[
    str, int, int, int, str, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None, int
]
"""Topic, partition, offset, timestamp in ms, its type, key, value, headers, leader epoch, serial."""


@dataclass(slots=True)
class Kept(Received):
    """A record with its `serial`, which orders records by arrival: it only increases and is never reused."""

    serial: int = 0

    @property
    def id(self) -> str:
        """The record's position in the cluster: `orders-0@42`."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def payload_bytes(self) -> int:
        """The size of key, value and headers."""
        size = len(self.key or b"") + len(self.value or b"")
        for name, data in self.headers:
            size += len(name) + len(data or b"")
        return size


def pack(message: Any, serial: int) -> Packed:
    """Pack librdkafka's message, which holds its own copy of everything."""
    kind, timestamp_ms = message.timestamp()
    return (
        intern(message.topic()),
        message.partition(),
        message.offset(),
        timestamp_ms if kind else -1,
        TIMESTAMP_TYPES.get(kind, "NotAvailable"),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        message.leader_epoch(),
        serial,
    )


def packed(record: Kept) -> Packed:
    """Pack a record; the inverse of `unpack`."""
    return (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type,
        record.key,
        record.value,
        tuple(record.headers),
        record.leader_epoch,
        record.serial,
    )


def unpack(of: Packed) -> Kept:
    """The record."""
    topic, partition, offset, timestamp_ms, kind, key, value, headers, epoch, serial = of
    return Kept(topic, partition, offset, timestamp_ms, kind, key, value, list(headers), epoch, serial)


def serial_of(of: Packed) -> int:
    """The record's serial."""
    return of[9]


def held_bytes(of: Packed) -> int:
    """Its approximate size in memory."""
    size = OVERHEAD_BYTES + len(of[5] or b"") + len(of[6] or b"")
    for name, data in of[7]:
        size += HEADER_BYTES + len(name) + len(data or b"")
    return size
