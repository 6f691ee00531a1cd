"""Mutants of group and transaction coordinators, and of what the metadata have beside topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from yak.broker import fetches
from yak.broker.coordinator_partitions import CoordinatorPartitions
from yak.cluster import image_log
from yak.cluster.restore import JUMP, plan_restore
from yak.coordination.loader import CoordinatorLoader
from yak.coordination.transaction_coordinator import TransactionCoordinator
from yak.errors import ErrorCode
from yak.groups.classic.group import ClassicGroup
from yak.groups.group import Group
from yak.groups.offsets import Offsets
from yak.groups.shard import Shard
from yak.metadata_store import migration, seeding
from yak.partitions.leader_appends import TransactionalAppends
from yak.partitions.transaction_markers import TxnMarker
from yak.replication.partition import Partition
from yak.sim import store as sim_store
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.log import Log
from yak.storage.recovery import Recovery
from yak.storage.segment import Segment
from yak.storage.transaction_filter import TransactionFilter
from yak.transactions.marker_sender import PendingMarkers
from yak.transactions.shard import TransactionShard
from yak.transactions.transaction import PREPARE_COMMIT, PREPARED, Transaction


def _ack_commits_at_once(swaps: Swaps) -> None:
    swaps.put(
        CoordinatorPartitions,
        "when_acknowledged",
        lambda _self, _partition, _appended, then, _until_ms=None: then(ErrorCode.none),
    )


def _take_commits_of_anybody(swaps: Swaps) -> None:
    swaps.put(ClassicGroup, "check_commit", lambda *_arguments: None)


def _serve_before_loading(swaps: Swaps) -> None:
    def go_on(self: CoordinatorLoader) -> None:
        if not self._is_over:
            self._is_over = True
            self._done(0)

    swaps.put(CoordinatorLoader, "go_on", go_on)


def _retain_to_the_log_end(swaps: Swaps) -> None:
    real = Log.expired_segments

    def expired(self: Log, now_ms: int, _high_watermark: int) -> Any:
        return real(self, now_ms, self.log_end_offset)

    swaps.put(Log, "expired_segments", expired)


def _retain_what_is_not_due(swaps: Swaps) -> None:
    def expired(self: Log, _now_ms: int, high_watermark: int) -> Any:
        is_over = len(self.segments) > 1 and self.segments[1].base_offset <= high_watermark
        return self.segments[:1] if is_over and "delete" in self.config.cleanup_policy else []

    swaps.put(Log, "expired_segments", expired)


def _retain_everything(swaps: Swaps) -> None:
    swaps.put(Log, "expired_segments", lambda *_arguments: [])


def _ignore_open_transactions(swaps: Swaps) -> None:
    swaps.put(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def _name_no_aborted_transactions(swaps: Swaps) -> None:
    swaps.put(fetches, "aborted_transactions", lambda *_arguments: ())


def _keep_the_epoch(swaps: Swaps) -> None:
    real = Transaction.initialize

    def initialize(self: Transaction, *arguments: Any, **named: Any) -> Transaction:
        changed = real(self, *arguments, **named)
        return changed._replace(producer_epoch=max(0, self.producer_epoch))

    swaps.put(Transaction, "initialize", initialize)


def _forget_what_is_prepared(swaps: Swaps) -> None:
    real = TransactionShard.restore

    def restore(self: TransactionShard) -> Iterator[None]:
        yield from real(self)
        for name in [name for name, entry in self.ids.items() if entry.transaction.state in PREPARED]:
            del self.ids[name]

    swaps.put(TransactionShard, "restore", restore)


def _verify_nothing(swaps: Swaps) -> None:
    swaps.put(TransactionalAppends, "verify", lambda *_arguments: ErrorCode.none)


def _mark_before_the_decision(swaps: Swaps) -> None:
    real = vars(TransactionCoordinator)["_append"]

    def append(self: Any, coordinated: Any, entry: Any, changed: Transaction, *more: Any, **named: Any) -> None:
        if changed.state in PREPARED:
            marker = TxnMarker(
                changed.producer_id,
                changed.producer_epoch,
                coordinated.partition.leader_epoch,
                changed.state is PREPARE_COMMIT,
                changed.client_version,
            )
            self._sender.send(PendingMarkers(changed.transactional_id, marker, changed.partitions, lambda: None))
        real(self, coordinated, entry, changed, *more, **named)

    swaps.put(TransactionCoordinator, "_append", append)


def _lose_the_index_in_recovery(swaps: Swaps) -> None:
    _index_nothing_in(swaps, Recovery, "_take")


def _index_on_leaders_only(swaps: Swaps) -> None:
    _index_nothing_in(swaps, Log, "_note_batch")


def _index_nothing_in(swaps: Swaps, owner: type, name: str) -> None:
    real = vars(owner)[name]

    def without_index(*arguments: Any) -> None:
        inner = Swaps()
        inner.put(Segment, "add_aborted", lambda *_arguments: None)
        try:
            real(*arguments)
        finally:
            inner.take_back()

    swaps.put(owner, name, without_index)


def _drop_markers_early(swaps: Swaps) -> None:
    real = TransactionFilter.saw_marker

    def saw_marker(self: TransactionFilter, header: Any) -> bool:
        real(self, header)
        return False

    swaps.put(TransactionFilter, "saw_marker", saw_marker)


def _take_pending_offsets_for_committed(swaps: Swaps) -> None:
    real = Shard.put_offset

    def put_offset(self: Shard, group: Any, topic: str, partition: int, committed: Any, _producer_id: Any) -> None:
        real(self, group, topic, partition, committed, None)

    swaps.put(Shard, "put_offset", put_offset)


def _apply_aborted_offsets(swaps: Swaps) -> None:
    real = Shard.end_transaction

    def end_transaction(self: Shard, producer_id: Any, end_offset: int, *, is_commit: bool) -> None:  # noqa: ARG001
        real(self, producer_id, end_offset, is_commit=True)

    swaps.put(Shard, "end_transaction", end_transaction)


def _show_commits_at_once(swaps: Swaps) -> None:
    real = Offsets.at
    swaps.put(Shard, "end_of", lambda _self, _group_id: 0)
    swaps.put(Offsets, "at", lambda self, _high_watermark, topics=None, **options: real(self, 2**63, topics, **options))


def _accept_any_generation(swaps: Swaps) -> None:
    swaps.put(Group, "check_transactional_commit", lambda *_arguments, **_options: None)


def _write_no_quotas(swaps: Swaps) -> None:
    real = vars(image_log)["write_snapshot"]

    def write_snapshot(image: Any) -> Any:
        record = real(image)
        record.payload["quotas"] = []
        return record

    swaps.put(image_log, "write_snapshot", write_snapshot)


def _restore_no_acls(swaps: Swaps) -> None:
    real = vars(seeding)["_write_configs"]
    swaps.put(seeding, "_write_configs", lambda state, image: real(state, {**image, "acls": []}))


def _move_no_configs(swaps: Swaps) -> None:
    real = migration.state_of  # type: ignore[attr-defined]

    def state_of(rows: Any) -> Any:
        state = real(rows)
        state.configs.clear()
        return state

    swaps.put(migration, "state_of", state_of)


def _give_producer_ids_again(swaps: Swaps) -> None:
    def plan(*arguments: Any, **named: Any) -> Any:
        planned = plan_restore(*arguments, **named)
        image = planned.image
        return replace(planned, image=replace(image, next_producer_id=image.next_producer_id - JUMP - 3_000))

    swaps.put(sim_store, "plan_restore", plan)


def _write_snapshots_side_by_side(swaps: Swaps) -> None:
    real = vars(image_log.ImageLog)["compaction"]

    def compaction(self: Any, image: Any) -> Any:
        self.is_compacting = False
        return real(self, image)

    swaps.put(image_log.ImageLog, "compaction", compaction)


_RESTORES = ("lost history", "kill")
MUTANTS = (
    Mutant(
        "commit-acked-unreplicated",
        "a commit of offsets is acknowledged when it is committed",
        _ack_commits_at_once,
        60,
        faults=("cut brokers", "kill", "slow way", "power"),
    ),
    Mutant(
        "commit-shown-unreplicated",
        "an offset is shown when its commit is committed",
        _show_commits_at_once,
        150,
        faults=("cut brokers", "kill", "slow way", "power"),
    ),
    Mutant(
        "old-generation-commits",
        "only members of the present generation commit offsets",
        _take_commits_of_anybody,
        40,
        faults=("kill",),
    ),
    Mutant("coordinator-not-loaded", "a coordinator reads its log before it serves", _serve_before_loading, 40),
    Mutant(
        "retention-past-hw",
        "retention takes nothing above the high watermark",
        _retain_to_the_log_end,
        150,
        faults=("slow way", "pause", "slow disk"),
    ),
    Mutant("retention-of-what-is-not-due", "retention takes what is due only", _retain_what_is_not_due, 20),
    Mutant("retention-never", "retention takes what is due", _retain_everything, 60, faults=("kill",)),
    Mutant("lso-ignored", "read_committed readers wait for open transactions", _ignore_open_transactions, 20),
    Mutant("aborted-not-named", "a fetch names the aborted transactions", _name_no_aborted_transactions, 20),
    Mutant("epoch-not-bumped", "a new producer fences the one before", _keep_the_epoch, 20),
    Mutant("prepared-forgotten", "a new coordinator ends what is prepared", _forget_what_is_prepared, 60),
    Mutant("verification-skipped", "a leader asks whether a transaction is open", _verify_nothing, 30),
    Mutant("marker-before-decision", "markers follow the committed decision", _mark_before_the_decision, 60),
    Mutant("aborted-index-lost", "recovery finds aborted transactions again", _lose_the_index_in_recovery, 60),
    Mutant("aborted-index-not-copied", "each replica indexes aborted transactions", _index_on_leaders_only, 20),
    Mutant("marker-dropped-early", "a marker outlives its records", _drop_markers_early, 60),
    Mutant("pending-offsets-applied", "offsets wait for their marker", _take_pending_offsets_for_committed, 20),
    Mutant("aborted-offsets-applied", "an abort drops its offsets", _apply_aborted_offsets, 20),
    Mutant("stale-generation-accepted", "only a member of the generation commits", _accept_any_generation, 30),
    Mutant(
        "snapshot-without-quotas",
        "a snapshot of the metadata has the quotas",
        _write_no_quotas,
        100,
        3,
        ("kill", "stop"),
    ),
    Mutant(
        "snapshots-side-by-side",
        "a broker writes one snapshot of the metadata at a time",
        _write_snapshots_side_by_side,
        100,
    ),
    Mutant("restore-without-acls", "a restored store has the ACLs", _restore_no_acls, 150, 3, _RESTORES),
    Mutant("move-without-configs", "a moved store has the configs", _move_no_configs, 30, metadata="both"),
    Mutant(
        "producer-ids-given-again", "a restore gives no producer id again", _give_producer_ids_again, 60, 3, _RESTORES
    ),
)
