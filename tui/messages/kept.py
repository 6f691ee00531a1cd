"""A record that is kept to be looked at, and what it weighs.

A hundred thousand are held as plain tuples, and become objects when they are looked at: what holds only bytes, texts and numbers is passed over by
Python's garbage collector, which would else stop everything for a tenth of a second to walk through them.
"""

from dataclasses import dataclass
from sys import intern
from typing import Any, Final, TypeAlias

from yak.client.received import TIMESTAMP_TYPES, Received

OVERHEAD_BYTES: Final = 340
"""What Python needs for a record beside its bytes: the tuple, two `bytes`, three numbers, its place (measured: 325)."""
HEADER_BYTES: Final = 180

Packed: TypeAlias = tuple[
    str, int, int, int, str, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None, int
]
"""Topic, partition, offset, timestamp in ms, its type, key, value, headers, leader epoch, serial."""


@dataclass(slots=True)
class Kept(Received):
    """A record with its place in the order in which all records came: `serial` only grows, and is never given twice."""

    serial: int = 0

    @property
    def id(self) -> str:
        """Where it is in the cluster: `orders-0@42`."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def payload_bytes(self) -> int:
        """Bytes of key, value and headers."""
        size = len(self.key or b"") + len(self.value or b"")
        for name, data in self.headers:
            size += len(name) + len(data or b"")
        return size


def pack(message: Any, serial: int) -> Packed:
    """From librdkafka's message, which holds its own copy of everything."""
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
    """What `unpack` makes this record of."""
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
    """Its place in the order of all."""
    return of[9]


def held_bytes(of: Packed) -> int:
    """About how much memory it takes."""
    size = OVERHEAD_BYTES + len(of[5] or b"") + len(of[6] or b"")
    for name, data in of[7]:
        size += HEADER_BYTES + len(name) + len(data or b"")
    return size
