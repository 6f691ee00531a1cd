"""Batches of compacted topics as their leaders wrote them, for comparison with every replica's copy.

For the other checks a compacted batch is still the one that was written, and a batch that compaction removed entirely
is still in its place. So they compare compacted logs as if nothing had been removed.
`yak.sim.checks.compaction_keeps_last` checks what may be removed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from yak.errors import ProtocolViolation
from yak.ids import Offset, ProducerId
from yak.protocol.record_batch import BatchHeader, compute_crc
from yak.protocol.record_walk import WalkedRecord, walk_records

if TYPE_CHECKING:
    from yak.sim.history import Chain, Key


_TYPE_AT, _ABORT = 2, b"\0\0"
"""A marker's key: its version, and its type."""


class Remainder(NamedTuple):
    """The rest of a batch: the offsets of its records, and its delete horizon by that broker's clock."""

    offsets: tuple[Offset, ...]
    horizon_ms: int | None


class Original:
    """One batch as it was written, and every legitimate rest of it that was seen, by checksum."""

    __slots__ = ("crc", "header", "lefts", "records")

    def __init__(self, header: BatchHeader, records: tuple[WalkedRecord, ...]) -> None:
        self.header = header
        self.crc = header.crc
        self.records = records
        self.lefts = {header.crc: Remainder(tuple(record.offset for record in records), header.delete_horizon_ms)}

    def take(self, header: BatchHeader, batch: bytes) -> bool:
        """Whether these bytes are a legitimate rest: some of the batch's records, unchanged and at their offsets."""
        if header.crc in self.lefts:
            return True
        records = records_of(batch)
        if records is None or _place(header) != _place(self.header):
            return False
        known = {record.offset: record for record in self.records}
        if len(records) != header.records_count or any(known.get(record.offset) != record for record in records):
            return False
        self.lefts[header.crc] = Remainder(tuple(record.offset for record in records), header.delete_horizon_ms)
        return True


def records_of(batch: bytes) -> tuple[WalkedRecord, ...] | None:
    """All records of a batch; None if its bytes are damaged."""
    header_crc = int.from_bytes(batch[17:21], "big")
    if compute_crc(batch) != header_crc:
        return None
    try:
        return tuple(walk_records(batch, with_headers=True))
    except ProtocolViolation:
        return None


def _place(header: BatchHeader) -> tuple[int, ...]:
    """The fields that compaction never changes."""
    return (
        header.base_offset,
        header.partition_leader_epoch,
        header.last_offset_delta,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


class MarkerDecisions:
    """What the markers of a committed chain decided, by offset. `read_on` reads what was committed since."""

    def __init__(self) -> None:
        self.aborted: set[Offset] = set()
        """Records of aborted transactions."""
        self.open: set[Offset] = set()
        """Records of transactions without a marker."""
        self.markers: dict[Offset, frozenset[Offset]] = {}
        """The records of the transaction that each marker ends."""
        self._by_producer: dict[ProducerId, set[Offset]] = {}
        self._read = 0

    def and_after(self, originals: Originals, chain: Chain, end: Offset) -> MarkerDecisions:
        """The same, and what the markers of another chain from `end` on decided."""
        more = MarkerDecisions()
        more.aborted, more.open, more.markers = set(self.aborted), set(self.open), dict(self.markers)
        more._by_producer = {producer_id: set(offsets) for producer_id, offsets in self._by_producer.items()}
        more._read = bisect_right(chain.ends, end)
        more.read_on(originals, chain)
        return more

    def with_ended(self, ended: Mapping[Offset, bool]) -> MarkerDecisions:
        """The same, and more records of transactions that are decided; True stands for an aborted one."""
        more = MarkerDecisions()
        more.open, more.markers = self.open - ended.keys(), self.markers
        more.aborted = self.aborted | {offset for offset, is_aborted in ended.items() if is_aborted}
        return more

    def read_on(self, originals: Originals, chain: Chain) -> None:
        """Follow the chain from the batch on that was not read yet."""
        for base_offset, epoch in chain.batches[self._read :]:
            self._read += 1
            original = originals.of(base_offset, epoch)
            if original is None or not original.header.is_transactional:
                continue
            producer_id = original.header.producer_id
            offsets = {record.offset for record in original.records}
            if not original.header.is_control:
                self._by_producer.setdefault(producer_id, set()).update(offsets)
                self.open |= offsets
                continue
            ended = frozenset(self._by_producer.pop(producer_id, ()))
            self.open -= ended
            for record in original.records:
                self.markers[record.offset] = ended
                if record.key is not None and record.key[_TYPE_AT:] == _ABORT:
                    self.aborted |= ended


class Originals:
    """The batches of one partition, by leader epoch and base offset. `committed` has its committed chain."""

    def __init__(self, committed: Mapping[Key, Chain], key: Key) -> None:
        self._committed = committed
        self._key = key
        self._decided = MarkerDecisions()
        self._written: dict[tuple[int, Offset], Original] = {}
        self.taken: dict[Offset, int] = {}
        """Committed offsets that compaction removed from any replica, and when first, in simulated microseconds."""
        self._ended: dict[Offset, bool] = {}
        """Committed records of transactions whose marker was in a log above the high watermark; True: aborted."""

    def crc_of(self, header: BatchHeader, batch: bytes) -> int:
        """The checksum that the batch was written with; its own if it is no legitimate rest of the original."""
        place = (header.partition_leader_epoch, header.base_offset)
        original = self._written.get(place)
        if original is not None:
            return original.crc if original.take(header, batch) else header.crc
        records = records_of(batch)
        if records is not None:
            self._written[place] = Original(header, records)
        return header.crc

    def of(self, base_offset: Offset, epoch: int) -> Original | None:
        """The batch that was written there in that epoch."""
        return self._written.get((epoch, base_offset))

    def fill(self, chain: Chain, end: Offset) -> None:
        """Extend a chain to `end` with the committed batches there, if they continue it."""
        committed = self.committed
        if committed is None or end <= chain.end or committed.at(end) is None:
            return
        if committed.at(chain.end) == chain.at(chain.end):
            chain.take(committed, end)

    @property
    def committed(self) -> Chain | None:
        """The committed chain; None if nothing is committed."""
        return self._committed.get(self._key)

    @property
    def decided(self) -> MarkerDecisions:
        """What the committed markers decided."""
        if self.committed is not None:
            self._decided.read_on(self, self.committed)
        return self._decided

    def decided_in(self, chain: Chain) -> MarkerDecisions:
        """What the markers decided that are committed, or in this chain, or were in one and are truncated.

        A transaction is decided before its markers are written, and the coordinator writes them again where they are
        lost. A broker that restarts takes the markers in its log as final, also those above its high watermark, as
        Kafka does.
        """
        committed, decided = self.committed, self.decided
        if committed is not None and chain.end > committed.end:
            decided = decided.and_after(self, chain, committed.end)
            for marker, offsets in decided.markers.items():
                if marker >= committed.end:
                    self._ended |= {each: each in decided.aborted for each in offsets if each < committed.end}
        ended = {offset: self._ended[offset] for offset in decided.open if offset in self._ended}
        return decided.with_ended(ended) if ended else decided

    def values_in(self, chain: Chain, begin: Offset = 0) -> Iterator[WalkedRecord]:
        """The records of a chain, but no markers, and only what is committed of transactions."""
        decided = self.decided_in(chain)
        for record in self.records_in(chain, begin):
            offset = record.offset
            if offset not in decided.markers and offset not in decided.aborted and offset not in decided.open:
                yield record

    def records_in(self, chain: Chain, begin: Offset = 0) -> Iterator[WalkedRecord]:
        """The records of a chain's batches from `begin` on, as they were written."""
        for base_offset, epoch in chain.batches:
            original = self.of(base_offset, epoch) if base_offset >= begin else None
            if original is not None:
                yield from original.records
