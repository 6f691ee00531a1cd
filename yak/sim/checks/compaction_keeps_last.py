"""I17: reading a compacted replica from start to end yields the last value of every key.

- The newest record of each key is there, unchanged and at its offset, if it is not below the log start. A tombstone may
  be gone; then no older record of its key is there.
- A record that a compaction removes was replaced by a record that is below the high watermark, flushed, in a closed
  segment, and at least `min.compaction.lag.ms` old.
- A tombstone goes after its delete horizon, which an earlier compaction set, and at least `delete.retention.ms` after
  it was written. So does the marker of a transaction, and only after the last record of its transaction.
- Records of an aborted transaction may go, those of an open one stay. Neither replaces another record.

Where a log is read, `yak.sim.originals` checks that the rest of a batch is as it was written. A replica that was
offline while a tombstone was removed may keep older records of its key: as in Kafka, `delete.retention.ms` must exceed
that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from yak.ids import Offset
from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_walk import WalkedRecord
from yak.sim.compacted_records import COMPACTED
from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History, NewBatch, Watcher


class _Seen(NamedTuple):
    """A copy at its last check: the offsets without a record, and the delete horizons of its tombstones."""

    absent: frozenset[Offset]
    horizons: dict[Offset, int]


class CompactionKeepsLast(Watcher):
    """Checks a log after a compaction, a reload, a truncation, and a fetch of compacted batches."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen: dict[Copy, _Seen] = {}
        self._passed_over: dict[Copy, set[Offset]] = {}
        """Offsets that a copy never had, since its leader had already removed them."""

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:  # noqa: ARG002
        """A follower may have copied compacted batches."""
        if copy.originals is None or copy.is_whole:
            return
        copy.is_whole = True
        known = self._seen.get(copy, _Seen(frozenset(), {})).absent
        written = self._written(copy)
        present, _horizons = self._present(copy)
        passed = {record.offset for record in written if record.offset not in present} - known
        self._passed_over.setdefault(copy, set()).update(passed)
        self._history.counts["records gone before they were copied"] += len(passed)
        self._observe(copy)

    def may_have_less(self, copy: Copy) -> None:
        """A truncation, or a crash during a swap, must not remove a record that replaced another."""
        self._observe(copy)

    def dropped(self, copy: Copy) -> None:
        self._seen.pop(copy, None)
        self._passed_over.pop(copy, None)

    def swapped(self, copy: Copy) -> None:
        """Check what a compaction removed."""
        before = self._seen.get(copy, _Seen(frozenset(), {}))
        now = self._observe(copy)
        if now is None:
            return
        written = self._written(copy)
        assert copy.originals is not None
        following = _following(list(copy.originals.values_in(copy.chain)))
        for record in written:
            if record.offset in now.absent and record.offset not in before.absent:
                self._may_go(copy, record, following.get(record.offset), before.horizons.get(record.offset))
            elif record.offset in now.horizons and record.offset not in before.horizons:
                self._may_have(copy, record, now.horizons[record.offset])
        self._history.counts["records compacted away"] += len(now.absent - before.absent)

    # ---------------------------------------------------------------------------------------------------- removals

    def _may_go(self, copy: Copy, record: WalkedRecord, later: WalkedRecord | None, horizon_ms: int | None) -> None:
        assert copy.log is not None
        assert copy.partition is not None
        log, now_ms, is_steady = copy.log, copy.node.wall_ms, copy.node.is_clock_steady
        limit = min(copy.partition.high_watermark, log.active.base_offset, log.recovery_point)
        where = f"I17: {copy}@{record.offset}"
        if record.offset >= limit:
            raise Violation(f"{where} was compacted away, and only what is below {limit} may be")
        lag_ms = log.config.min_compaction_lag_ms
        is_too_new = later is not None and is_steady and lag_ms and now_ms - later.timestamp < lag_ms
        if later is not None and later.offset < limit and not is_too_new:
            return
        assert copy.originals is not None
        decided = copy.originals.decided_in(copy.chain)
        if record.offset in decided.aborted:
            return
        if record.value is not None and record.offset not in decided.markers:
            raise Violation(f"{where} was compacted away, and nothing below {limit} that is old enough replaced it")
        if horizon_ms is None:
            raise Violation(f"{where}, a tombstone or marker, was removed by the first compaction that saw it")
        if now_ms < horizon_ms and is_steady:
            raise Violation(f"{where}, a tombstone or marker, was removed {horizon_ms - now_ms} ms too early")
        self._history.counts["tombstones removed"] += 1

    def _may_have(self, copy: Copy, record: WalkedRecord, horizon_ms: int) -> None:
        assert copy.log is not None
        earliest_ms = record.timestamp + copy.log.config.delete_retention_ms
        # clients' clocks are right; a broker's may be skewed, both for the records and markers that it writes
        # and for compaction
        assert copy.originals is not None
        is_of_client = (
            copy.topic_partition.topic in COMPACTED
            and record.offset not in copy.originals.decided_in(copy.chain).markers
        )
        are_clocks_right = is_of_client and not copy.node.skew_ms and copy.node.is_clock_steady
        if are_clocks_right and horizon_ms < earliest_ms:
            raise Violation(f"I17: {copy}@{record.offset}, a tombstone, may go {earliest_ms - horizon_ms} ms too early")

    # ---------------------------------------------------------------------------------------------- present records

    def _written(self, copy: Copy) -> list[WalkedRecord]:
        assert copy.originals is not None
        return [record for record in copy.originals.records_in(copy.chain) if record.offset >= copy.log_start]

    def _observe(self, copy: Copy) -> _Seen | None:
        """Compare a copy's records with those written to it; None if nothing is guaranteed."""
        originals = copy.originals
        if originals is None or copy.log is None or copy.key in self._history.forfeited:
            return None
        written = self._written(copy)
        present, horizons = self._present(copy)
        absent = frozenset(record.offset for record in written if record.offset not in present)
        now_us, committed = copy.node.world.now_us, originals.committed
        for offset in sorted(absent):
            if committed is None or offset >= committed.end:
                raise Violation(f"I17: {copy}@{offset} is gone, and was not committed")
            originals.taken.setdefault(offset, now_us)
        self._transactions_are_there(copy, absent, present)
        values = [record for record in originals.values_in(copy.chain) if record.offset >= copy.log_start]
        self._last_is_there(copy, values, absent)
        seen = self._seen[copy] = _Seen(absent, horizons)
        return seen

    def _present(self, copy: Copy) -> tuple[set[Offset], dict[Offset, int]]:
        originals, log = copy.originals, copy.log
        assert originals is not None
        assert log is not None
        present: set[Offset] = set()
        horizons: dict[Offset, int] = {}
        for segment in log.segments:
            data = copy.node.disk.peek(segment.path(".log"), 0)
            for place, header in iterate_headers(data):
                originals.crc_of(header, data[place : place + header.size_bytes])
                original = originals.of(header.base_offset, header.partition_leader_epoch)
                left = None if original is None else original.lefts.get(header.crc)
                if original is None or left is None:
                    if copy.key in self._history.forfeited:
                        continue
                    raise Violation(f"I17: {copy}@{header.base_offset}: the batch is not what was written there")
                present.update(left.offsets)
                if left.horizon_ms is not None:
                    is_marker = original.header.is_control
                    tombstones = {each.offset for each in original.records if each.value is None or is_marker}
                    horizons |= {offset: left.horizon_ms for offset in left.offsets if offset in tombstones}
        return present, horizons

    def _transactions_are_there(self, copy: Copy, absent: frozenset[Offset], present: set[Offset]) -> None:
        assert copy.originals is not None
        decided = copy.originals.decided_in(copy.chain)
        for offset in sorted(absent & decided.open):
            raise Violation(f"I17: {copy}@{offset} is gone, and its transaction is open")
        for offset in sorted(absent & decided.markers.keys()):
            if not present.isdisjoint(decided.markers[offset]):
                raise Violation(f"I17: {copy}@{offset}, a marker, is gone, and records of its transaction are not")

    def _last_is_there(self, copy: Copy, written: list[WalkedRecord], absent: frozenset[Offset]) -> None:
        newest = {record.key: record for record in written}
        there = {record.key: record for record in written if record.offset not in absent}
        for key, record in newest.items():
            found = there.get(key)
            if found is record or key is None or self._is_replaced_beyond(copy, key):
                continue
            if record.value is not None:
                raise Violation(f"I17: {copy}@{record.offset}, the last record of {key!r}, is gone")
            if found is not None:
                if record.offset not in self._passed_over.get(copy, ()):
                    raise Violation(
                        f"I17: {copy}@{record.offset}, the tombstone of {key!r}, is gone, and {found.offset} is not"
                    )
                self._history.counts["deleted keys that stay on who was away"] += 1

    def _is_replaced_beyond(self, copy: Copy, key: bytes) -> bool:
        """Whether a replica that lags lacks a record whose replacement lies above its log end."""
        originals = copy.originals
        assert originals is not None
        committed = originals.committed
        if committed is None or copy.end >= committed.end:
            return False
        return any(record.key == key for record in originals.values_in(committed, copy.end))


def _following(written: list[WalkedRecord]) -> dict[Offset, WalkedRecord]:
    """For each record the next one of its key."""
    following: dict[Offset, WalkedRecord] = {}
    newest: dict[bytes | None, WalkedRecord] = {}
    for record in reversed(written):
        if record.key in newest:
            following[record.offset] = newest[record.key]
        newest[record.key] = record
    return following
