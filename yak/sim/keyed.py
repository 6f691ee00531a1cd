"""Records of the topic that is compacted: their keys, and how a reader knows a tombstone again.

A value says by itself under which key it is sent and whether as a tombstone, so nobody has to remember it. A tombstone has its
value in a header instead.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from yak.protocol.record_walk import WalkedRecord
from yak.protocol.record_writer import build_batch
from yak.sim.wire import record_batch

COMPACT = "t-compact"
KEYS = 5
"""Few, so that most records are replaced soon."""
TOMBSTONE_ONE_IN = 4
_NAME = b"value"


def key_of(value: bytes) -> bytes:
    """The key that this value is sent under."""
    return b"key %d" % (zlib.crc32(value) % KEYS)


def is_tombstone(value: bytes) -> bool:
    """Whether it is sent as a tombstone."""
    return (zlib.crc32(value) >> 8) % TOMBSTONE_ONE_IN == 0


def batch_for(
    topic: str,
    values: Sequence[bytes],
    timestamp_ms: int,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """A batch of these values as the topic takes them: with keys where it is compacted."""
    if topic != COMPACT:
        return record_batch(values, timestamp_ms, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return build_batch(
        [(key_of(value), None if is_tombstone(value) else value) for value in values],
        timestamp_ms,
        headers={place: [(_NAME, value)] for place, value in enumerate(values) if is_tombstone(value)},
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def value_in(record: WalkedRecord) -> bytes:
    """The value that a record stands for."""
    if record.value is None:
        return dict(record.headers).get(_NAME) or b""
    return record.value
