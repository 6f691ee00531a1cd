"""Mutants of the logs: records, retries, compaction, damage, jobs, and moves between log directories."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from yak.coordination.loader import CoordinatorLoader
from yak.errors import ProtocolViolation
from yak.partitions import log_cleaner
from yak.protocol.record_batch import read_header
from yak.replication import damaged_replicas
from yak.replication.damaged_replicas import DamagedReplicas
from yak.replication.fetch_sessions import ConsumerSession
from yak.replication.partition import Partition
from yak.replication.replica_fetcher import ReplicaFetcher
from yak.replication.truncation import Truncation, Truncations
from yak.sim.disk import SimDisk, SimFile
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage import fetched_batch, flush, producer_state
from yak.storage import log as storage_log
from yak.storage.batch_filter import BatchFilter
from yak.storage.compaction import cleanable
from yak.storage.flush import FlushPlan
from yak.storage.log import Log
from yak.storage.log_creation import NewLog
from yak.storage.log_directory import FolderRemoval
from yak.storage.log_move import MoveSeal
from yak.storage.log_store import LogStore
from yak.storage.offset_map import OffsetMap
from yak.storage.producer_state import ProducerState
from yak.storage.reader import PendingRead, TimestampSearch
from yak.storage.recovery import Recovery
from yak.storage.segment import FilesRemoval, Segment


def _follower_acks_unflushed(swaps: Swaps) -> None:
    swaps.put(ReplicaFetcher, "_name", lambda self, key, _partition, _log: self._to_name.__setitem__(key, None))


def _follower_learns_no_producers(swaps: Swaps) -> None:
    real = Log.append_as_follower

    def append(self: Log, *arguments: Any) -> Any:
        known = self.producers
        self.producers = ProducerState()
        try:
            return real(self, *arguments)
        finally:
            self.producers = known

    swaps.put(Log, "append_as_follower", append)


def _check_no_sequence(swaps: Swaps) -> None:
    swaps.put(ProducerState, "check", lambda _self, _header, **_named: None)


def _recovery_learns_no_producers(swaps: Swaps) -> None:
    real = vars(Recovery)["_take"]

    def take(self: Recovery, *arguments: Any) -> None:
        known, self._producers = self._producers, ProducerState()
        try:
            real(self, *arguments)
        finally:
            self._producers = known

    swaps.put(Recovery, "_take", take)


def _restore_no_producers(swaps: Swaps) -> None:
    swaps.put(ProducerState, "restore", lambda self, *_arguments, **_named: self.clear())


def _look_at_no_earlier_batches(swaps: Swaps) -> None:
    swaps.put(producer_state, "earlier_batches", lambda *_arguments: [])


def _keep_the_torn_tail(swaps: Swaps) -> None:
    def truncate(self: Recovery, segment: Any, _file: Any, position: int, _expected: int, reason: str) -> bool:
        self.result.truncated_because = reason
        self.result.truncated_bytes += segment.size - position
        return True

    swaps.put(Recovery, "_truncate", truncate)


def _records_come_back(swaps: Swaps) -> None:
    real = LogStore.planned_log

    def planned(self: LogStore, new: NewLog, **named: bool) -> Any:
        topic_partition, topic_id, _config = new
        held = self.logs.get(topic_partition)
        if held is None:
            return real(self, new, **named)
        held.topic_id = topic_id
        return held

    swaps.put(LogStore, "planned_log", planned)
    swaps.put(LogStore, "delete", lambda _self, _log, **_named: FilesRemoval(()))


def _expire_what_is_not_due(swaps: Swaps) -> None:
    def expired(self: Log, _now_ms: int, _mark: int) -> Any:
        return self.segments[:1] if len(self.segments) > 1 else []

    swaps.put(Log, "expired_segments", expired)


def _read_nothing_cold(swaps: Swaps) -> None:
    swaps.put(PendingRead, "take", lambda _self, _result: b"")


def _tell_sessions_nothing(swaps: Swaps) -> None:
    swaps.put(ConsumerSession, "mark_dirty", lambda _self, _item: None)


def _compact_past_the_watermark(swaps: Swaps) -> None:
    def judged(log: Log, _high_watermark: int, now_ms: int) -> Any:
        return cleanable(log, log.log_end_offset, now_ms)

    swaps.put(log_cleaner, "cleanable", judged)


def _drop_the_last_record(swaps: Swaps) -> None:
    real = OffsetMap.get

    def get(self: OffsetMap, key: bytes) -> int:
        newest = real(self, key)
        return newest if newest < 0 else newest + 1

    swaps.put(OffsetMap, "get", get)


def _drop_tombstones_at_once(swaps: Swaps) -> None:
    real = BatchFilter._left  # noqa: SLF001

    def left(self: BatchFilter, header: Any, records: bytes) -> Any:
        if header.delete_horizon_ms is None:
            header = _Due(header)
        return real(self, header, records)

    swaps.put(BatchFilter, "_left", left)


class _Due:
    """A header whose delete horizon has passed."""

    delete_horizon_ms = 0

    def __init__(self, header: Any) -> None:
        self._header = header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)


def _keep_them_no_time(swaps: Swaps) -> None:
    real = BatchFilter.__init__

    def init(self: BatchFilter, offsets: Any, last: Any, now_ms: int, _retention_ms: int, *rest: Any) -> None:
        real(self, offsets, last, now_ms, 0, *rest)

    swaps.put(BatchFilter, "__init__", init)


def _take_the_beginnings_of_epochs(swaps: Swaps) -> None:
    real = BatchFilter.__init__

    def init(
        self: BatchFilter, offsets: Any, last: Any, now_ms: int, retention_ms: int, _starts: Any, *rest: Any
    ) -> None:
        real(self, offsets, last, now_ms, retention_ms, (), *rest)

    swaps.put(BatchFilter, "__init__", init)


def _believe(data: Any, position: int = 0, _size: int | None = None) -> int:
    return read_header(data, position).crc


def _follower_believes(swaps: Swaps) -> None:
    swaps.put(fetched_batch, "compute_crc", _believe)


def _coordinator_believes(swaps: Swaps) -> None:
    real = CoordinatorLoader._on_read  # noqa: SLF001

    def on_read(self: CoordinatorLoader, result: Any, error: Any) -> None:
        real(self, None if result is None else result._replace(damage=None), error)

    swaps.put(CoordinatorLoader, "_on_read", on_read)


def _cut_what_is_damaged(swaps: Swaps) -> None:
    real = Recovery.__init__

    def init(self: Recovery, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **(named | {"keeps_written": False}))

    swaps.put(Recovery, "__init__", init)


def _follower_takes_any_offset(swaps: Swaps) -> None:
    check, may_follow = fetched_batch.check_fetched_batch, Partition.may_follow

    def checked(view: Any, position: int, header: Any, _expected: int, *rest: Any, may_have_gaps: bool) -> None:
        check(view, position, header, header.base_offset, *rest, may_have_gaps=may_have_gaps)

    def follows(*arguments: Any) -> bool:
        try:
            return may_follow(*arguments)
        except ProtocolViolation:
            return True

    swaps.put(storage_log, "check_fetched_batch", checked)
    swaps.put(Partition, "may_follow", follows)


def _resign_never(swaps: Swaps) -> None:
    swaps.put(damaged_replicas, "may_leave", lambda _partition: False)


def _fetch_on_while_resigning(swaps: Swaps) -> None:
    swaps.put(Partition, "may_be_named", property(lambda self: self.truncation is None))


def _stay_with_damage_of_the_start(swaps: Swaps) -> None:
    swaps.put(DamagedReplicas, "added", lambda _self, _partition: None)


def _find_nothing_by_time(swaps: Swaps) -> None:
    swaps.put(TimestampSearch, "run", lambda _self, _disk: None)


def _flush_counts_later_appends(swaps: Swaps) -> None:
    real = Log.flushed

    def flushed(self: Log, plan: FlushPlan, missing: Sequence[Segment], now_ms: int | None = None) -> None:
        if plan.active is self.active:
            plan = replace(plan, up_to_offset=self.log_end_offset)
        real(self, plan, missing, now_ms)

    swaps.put(Log, "flushed", flushed)


def _flush_forgives_a_failed_sync(swaps: Swaps) -> None:
    real = flush._sync_records  # noqa: SLF001

    def sync(segment: Segment) -> bool:
        with suppress(OSError):
            return real(segment)
        return True

    swaps.put(flush, "_sync_records", sync)


def _truncation_keeps_recovery_point(swaps: Swaps) -> None:
    real = Truncations._go_on  # noqa: SLF001

    def go_on(self: Truncations, truncation: Truncation) -> None:
        log = truncation.log
        before, log.recovery_point = log.recovery_point, 0
        real(self, truncation)
        log.recovery_point = before

    swaps.put(Truncations, "_go_on", go_on)


def _write_on_during_the_handover(swaps: Swaps) -> None:
    swaps.put(Partition, "is_handed_over", property(lambda _self: False, lambda _self, _value: None))


def _rename_without_sync(swaps: Swaps) -> None:
    real = FolderRemoval.run

    def run(self: Any, disk: Any) -> Any:
        return None if self.is_kept else real(self, disk)

    swaps.put(FolderRemoval, "run", run)


def _seal_what_is_not_durable(swaps: Swaps) -> None:
    real = MoveSeal.run

    def run(self: MoveSeal, disk: Any) -> None:
        inner = Swaps()
        inner.put(SimFile, "sync", lambda _self: None)
        inner.put(SimDisk, "sync_directory", lambda _self, _path: None)
        try:
            real(self, disk)
        finally:
            inner.take_back()

    swaps.put(MoveSeal, "run", run)


_ROT = ("rot", "misread", "kill")
_MISDIRECTED = ("misdirected", "rot", "kill")
_FAULTS = ("power", "kill")
MUTANTS = (
    Mutant(
        "follower-acks-unflushed",
        "with flush.messages=1 a follower syncs first",
        _follower_acks_unflushed,
        60,
        3,
        ("power",),
    ),
    Mutant("producers-not-copied", "a follower learns the producers' sequences", _follower_learns_no_producers, 40),
    Mutant("sequences-not-checked", "an idempotent batch is stored once", _check_no_sequence, 50, 1),
    Mutant(
        "producers-lost-in-recovery", "recovery learns the producers' sequences", _recovery_learns_no_producers, 40, 1
    ),
    Mutant(
        "producer-snapshots-ignored",
        "a clean start restores producers' sequences",
        _restore_no_producers,
        40,
        1,
        ("stop",),
    ),
    Mutant(
        "earlier-batches-forgotten",
        "a start knows more than a producer's last batch",
        _look_at_no_earlier_batches,
        40,
        1,
        ("stop",),
    ),
    Mutant("torn-tail-kept", "recovery cuts what a crash tore", _keep_the_torn_tail, 100, 1),
    Mutant("deleted-records-return", "a topic that was deleted and created again is empty", _records_come_back, 50, 1),
    Mutant("retention-too-early", "retention takes what is due only", _expire_what_is_not_due, 50, 1),
    Mutant(
        "cold-read-empty",
        "what is not cached is read from disk",
        _read_nothing_cold,
        200,
        1,
        ("cold cache", "cut"),
    ),
    Mutant("session-not-told", "a fetch session is told of new records", _tell_sessions_nothing, 200, 1),
    Mutant(
        "compacted-past-the-watermark",
        "only what is committed is compacted",
        _compact_past_the_watermark,
        100,
    ),
    Mutant("last-record-compacted", "of each key the last record stays", _drop_the_last_record, 20),
    Mutant("tombstones-gone-at-once", "a tombstone outlives the first compaction", _drop_tombstones_at_once, 30),
    Mutant(
        "epoch-starts-compacted-away", "the first batch of a leader epoch stays", _take_the_beginnings_of_epochs, 100
    ),
    Mutant("tombstones-kept-no-time", "a tombstone is kept for delete.retention.ms", _keep_them_no_time, 30),
    Mutant("follower-checks-no-crc", "a follower copies no damaged batch", _follower_believes, 60, 3, _ROT),
    Mutant(
        "coordinator-checks-no-crc",
        "a coordinator believes no damaged batch",
        _coordinator_believes,
        60,
        3,
        ("rot", "stop"),
    ),
    Mutant(
        "damage-cut-after-a-kill", "what no kill can tear is damage, and not cut", _cut_what_is_damaged, 60, 3, _ROT
    ),
    Mutant(
        "damaged-leader-stays",
        "a replica that is known to be damaged leaves the ISR",
        _resign_never,
        60,
        3,
        ("rot",),
    ),
    Mutant(
        "damage-of-the-start-ignored",
        "a replica whose recovery found damage leaves the ISR",
        _stay_with_damage_of_the_start,
        60,
        3,
        _MISDIRECTED,
    ),
    Mutant("search-by-time-finds-nothing", "ListOffsets by time finds what there is", _find_nothing_by_time, 40),
    Mutant(
        "resigning-replica-fetches",
        "a replica that resigns fetches no more",
        _fetch_on_while_resigning,
        300,
        3,
        ("rot", "lost calls"),
    ),
    Mutant(
        "follower-takes-any-offset",
        "a follower copies only what comes next",
        _follower_takes_any_offset,
        300,
        3,
        _MISDIRECTED,
    ),
    Mutant(
        "flush-counts-later-appends",
        "a flush covers only what was appended before its syncs",
        _flush_counts_later_appends,
        200,
        1,
        ("power",),
    ),
    Mutant(
        "flush-forgives-a-failed-sync",
        "a flush forgives nothing but the file of a segment that left the log",
        _flush_forgives_a_failed_sync,
        50,
        1,
        ("disk",),
    ),
    Mutant(
        "truncation-keeps-recovery-point",
        "after a truncation only what is synced again counts as flushed",
        _truncation_keeps_recovery_point,
        300,
        3,
        ("power after truncation", "kill inside", "cut brokers"),
    ),
    Mutant(
        "handed-over-log-written",
        "a log that is handed over to another directory takes no appends",
        _write_on_during_the_handover,
        60,
        1,
        _FAULTS,
    ),
    Mutant(
        "move-not-synced",
        "the old folder's rename is on the device before the copy gets its name",
        _rename_without_sync,
        300,
        1,
        _FAULTS,
    ),
    Mutant(
        "copy-sealed-unsynced",
        "a copy is on the device before it is sealed",
        _seal_what_is_not_durable,
        300,
        1,
        _FAULTS,
    ),
)
