"""Mutants of the logs: records, retries, compaction, damage, jobs, and moves between log directories."""

from __future__ import annotations

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
from yak.sim.mutants.mutant import Patches, around, mutant, replacement, rewritten
from yak.storage import fetched_batch, flush, producer_state
from yak.storage import log as storage_log
from yak.storage.batch_filter import BatchFilter
from yak.storage.compaction import cleanable
from yak.storage.log import Log
from yak.storage.log_creation import NewLog
from yak.storage.log_directory import DirectoryClose, FolderRemoval
from yak.storage.log_loader import LogLoader
from yak.storage.log_move import MoveSeal
from yak.storage.log_store import LogStore
from yak.storage.offset_map import OffsetMap
from yak.storage.producer_state import ProducerState
from yak.storage.reader import PendingRead, TimestampSearch
from yak.storage.recovery import Recovery
from yak.storage.segment import FilesRemoval

_ROT = ("rot", "misread", "kill")
_MISDIRECTED = ("misdirected", "rot", "kill")
_FAULTS = ("power", "kill")


mutant("follower-acks-unflushed", "with flush.messages=1 a follower syncs first", seeds=60, faults=("power",))(
    replacement(ReplicaFetcher, "_name", lambda self, key, _partition, _log: self._to_name.__setitem__(key, None))
)


def _learn_no_producers(real: Any, self: Log | Recovery, *arguments: Any) -> Any:
    known, self.producers = self.producers, ProducerState()
    try:
        return real(self, *arguments)
    finally:
        self.producers = known


mutant("producers-not-copied", "a follower learns the producers' sequences", seeds=40)(
    around(Log, "append_as_follower")(_learn_no_producers)
)
mutant("producers-lost-in-recovery", "recovery learns the producers' sequences", seeds=40, brokers=1)(
    around(Recovery, "_take")(_learn_no_producers)
)


mutant("sequences-not-checked", "an idempotent batch is stored once", seeds=50, brokers=1)(
    replacement(ProducerState, "check", lambda _self, _header, **_named: None)
)


mutant(
    "producer-snapshots-ignored", "a clean start restores producers' sequences", seeds=40, brokers=1, faults=("stop",)
)(replacement(ProducerState, "restore", lambda self, *_arguments, **_named: self.clear()))
mutant(
    "earlier-batches-forgotten",
    "a start knows more than a producer's last batch",
    seeds=40,
    brokers=1,
    faults=("stop",),
)(replacement(producer_state, "earlier_batches", lambda *_arguments: []))


mutant(
    "logs-closed-unsynced",
    "the clean shutdown mark comes after the sync of all logs",
    seeds=20,
    faults=("stop", "power"),
)(rewritten(DirectoryClose, "_close_logs", "disk.sync_file_system(self.path)\n", "pass\n"))
mutant("torn-tail-kept", "recovery truncates a partial batch", seeds=100, brokers=1)(
    rewritten(Recovery, "_truncate", "    file.truncate(position)\n    segment.size = position\n", "")
)


@mutant("deleted-records-return", "a topic that was deleted and created again is empty", seeds=50, brokers=1)
def _records_come_back(swaps: Patches) -> None:
    real = LogStore.log_or_plan

    def planned(self: LogStore, new: NewLog, **named: bool) -> Any:
        topic_partition, topic_id, _config = new
        held = self.logs.get(topic_partition)
        if held is None:
            return real(self, new, **named)
        held.topic_id = topic_id
        return held

    swaps.put(LogStore, "log_or_plan", planned)
    swaps.put(LogStore, "delete", lambda _self, _log, **_named: FilesRemoval(()))


mutant(
    "hw-of-a-deleted-topic",
    "a topic that was deleted and created again begins without a high watermark",
    seeds=40,
    faults=("kill after", "kill"),
)(rewritten(LogLoader, "_take_mark", "self.high_watermark = 0\n", "pass\n"))


mutant("cold-read-empty", "what is not cached is read from disk", seeds=200, brokers=1, faults=("cold cache", "break"))(
    replacement(PendingRead, "take", lambda _self, _result: b"")
)
mutant("session-not-told", "a fetch session is notified of new records", seeds=200, brokers=1)(
    replacement(ConsumerSession, "mark_dirty", lambda _self, _item: None)
)


@mutant("compacted-past-the-watermark", "only what is committed is compacted", seeds=100)
@around(log_cleaner, "cleanable")
def _compact_past_the_watermark(_real: Any, log: Log, _high_watermark: int, now_ms: int) -> Any:
    return cleanable(log, log.log_end_offset, now_ms)


@mutant("last-record-compacted", "of each key the last record stays", seeds=20)
@around(OffsetMap, "get")
def _drop_the_last_record(real: Any, self: OffsetMap, key: bytes) -> Any:
    newest = real(self, key)
    return newest if newest < 0 else newest + 1


mutant("tombstones-gone-at-once", "a tombstone outlives the first compaction", seeds=30)(
    rewritten(BatchFilter, "_left", "horizon_ms is None or", "horizon_ms is not None and")
)


mutant("tombstones-kept-no-time", "a tombstone is kept for delete.retention.ms", seeds=30)(
    rewritten(BatchFilter, "__init__", "now_ms + delete_retention_ms", "now_ms")
)


mutant("epoch-starts-compacted-away", "the first batch of a leader epoch stays", seeds=100)(
    rewritten(BatchFilter, "__init__", "self._epoch_starts = epoch_starts", "self._epoch_starts = ()")
)


def _believe(data: Any, position: int = 0, _size: int | None = None) -> int:
    return read_header(data, position).crc


mutant("follower-checks-no-crc", "a follower copies no damaged batch", seeds=60, faults=_ROT)(
    replacement(fetched_batch, "compute_crc", _believe)
)


mutant("coordinator-checks-no-crc", "a coordinator believes no damaged batch", seeds=60, faults=("rot", "stop"))(
    rewritten(CoordinatorLoader, "_on_read", "result.damage is not None", "False")
)


@mutant("damage-cut-after-a-kill", "what no kill can tear is damage, and not cut", seeds=60, faults=_ROT)
@around(Recovery, "__init__")
def _cut_what_is_damaged(real: Any, self: Recovery, *arguments: Any, **named: Any) -> None:
    real(self, *arguments, **(named | {"keeps_written": False}))


@mutant("follower-takes-any-offset", "a follower copies only what comes next", seeds=300, faults=_MISDIRECTED)
def _follower_takes_any_offset(swaps: Patches) -> None:
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


mutant("damaged-leader-stays", "a replica that is known to be damaged leaves the ISR", seeds=60, faults=("rot",))(
    replacement(damaged_replicas, "may_leave", lambda _partition: False)
)
mutant("resigning-replica-fetches", "a replica that resigns fetches no more", seeds=300, faults=("rot", "lost calls"))(
    replacement(Partition, "may_be_named", property(lambda self: self.truncation is None))
)
mutant(
    "damage-of-the-start-ignored", "a replica whose recovery found damage leaves the ISR", seeds=60, faults=_MISDIRECTED
)(replacement(DamagedReplicas, "added", lambda _self, _partition: None))


mutant(
    "short-log-leads", "a replica that lost its log's end leaves the ISR first", seeds=60, faults=("lost tail", "kill")
)(rewritten(LogStore, "_load_one", "is_withheld = loaded.is_short and", "is_withheld = False and"))


mutant("search-by-time-finds-nothing", "ListOffsets by time finds what there is", seeds=40)(
    replacement(TimestampSearch, "run", lambda _self, _disk: None)
)


mutant(
    "flush-counts-later-appends",
    "a flush covers only what was appended before its syncs",
    seeds=200,
    brokers=1,
    faults=("power",),
)(
    rewritten(
        Log,
        "flushed",
        "min(plan.up_to_offset, self.log_end_offset)",
        "self.log_end_offset if plan.active is self.active else plan.up_to_offset",
    )
)


mutant(
    "flush-forgives-a-failed-sync",
    "a flush forgives nothing but the file of a segment that left the log",
    seeds=50,
    brokers=1,
    faults=("disk", "power"),
)(rewritten(flush, "_sync_records", "FileNotFoundError:\n        return False", "OSError:\n        return True"))


@mutant(
    "truncation-keeps-recovery-point",
    "after a truncation only what is synced again counts as flushed",
    seeds=300,
    faults=("power after truncation", "kill inside", "cut brokers"),
)
@around(Truncations, "_resume")
def _truncation_keeps_recovery_point(real: Any, self: Truncations, truncation: Truncation) -> None:
    log = truncation.log
    before, log.recovery_point = log.recovery_point, 0
    real(self, truncation)
    log.recovery_point = before


mutant(
    "handed-over-log-written",
    "a log that is handed over to another directory takes no appends",
    seeds=300,
    brokers=1,
    faults=_FAULTS,
)(replacement(Partition, "is_handed_over", property(lambda _self: False, lambda _self, _value: None)))


@mutant(
    "move-not-synced",
    "the old folder's rename is on the device before the copy gets its name",
    seeds=300,
    brokers=1,
    faults=_FAULTS,
)
@around(FolderRemoval, "run")
def _rename_without_sync(real: Any, self: Any, disk: Any) -> Any:
    return None if self.keeps_files else real(self, disk)


@mutant("copy-sealed-unsynced", "a copy is on the device before it is sealed", seeds=300, brokers=1, faults=_FAULTS)
@around(MoveSeal, "run")
def _seal_what_is_not_durable(real: Any, self: MoveSeal, disk: Any) -> None:
    with Patches() as inner:
        inner.put(SimFile, "sync", lambda _self: None)
        inner.put(SimDisk, "sync_directory", lambda _self, _path: None)
        real(self, disk)
