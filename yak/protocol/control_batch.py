"""The batch that ends a transaction in one partition (Kafka's EndTransactionMarker.java and ControlRecordType.java).

It has one record. The key is i16 version 0 and i16 type (0 abort, 1 commit), the value i16 version 0 and i32 the epoch of
the transaction coordinator that wrote it. The batch carries the producer's id and epoch, and no sequence.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from yak.errors import ProtocolViolation
from yak.protocol.record_batch import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, Buffer
from yak.protocol.record_walk import walk_records
from yak.protocol.record_writer import build_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_USUAL: Final = struct.Struct(">5sxxhcxxix")
"""The record as every broker writes it: the lengths of record and key, the key, the value's length, and the value."""
_USUAL_LENGTHS: Final = b"\x20\0\0\0\x08", b"\x0c"
_VERSION: Final = 0
_ABORT, _COMMIT = 0, 1


class EndTransactionMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that said so."""

    is_commit: bool
    coordinator_epoch: int


def build_marker(producer_id: int, producer_epoch: int, marker: EndTransactionMarker, timestamp_ms: int) -> bytes:
    """The control batch of a marker, with base offset 0."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    record = (key, _VALUE.pack(_VERSION, marker.coordinator_epoch))
    return build_batch(
        [record],
        timestamp_ms,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_marker(batch: Buffer) -> EndTransactionMarker | None:
    """The marker in a control batch; None for other control records, and for a batch that compaction emptied.

    Raises ProtocolViolation when the record cannot be read.
    """
    if len(batch) == HEADER_BYTES + _USUAL.size:
        lengths, kind, value_length, coordinator_epoch = _USUAL.unpack_from(batch, HEADER_BYTES)
        if (lengths, value_length) == _USUAL_LENGTHS and kind in (_ABORT, _COMMIT):
            return EndTransactionMarker(kind == _COMMIT, coordinator_epoch)
    for record in walk_records(batch):
        if record.key is None or record.value is None or len(record.key) < _KEY.size:
            raise ProtocolViolation("a control record without a key and a value")
        _version, kind = _KEY.unpack_from(record.key)
        if kind not in (_ABORT, _COMMIT):
            return None
        if len(record.value) < _VALUE.size:
            raise ProtocolViolation(f"a transaction marker with a value of {len(record.value)} bytes")
        return EndTransactionMarker(kind == _COMMIT, _VALUE.unpack_from(record.value)[1])
    return None
