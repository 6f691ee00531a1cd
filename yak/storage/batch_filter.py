"""What compaction keeps of one batch: Kafka's MemoryRecords.filterTo and the rules of its Cleaner.java.

A record stays when no later record has its key. A tombstone gets a delete horizon for its batch at the first compaction
that sees it, and is removed by the first compaction past that horizon (KIP-534). So does the marker of a transaction once no
batch of it is left. Records of an aborted transaction go at once. Offsets stay: the base offset and last
offset delta of a batch never change, and so the producer's sequences do not either.
"""

import struct
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from yak.config.log_config import NEVER
from yak.errors import ProtocolViolation
from yak.ids import Offset, ProducerId
from yak.ports.disk import Buffer
from yak.protocol.compression import compress
from yak.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    compute_crc,
)
from yak.protocol.record_spans import moved_timestamp, spans, timestamp_delta
from yak.protocol.record_walk import decompress
from yak.protocol.varint import int64
from yak.storage.offset_map import OffsetMap
from yak.storage.transaction_filter import TransactionFilter

_EMPTY_BITS = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
"""The attributes that an emptied batch keeps."""


def readable_records(header: BatchHeader, batch: Buffer) -> bytes:
    """The uncompressed records of a batch whose checksum is right. Raises ProtocolViolation on a wrong encoding."""
    return bytes(decompress(header.codec, memoryview(batch)[HEADER_BYTES:]))


class _Remainder(NamedTuple):
    """The remainder of a batch: its records, their count, and whether a tombstone is among them."""

    records: bytes | bytearray
    records_count: int
    has_tombstones: bool


class DirtyBatches(NamedTuple):
    """The batches whose keys the round has put into its map: those from `first_offset` on, but the unreadable ones."""

    first_offset: Offset
    unreadable_offsets: Collection[Offset]


class BatchFilter:
    """Filters the batches of one round of compaction, and counts.

    Four kinds of batches stay, the first three without records if need be.
    - A replica that copies the log recognises a producer's repeated batches by those of `remembered_offsets` (Kafka keeps
      only the newest of them).
    - A batch that begins at one of `epoch_starts` shows replicas where a leader epoch begins, and so where logs diverge.
    - The batch that ends at `end_offset` ends its segment: without it a start could not distinguish a compaction gap from
      crash loss. (Kafka keeps only the last batch of a round.)
    - A marker in the epoch that `marker_epochs` has for its producer is all that shows this epoch (Kafka's Cleaner,
      `lastRecordsOfActiveProducers`).
    """

    def __init__(
        self,
        offsets: OffsetMap,
        remembered_offsets: Collection[Offset],
        now_ms: int,
        delete_retention_ms: int,
        epoch_starts: Collection[Offset] = (),
        transactions: TransactionFilter | None = None,
        dirty: DirtyBatches | None = None,
        marker_epochs: Mapping[ProducerId, int] = MappingProxyType({}),
    ) -> None:
        self._offsets = offsets
        self._marker_epochs = marker_epochs
        self._dirty = dirty
        self._remembered_offsets = remembered_offsets
        self._epoch_starts = epoch_starts
        self._transactions = transactions or TransactionFilter(())
        self.keeps_aborted = False
        """Whether the batch that was filtered last is a marker whose transaction stays in the transaction index."""
        self.end_offset: Offset = -1
        self._now_ms = now_ms
        self._new_horizon_ms = min(now_ms + delete_retention_ms, NEVER)  # a header has 64 bits for it
        self.dropped_records = 0
        self.unreadable_batches = 0
        """Batches that stay unchanged, because their appended bytes cannot be decoded into records."""

    def filter(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """The batch or its remainder; the same object when nothing changes, None when nothing remains."""
        self.keeps_aborted = False
        if header.is_control:
            return self._filter_marker(header, batch)
        self._transactions.saw_records(header)
        if header.base_offset > self._offsets.latest_offset:
            return batch
        if header.records_count and (self._transactions.is_aborted(header) or self._is_outdated(header)):
            self.dropped_records += header.records_count
            return _emptied(header) if self._must_stay(header) else None
        if not header.records_count:
            return batch if self._must_stay(header) else None
        try:
            left = self._left(header, readable_records(header, batch))
        except ProtocolViolation:
            self.unreadable_batches += 1
            return batch
        self.dropped_records += header.records_count - left.records_count
        if not left.records_count:
            return _emptied(header) if self._must_stay(header) else None
        needs_horizon = left.has_tombstones and header.delete_horizon_ms is None
        if left.records_count == header.records_count and not needs_horizon:
            return batch
        return _rebuilt(header, left, self._new_horizon_ms if needs_horizon else None)

    def _filter_marker(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        has_batches = self._transactions.saw_marker(header)
        if has_batches or header.base_offset > self._offsets.latest_offset:
            self.keeps_aborted = True
            return batch
        if not header.records_count:
            return batch if self._must_stay(header) else None
        if header.delete_horizon_ms is None:
            records = readable_records(header, batch)
            return _rebuilt(
                header, _Remainder(records, header.records_count, has_tombstones=False), self._new_horizon_ms
            )
        is_past = self._now_ms >= header.delete_horizon_ms
        return None if is_past and not self._must_stay(header) else batch

    def _left(self, header: BatchHeader, records: bytes) -> _Remainder:
        base_offset = header.base_offset
        latest_offset, newest = self._offsets.latest_offset, self._offsets.get
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        left: bytearray | None = None
        count, has_tombstones = 0, False
        for start, stop, offset_delta, key, has_value in spans(records, header.records_count, header.last_offset_delta):
            offset = base_offset + offset_delta
            if offset > latest_offset or (
                key is not None and offset >= newest(key) and (has_value or keeps_tombstones)
            ):
                count += 1
                if not has_value:
                    has_tombstones = True
                if left is not None:
                    left += records[start:stop]
            elif left is None:
                left = bytearray(records[:start])
        return _Remainder(records if left is None else left, count, has_tombstones)

    def _is_outdated(self, header: BatchHeader) -> bool:
        """Whether each record of a dirty batch has a newer one. False also when only its records can show it."""
        dirty, offsets = self._dirty, self._offsets
        return (
            dirty is not None
            and dirty.first_offset <= header.base_offset
            and header.last_offset <= offsets.latest_offset
            and header.last_offset_delta < 2 * header.records_count
            and header.base_offset not in dirty.unreadable_offsets
            and not offsets.has_newest_in(range(header.base_offset, header.next_offset))
        )

    def _must_stay(self, header: BatchHeader) -> bool:
        return (
            header.next_offset == self.end_offset
            or header.base_offset in self._epoch_starts
            or header.last_offset in self._remembered_offsets
            or (header.is_control and self._marker_epochs.get(header.producer_id) == header.producer_epoch)
        )


def _emptied(header: BatchHeader) -> bytes:
    """The batch without its records (DefaultRecordBatch.writeEmptyHeader)."""
    return _sealed(
        header._replace(attributes=header.attributes & _EMPTY_BITS, base_timestamp=NO_TIMESTAMP, records_count=0), b""
    )


def _rebuilt(header: BatchHeader, left: _Remainder, horizon_ms: int | None) -> bytes:
    """The batch with these records only, in its codec; `horizon_ms`, if any, becomes its base timestamp."""
    attributes, max_timestamp = header.attributes, header.max_timestamp
    records = bytes(left.records)
    retained = list(spans(records, left.records_count, header.last_offset_delta))
    if not attributes & TIMESTAMP_TYPE_BIT:
        # a producer writes any delta, and retention by time must not wait for one that its header did not have
        newest = max(int64(header.base_timestamp + timestamp_delta(records, span)) for span in retained)
        max_timestamp = min(max_timestamp, newest)
    if horizon_ms is not None:
        by_ms = header.base_timestamp - horizon_ms
        records = b"".join([moved_timestamp(records, span, by_ms) for span in retained])
        attributes |= DELETE_HORIZON_BIT
        header = header._replace(base_timestamp=horizon_ms)
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp, records_count=left.records_count)
    return _sealed(changed, compress(attributes & COMPRESSION_MASK, records))


def _sealed(header: BatchHeader, records: bytes) -> bytes:
    """Header and records as one batch, with the right length and CRC."""
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(batch, 0, *header._replace(batch_length=HEADER_BYTES + len(records) - LENGTH_OVERHEAD))
    batch += records
    struct.pack_into(">I", batch, CRC_START - 4, compute_crc(batch))
    return bytes(batch)
