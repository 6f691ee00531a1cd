"""All rules about the sequences of one partition's idempotent producers: duplicates, gaps, deferred sequences.

Rules: Kafka's ProducerStateEntry.java and ProducerAppendInfo.java, with the last five batches of each producer. One
difference: a producer expires by the time when this broker last appended a batch of it, not by its batches' timestamps.
By those, a producer that writes old timestamps would expire at once.

A transaction of a producer is open in this partition from its first transactional batch to its marker. The first unstable
offset is where the oldest one begins that is open, or whose marker is not committed yet (Kafka's ProducerStateManager).

The `.snapshot` file has the last batch of each producer as of an offset, byte for byte Kafka's version 1
(ProducerSnapshot.json): i16 version, u32 CRC-32C of everything after it, i32 count, then 58 bytes per producer.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import crc32c

from yak.errors import ErrorCode, PeerError
from yak.ids import Offset, ProducerId
from yak.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCERS_PER_PARTITION_MAX
from yak.ports.disk import Disk
from yak.protocol.control_batch import EndTransactionMarker
from yak.protocol.record_batch import NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, SEQUENCE_MAX, BatchHeader
from yak.storage.indexes import AbortedTxn
from yak.storage.names import SNAPSHOT_SUFFIX, offset_name
from yak.storage.reader import DamagedBatch, floor_boundary, marked_headers_within, scan_headers
from yak.storage.segment import Segment

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_DROPPED_SHARE = 10
_SAMPLED = 1_000
NO_OFFSET = -1
EPOCH_BUMP_VERSION = 2
"""The transaction version from which on each transaction ends with a higher producer epoch (KIP-890)."""
DEFERRED_PRODUCERS_MAX = 1_000
"""Producers remembered for each partition; beyond it the oldest is dropped."""
DEFERRED_MS = 5_000
"""How long a successor is deferred; clients retry within a second."""
DEFERRED_EXPIRY_MS = 60_000
"""A deferred sequence expires after this time: its client has retried, and the records may have been deleted since."""
_EARLIER_BYTES_MAX = 8 * 1024 * 1024
"""How far before a snapshot to search: the most that a producer of large batches has in flight."""


class Gap(NamedTuple):
    """A missing sequence, and the offset of the record before it."""

    sequence: int
    last_offset: Offset


class Duplicate(NamedTuple):
    """A batch that is in the log already: its offsets, and its largest timestamp in ms."""

    base_offset: Offset
    last_offset: Offset
    timestamp: int


class EarlierUnread(Exception):
    """A sequence does not follow, and the log was not yet searched for earlier batches of the producer."""


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
    """The file is incomplete, of another version, or its CRC does not match."""


class ProducerDescription(NamedTuple):
    """One active producer, as DescribeProducers returns it."""

    producer_id: ProducerId
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: Offset


class CompletedTxn(NamedTuple):
    """A transaction with a marker in the log."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    """The marker's."""
    is_aborted: bool


@dataclass(slots=True, eq=False)
class _Producer:
    epoch: int
    first_seen: Offset
    """Base offset of the producer's first batch; -1 when there may be earlier ones (a snapshot, an older epoch)."""
    touched_ms: int
    batches: list[tuple[int, int, Offset, Offset, int]] = field(default_factory=list)
    """(first sequence, last sequence, base offset, last offset, timestamp) of the last batches of this epoch."""
    coordinator_epoch: int = -1
    marker_timestamp: int = NO_TIMESTAMP
    """Of the marker after the last batch, if there is one."""
    txn_first_offset: Offset = NO_OFFSET

    @property
    def last_timestamp(self) -> int:
        """Of the last batch or marker."""
        if self.marker_timestamp != NO_TIMESTAMP or not self.batches:
            return self.marker_timestamp
        return self.batches[-1][4]


@dataclass(slots=True, eq=False, repr=False)
class ProducerState:
    """Producers by id."""

    limit: int = PRODUCERS_PER_PARTITION_MAX
    _producers: dict[ProducerId, _Producer] = field(default_factory=dict)
    unread_before: Offset | None = None
    """Batches below this offset may count and are not yet searched (`earlier_batches`)."""
    is_reading: bool = False
    """A job is searching them."""
    has_transactions: bool = False
    """Whether there may be transactions in the log, open or ended."""
    _open: dict[ProducerId, Offset] = field(default_factory=dict)
    """The first offset of each open transaction, in ascending order."""
    _uncommitted: list[CompletedTxn] = field(default_factory=list)
    """Ended transactions whose marker may be above the high watermark, in the order of the markers. Mostly empty, and an
    empty deque takes 700 bytes, in each partition."""
    _last_marker_offset: Offset = NO_OFFSET
    """No marker that is reflected here has a higher offset."""

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader, *, begins_at_0: bool = False) -> Duplicate | None:
        """Check a batch before the leader appends it: None to append it, or the earlier copy of the same batch.

        With `begins_at_0` the first sequence of a producer that is new here is 0. A producer with protocol 2 begins each
        transaction with a new epoch (KIP-890, ProducerAppendInfo.checkSequence). After an election the former leader may
        have the first batches. Any other producer may have been forgotten, and begins anywhere (KIP-360).
        Raises PeerError with INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID, and at last with
        INVALID_TXN_STATE for a batch outside of an open transaction (ProducerAppendInfo.appendDataBatch). Raises
        EarlierUnread when only the log can show whether the batch is a retry of an earlier one.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if begins_at_0 and header.base_sequence != 0:
                raise PeerError(
                    ErrorCode.out_of_order_sequence_number,
                    f"producer {header.producer_id} is new here, and starts with sequence {header.base_sequence}, not 0",
                )
            return None
        first_sequence = header.base_sequence
        if header.producer_epoch != producer.epoch or not producer.batches:
            # the batch, or only a marker before it, begins this epoch
            self.check_epoch(header.producer_id, header.producer_epoch)
            if first_sequence != 0:
                raise PeerError(
                    ErrorCode.out_of_order_sequence_number,
                    f"producer {header.producer_id} starts epoch {header.producer_epoch} with sequence {first_sequence}, not 0",
                )
        else:
            last_sequence = header.last_sequence
            for batch in producer.batches:
                if batch[0] == first_sequence and batch[1] == last_sequence:
                    if header.is_transactional and not NO_OFFSET < producer.txn_first_offset <= batch[2]:
                        # librdkafka uses a sequence again after an abort, though the aborted batch may be in the log.
                        # Kafka acknowledges the new one as a duplicate, and its records are lost. On this error
                        # librdkafka aborts, and begins a new epoch.
                        raise PeerError(
                            ErrorCode.unknown_producer_id,
                            f"producer {header.producer_id} used sequence {first_sequence} in an earlier transaction",
                        )
                    return Duplicate(batch[2], batch[3], batch[4])
            expected = (producer.batches[-1][1] + 1) & SEQUENCE_MAX
            if first_sequence != expected:
                if self.unread_before is not None:
                    raise EarlierUnread
                raise PeerError(
                    ErrorCode.out_of_order_sequence_number,
                    f"producer {header.producer_id} sent sequence {first_sequence}, expected {expected}",
                )
        if producer.txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise PeerError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has an open transaction, and this batch is not part of it",
            )
        return None

    def check_epoch(self, producer_id: ProducerId, producer_epoch: int) -> None:
        """Raise PeerError with INVALID_PRODUCER_EPOCH for an older epoch; a coordinator's own batch has no sequence to check."""
        producer = self._producers.get(producer_id)
        if producer is not None and producer_epoch < producer.epoch:
            raise PeerError(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} has epoch {producer_epoch}, the current epoch is {producer.epoch}",
            )

    def has_open_transaction(self, producer_id: ProducerId, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.txn_first_offset != NO_OFFSET and producer.epoch == producer_epoch

    def check_marker(
        self, producer_id: ProducerId, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check a marker before the leader appends it (ProducerAppendInfo.checkProducerEpoch, checkCoordinatorEpoch).

        From transaction version 2 on a marker has a higher epoch than its transaction, except when it is repeated. Raises
        PeerError with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        if producer_id < 0 or producer_epoch < 0:
            raise PeerError(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} with epoch {producer_epoch} has no transactions",
            )
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        bumps = transaction_version >= EPOCH_BUMP_VERSION and producer.txn_first_offset != NO_OFFSET
        if producer_epoch < producer.epoch or (bumps and producer_epoch == producer.epoch):
            raise PeerError(
                ErrorCode.invalid_producer_epoch,
                f"the marker of producer {producer_id} has epoch {producer_epoch}, the current epoch is {producer.epoch}",
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise PeerError(
                ErrorCode.transaction_coordinator_fenced,
                f"the marker of producer {producer_id} has coordinator epoch {coordinator_epoch},"
                f" the current one is {producer.coordinator_epoch}",
            )

    def last_sequence(self, producer_id: ProducerId, epoch: int) -> int:
        """Last sequence of the producer's newest batch in this epoch; -1 when there is none."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch or not producer.batches:
            return NO_SEQUENCE
        return producer.batches[-1][1]

    def gap_before(self, header: BatchHeader) -> Gap | None:
        """The gap between a producer's newest batch in the log and this batch of the same epoch; None without one."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return Gap(0, NO_OFFSET) if header.base_sequence > 0 else None
        if producer.epoch != header.producer_epoch or not producer.batches:
            return None
        _, last, _, last_offset, _ = producer.batches[-1]
        return Gap((last + 1) & SEQUENCE_MAX, last_offset) if _is_before(last, header.base_sequence) else None

    def update(
        self,
        header: BatchHeader,
        base_offset: Offset,
        last_offset: Offset,
        now_ms: int,
        marker: EndTransactionMarker | None = None,
    ) -> CompletedTxn | None:
        """Remember a batch that was appended at these offsets (the header's own base offset is ignored).

        A control batch comes with its marker, if it has a readable one. Returns the transaction that it ends.
        """
        if header.is_control and marker is None:
            return None
        producers = self._producers
        producer = producers.get(header.producer_id)
        if producer is None:
            if len(producers) >= self.limit:
                self._drop_oldest()
            producer = producers[header.producer_id] = _Producer(header.producer_epoch, base_offset, now_ms)
        elif header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
            producer.first_seen = NO_OFFSET
        producer.touched_ms = now_ms
        if marker is not None:
            producer.marker_timestamp = header.max_timestamp
            return self._end_transaction(header.producer_id, producer, marker, last_offset)
        producer.marker_timestamp = NO_TIMESTAMP
        if header.is_transactional:
            self.has_transactions = True
            if producer.txn_first_offset == NO_OFFSET:
                producer.txn_first_offset = self._open[header.producer_id] = base_offset
        if header.base_sequence == NO_SEQUENCE:
            # a coordinator's batch: no producer sends it again
            return None
        batches = producer.batches
        if len(batches) >= PRODUCER_BATCHES_REMEMBERED:
            del batches[0]
        batches.append((header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp))
        return None

    def _end_transaction(
        self, producer_id: ProducerId, producer: _Producer, marker: EndTransactionMarker, offset: Offset
    ) -> CompletedTxn | None:
        self.has_transactions = True
        self._last_marker_offset = offset
        producer.coordinator_epoch = marker.coordinator_epoch
        first_offset, producer.txn_first_offset = producer.txn_first_offset, NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        del self._open[producer_id]
        completed = CompletedTxn(producer_id, first_offset, offset, not marker.is_commit)
        self._uncommitted.append(completed)
        return completed

    def aborted(self, completed: CompletedTxn) -> AbortedTxn:
        """The entry of an aborted transaction in the transaction index, made when its marker was appended."""
        first_open = next(iter(self._open.values()), completed.last_offset + 1)
        return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, first_open)

    @property
    def first_open_offset(self) -> Offset | None:
        """Where the oldest transaction without a marker begins."""
        return next(iter(self._open.values()), None)

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        """Where the oldest transaction begins that is open, or whose marker is at or above the high watermark."""
        self.committed(high_watermark)
        found = self.first_open_offset
        for completed in self._uncommitted:
            if found is None or completed.first_offset < found:
                found = completed.first_offset
        return found

    def oldest_transaction_ms(self) -> int | None:
        """When the oldest open transaction was last written to, or read from disk at a start; None without one."""
        for producer_id in self._open:
            return self._producers[producer_id].touched_ms
        return None

    def committed(self, high_watermark: Offset) -> None:
        """The high watermark moved: markers below it are committed."""
        count = 0
        for completed in self._uncommitted:
            if completed.last_offset >= high_watermark:
                break
            count += 1
        del self._uncommitted[:count]

    def remembered_offsets(self) -> frozenset[Offset]:
        """Last offset of each batch by which a repeated one is recognised."""
        return frozenset(batch[3] for producer in self._producers.values() for batch in producer.batches)

    def marker_epochs(self) -> dict[ProducerId, int]:
        """The epoch of each producer that only a marker began."""
        items = self._producers.items()
        return {producer_id: producer.epoch for producer_id, producer in items if not producer.batches}

    def search_plan(self, segments: Sequence[Segment], before: Offset) -> EarlierSearch:
        """A plan to search the log for batches below `before`; its result goes to `earlier_read`."""
        return EarlierSearch(tuple(segments), before, self._epochs())

    def _epochs(self) -> dict[ProducerId, int]:
        """The epoch of each producer whose earlier batches may count."""
        items = self._producers.items()
        return {producer_id: producer.epoch for producer_id, producer in items if producer.batches}

    def earlier_read(self, headers: Sequence[BatchHeader]) -> None:
        """Add the batches that a search of the log found, newest first; the producers may retry them."""
        self.unread_before = None
        for header in headers:
            self._remember_earlier(header)

    def _remember_earlier(self, header: BatchHeader) -> None:
        """Add a batch older than all known ones of its producer, which may retry it; headers come newest first."""
        producer = self._producers.get(header.producer_id)
        if producer is None or header.producer_epoch != producer.epoch or not producer.batches:
            return
        first = producer.batches[0]
        if header.last_offset >= first[2] or len(producer.batches) >= PRODUCER_BATCHES_REMEMBERED:
            return
        producer.batches.insert(
            0,
            (header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp),
        )

    def truncate_to(self, end_offset: Offset) -> bool:
        """Forget batches at or above `end_offset`; False when the rest cannot be known without reading the log."""
        if self._open or end_offset <= self._last_marker_offset:
            return False
        for producer_id, producer in list(self._producers.items()):
            batches = producer.batches
            if not batches:
                return False
            was_full = len(batches) == PRODUCER_BATCHES_REMEMBERED
            while batches and batches[-1][3] >= end_offset:
                batches.pop()
            if was_full and 0 < len(batches) < PRODUCER_BATCHES_REMEMBERED and producer.first_seen < batches[0][2]:
                # earlier batches count again, in place of those that had displaced them
                self.unread_before = end_offset
            if not batches:
                if producer.first_seen < end_offset:
                    return False
                del self._producers[producer_id]
        return True

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers idle for `producer.id.expiration.ms` and in no transaction; returns how many."""
        producers = self._producers
        old = [
            producer_id
            for producer_id, producer in producers.items()
            if now_ms - producer.touched_ms >= expiration_ms and producer.txn_first_offset == NO_OFFSET
        ]
        for producer_id in old:
            del producers[producer_id]
        return len(old)

    def describe(self) -> Iterator[ProducerDescription]:
        """The producers that there are now, sorted by id. The state may change between two of them: each is described as
        it is then, and a producer that is forgotten meanwhile is left out."""
        for producer_id in sorted(self._producers):
            producer = self._producers.get(producer_id)
            if producer is not None:
                yield ProducerDescription(
                    producer_id,
                    producer.epoch,
                    producer.batches[-1][1] if producer.batches else NO_SEQUENCE,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.txn_first_offset,
                )

    def clear(self) -> None:
        """Forget all producers."""
        self._producers.clear()
        self.unread_before = None
        self._open.clear()
        self._uncommitted.clear()
        self._last_marker_offset = NO_OFFSET

    def _drop_oldest(self) -> None:
        """Forget some producers without an open transaction: of the tenth that was silent longest, as a sample has it.

        To sort all of them takes a tenth of a second.
        """
        producers = self._producers
        step = max(1, len(producers) // _SAMPLED)
        sample = islice(producers.values(), None, None, step)
        silent = sorted(each.touched_ms for each in sample if each.txn_first_offset == NO_OFFSET)
        if not silent:
            return
        count = max(1, len(silent) // _DROPPED_SHARE)
        last_ms = silent[count - 1]
        dropped = (
            producer_id
            for producer_id, each in producers.items()
            if each.touched_ms <= last_ms and each.txn_first_offset == NO_OFFSET
        )
        for producer_id in list(islice(dropped, min(count * step, _SAMPLED))):
            del producers[producer_id]

    # ------------------------------------------------------------------------------------------------ snapshots

    def to_snapshot(self) -> bytes:
        """The content of the `.snapshot` file. No object for each producer: a roll packs up to 100,000 of them in one step."""
        pack, body = _SNAPSHOT_ENTRY.pack, bytearray(_SNAPSHOT_COUNT.pack(len(self._producers)))
        for producer_id, producer in self._producers.items():
            last_sequence, base_offset, last_offset, timestamp = NO_SEQUENCE, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP
            if producer.batches:
                _, last_sequence, base_offset, last_offset, timestamp = producer.batches[-1]
            if producer.marker_timestamp != NO_TIMESTAMP:
                timestamp = producer.marker_timestamp
            body += pack(
                producer_id,
                producer.epoch,
                last_sequence,
                last_offset,
                last_offset - base_offset,
                timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
        return _SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, crc32c.crc32c(body)) + body

    def load_snapshot(self, entries: Iterable[ProducerSnapshotEntry], now_ms: int) -> None:
        """Replace the state by a snapshot's; its producers count as active at `now_ms`.

        The markers before the snapshot count as committed: the coordinator's decision behind them is.
        """
        self.clear()
        for entry in sorted(entries, key=lambda entry: entry.current_txn_first_offset):
            producer = _Producer(entry.producer_epoch, NO_OFFSET, now_ms)
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.txn_first_offset = entry.current_txn_first_offset
            if producer.txn_first_offset != NO_OFFSET:
                self._open[entry.producer_id] = producer.txn_first_offset
            if producer.txn_first_offset != NO_OFFSET or entry.coordinator_epoch >= 0:
                self.has_transactions = True
            if entry.last_sequence >= 0 and entry.last_offset >= 0:
                base_offset = entry.last_offset - entry.offset_delta
                first_sequence = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX
                producer.batches.append(
                    (first_sequence, entry.last_sequence, base_offset, entry.last_offset, entry.timestamp)
                )
            else:
                producer.marker_timestamp = entry.timestamp
            self._producers[entry.producer_id] = producer

    def restore(
        self,
        disk: Disk,
        path: str,
        segments: Sequence[Segment],
        snapshot_offsets: Sequence[Offset],
        end_offset: Offset,
        now_ms: int,
        *,
        reads_earlier: bool = True,
    ) -> None:
        """Restore the state as of `end_offset`: the newest valid snapshot, then the batch headers after it.

        A snapshot holds the last batch of each producer. The earlier ones that still count are read from the log before
        it, or, without `reads_earlier`, only once a producer sends a sequence that does not follow. If a snapshot was
        corrupt, the batches read in its place are checked against their CRC. Raises OSError, DamagedBatch.
        """
        self.clear()
        bad_snapshot = ""
        start = segments[0].base_offset
        for offset in sorted(snapshot_offsets, reverse=True):
            if offset > end_offset:
                continue
            name = f"{offset_name(offset)}{SNAPSHOT_SUFFIX}"
            try:
                entries = list(parse_snapshot(disk.read_file(f"{path}/{name}")))
            except BadSnapshot:
                bad_snapshot = bad_snapshot or name
                continue
            except FileNotFoundError:
                continue
            self.load_snapshot(entries, now_ms)
            if self.has_transactions:
                self._last_marker_offset = offset - 1
            start = max(start, offset)
            if entries and reads_earlier:
                self.earlier_read(list(earlier_batches(segments, start, self._epochs())))
            elif entries:
                self.unread_before = start
            break
        for index, segment in enumerate(segments):
            following = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
            if following <= start or segment.base_offset >= end_offset or not segment.size:
                continue
            try:
                for header, marker in marked_headers_within(segment, start, end_offset, checks=bool(bad_snapshot)):
                    if header.producer_id != NO_PRODUCER_ID and header.base_offset >= start:
                        self.update(header, header.base_offset, header.last_offset, now_ms, marker)
            except DamagedBatch as damaged:
                if not bad_snapshot:
                    raise
                why = f"{damaged.reason}; the segment was replayed because {bad_snapshot} is damaged too"
                raise DamagedBatch(damaged.file, damaged.position, why) from damaged


def parse_snapshot(data: bytes) -> Iterator[ProducerSnapshotEntry]:
    """The entries in a file's content. Raises BadSnapshot."""
    if len(data) < _SNAPSHOT_HEADER.size + _SNAPSHOT_COUNT.size:
        raise BadSnapshot(f"only {len(data)} bytes")
    version, crc = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise BadSnapshot(f"version {version} is unknown")
    if crc32c.crc32c(data[_SNAPSHOT_HEADER.size :]) != crc:
        raise BadSnapshot("the CRC-32C does not match")
    (count,) = _SNAPSHOT_COUNT.unpack_from(data, _SNAPSHOT_HEADER.size)
    body = data[_SNAPSHOT_HEADER.size + _SNAPSHOT_COUNT.size :]
    if count < 0 or len(body) != count * _SNAPSHOT_ENTRY.size:
        raise BadSnapshot(f"the header says {count} entries, the file has {len(body)} bytes for them")
    return map(ProducerSnapshotEntry._make, _SNAPSHOT_ENTRY.iter_unpack(body))


@dataclass(frozen=True, slots=True)
class EarlierSearch:
    """A plan to find the batches that producers of these epochs may still retry.

    It shares the segments with the step, and uses only their files. Batches that retention removes in the meantime are
    not found. Their producer is then rejected as if it had expired.
    """

    segments: tuple[Segment, ...]
    before: Offset
    epochs: Mapping[ProducerId, int]

    def run(self, disk: Disk) -> list[BatchHeader]:  # noqa: ARG002
        """The headers, newest first. Raises OSError when the log cannot be read: nothing is known then."""
        found: list[BatchHeader] = []
        with contextlib.suppress(FileNotFoundError):  # retention removes the oldest segments
            found.extend(earlier_batches(self.segments, self.before, self.epochs))
        return found


def earlier_batches(
    segments: Sequence[Segment], before: Offset, epochs: Mapping[ProducerId, int]
) -> Iterator[BatchHeader]:
    """The newest batches before an offset that producers of these epochs may still retry, newest first.

    Reads up to `_EARLIER_BYTES_MAX` of the disk; raises OSError.
    """
    counts = dict.fromkeys(epochs, 0)
    left = _EARLIER_BYTES_MAX
    for segment in reversed(segments):
        if segment.base_offset >= before or not segment.size:
            continue
        if left <= 0:
            break
        _, start = floor_boundary(segment, max(0, segment.size - left), cached=False)
        headers = [header for _, header in scan_headers(segment.open(), start, segment.size)]
        for header in reversed(headers):
            producer_id = header.producer_id
            if header.base_offset >= before or header.producer_epoch != epochs.get(producer_id):
                continue
            if header.base_sequence == NO_SEQUENCE:  # a marker, or a coordinator's batch
                continue
            if counts[producer_id] < PRODUCER_BATCHES_REMEMBERED:
                counts[producer_id] += 1
                yield header
        left -= segment.size


class DeferredSequence(NamedTuple):
    """A batch that was refused for now and is to be sent again."""

    producer_epoch: int
    sequence: int
    refused_ms: int
    comes_again: bool
    """This leader refused it. Else its client may have sent it to another leader, and have its answer."""


class DeferredSequences(dict[ProducerId, DeferredSequence]):
    """A partition's deferred sequences, by producer.

    A producer has several batches under way. The first may be refused for a moment: the ISR is too small, the disk is
    full, or the broker does not know yet that it leads. The second arrives when that is over. Kafka's behaviour then:
    - A log that does not know the producer accepts the second batch, since any sequence may be the first (KIP-360). The
      first can never be written any more.
    - A log that knows the producer answers OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka begins a new epoch for all
      partitions, and sends under it again what another leader may have stored already.

    Here the successor gets a retriable error too. Nothing was written, and the client sends both again in order. The
    same holds when the first batch waits at a former leader, paused or unaware of the election, while its successor
    reaches the new leader (`LeaderAppends._defer_after_gap`), and when a broker without a replica refused it
    (`LeaderAppends.note_early`).

    The first batch may be stored after all: by the leader, when a broker that did not lead refused it; or earlier, when
    its answer was lost and a retry was refused. Then the log accepts the batch that follows it, and any other one is
    deferred. A client may also have dropped the first batch: after `DEFERRED_MS` it gets OUT_OF_ORDER_SEQUENCE_NUMBER,
    whether the log knows the producer or not, and begins a new epoch.

    Before a batch that comes again, no successor is acknowledged, not even one that is stored: the client would send new
    batches in its place, which push an earlier copy of the deferred one out of the last `PRODUCER_BATCHES_REMEMBERED`. If
    its answer were lost then, the log would know nothing of it.
    """

    __slots__ = ()

    def defer(self, header: BatchHeader, now_ms: int, *, comes_again: bool = True) -> None:
        """Remember a batch that was refused for now. A producer's first one counts while it is retried."""
        if header.producer_id != NO_PRODUCER_ID:
            self.defer_sequence(
                header.producer_id, header.producer_epoch, header.base_sequence, now_ms, comes_again=comes_again
            )

    def defer_sequence(
        self, producer_id: ProducerId, epoch: int, sequence: int, now_ms: int, *, comes_again: bool = False
    ) -> None:
        """Remember a sequence that a producer is expected to send."""
        held = self.get(producer_id)
        if (
            held is None
            or epoch > held.producer_epoch
            or not _is_before(held.sequence, sequence)
            or now_ms - held.refused_ms >= DEFERRED_MS
        ):
            self[producer_id] = DeferredSequence(epoch, sequence, now_ms, comes_again)
            if len(self) > DEFERRED_PRODUCERS_MAX:
                del self[next(iter(self))]

    def expire(self, now_ms: int) -> None:
        """Forget sequences for which no client can be waiting any more."""
        old = [producer_id for producer_id, held in self.items() if now_ms - held.refused_ms >= DEFERRED_EXPIRY_MS]
        for producer_id in old:
            del self[producer_id]

    def check(self, header: BatchHeader, producers: ProducerState, now_ms: int) -> None:
        """Let a batch pass that is the deferred one, precedes it, or is of another epoch; the log decides about it.

        Also passes the batch that follows the stored ones. Raises PeerError for a batch that would overtake:
        NOT_ENOUGH_REPLICAS at first, OUT_OF_ORDER_SEQUENCE_NUMBER after `DEFERRED_MS`.
        """
        held = self.get(header.producer_id)
        if held is None:
            return
        epoch, sequence, refused_ms, comes_again = held
        if now_ms - refused_ms >= DEFERRED_EXPIRY_MS:
            del self[header.producer_id]
            return
        if header.producer_epoch != epoch or header.base_sequence == sequence:
            if header.producer_epoch >= epoch:
                del self[header.producer_id]
            return
        if _is_before(header.base_sequence, sequence):  # a retry, or a late arrival: the log decides
            if not _is_before(header.last_sequence, sequence):
                del self[header.producer_id]
            return
        last = producers.last_sequence(header.producer_id, epoch)
        # another leader may have stored the deferred batch, or this one before it was sent again
        is_stored = last != NO_SEQUENCE and not _is_before(last, sequence)
        missing = (last + 1) & SEQUENCE_MAX
        is_expired = now_ms - refused_ms >= DEFERRED_MS
        follows = is_stored and not _is_before(missing, header.base_sequence)
        if follows and (is_expired or not comes_again):
            del self[header.producer_id]
            return
        message = f"sequence {header.base_sequence} came before {sequence}"
        if is_stored and not follows:
            # the batches behind the deferred one are missing
            message = f"sequence {header.base_sequence} came behind {sequence}; {missing} is missing"
        if not is_expired:
            raise PeerError(ErrorCode.not_enough_replicas, f"{message}; nothing was written")
        raise PeerError(ErrorCode.out_of_order_sequence_number, message)


def _is_before(one: int, other: int) -> bool:
    """Sequences wrap to 0 after 2**31 - 1."""
    return (one - other) & SEQUENCE_MAX > SEQUENCE_MAX // 2
