"""Records of the compacted topics: their keys, and how a reader identifies a tombstone.

A value itself determines its key, and whether it is sent as a tombstone, so no state is needed. A tombstone carries its
value in a header.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from yak.protocol.record_walk import WalkedRecord
from yak.protocol.record_writer import build_batch

COMPACT = "t-compact"
COMPACT_SHORT = "t-compact-short"
"""With `cleanup.policy=compact,delete`."""
COMPACTED = (COMPACT, COMPACT_SHORT)
KEYS = 5
"""Few keys, so that most records are replaced soon."""
TOMBSTONE_ONE_IN = 4
_NAME = b"value"
_TRANSACTIONAL = 16


def key_of(value: bytes) -> bytes:
    """The key of this value."""
    return b"key %d" % (zlib.crc32(value) % KEYS)


def is_tombstone(value: bytes) -> bool:
    """Whether the value is sent as a tombstone."""
    return (zlib.crc32(value) >> 8) % TOMBSTONE_ONE_IN == 0


def batch_for(
    topic: str,
    values: Sequence[bytes],
    timestamp_ms: int,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """A batch of these values as the topic needs it: with keys for a compacted topic."""
    records: list[tuple[bytes | None, bytes | None]] = [(None, value) for value in values]
    headers = {}
    if topic in COMPACTED:
        records = [(key_of(value), None if is_tombstone(value) else value) for value in values]
        headers = {place: [(_NAME, value)] for place, value in enumerate(values) if is_tombstone(value)}
    return build_batch(
        records,
        timestamp_ms,
        headers=headers,
        attributes=_TRANSACTIONAL if is_transactional else 0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def value_in(record: WalkedRecord) -> bytes:
    """The value of a record, for a tombstone from its header."""
    if record.value is None:
        return dict(record.headers).get(_NAME) or b""
    return record.value
