"""Mutants of group and transaction coordinators, and of what the metadata have beside topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from yak.broker import fetches
from yak.cluster import image_log
from yak.cluster.restore import JUMP, plan_restore
from yak.coordination.coordinator_partitions import CoordinatorPartitions
from yak.coordination.loader import CoordinatorLoader
from yak.coordination.transaction_coordinator import TransactionCoordinator
from yak.errors import ErrorCode
from yak.groups.classic.group import ClassicGroup
from yak.groups.group import Group
from yak.groups.offsets import Offsets
from yak.groups.shard import Shard
from yak.metadata_store import migration, restore
from yak.partitions.leader_appends import TransactionalAppends
from yak.replication.partition import Partition
from yak.sim import store as sim_store
from yak.sim.mutants.mutant import Patches, around, mutant, replacement, rewritten
from yak.storage.log import Log
from yak.storage.producer_state import ProducerState
from yak.storage.recovery import Recovery
from yak.storage.segment import Segment
from yak.storage.transaction_filter import TransactionFilter
from yak.transactions.shard import TransactionShard
from yak.transactions.transaction import PREPARED, Transaction

_RESTORES = ("lost history", "kill")


mutant(
    "commit-acked-unreplicated",
    "a commit of offsets is acknowledged when it is committed",
    seeds=60,
    faults=("cut brokers", "kill", "slow way", "power"),
)(
    replacement(
        CoordinatorPartitions, "when_acknowledged", lambda _self, _appended, then, _until_ms=None: then(ErrorCode.none)
    )
)
mutant("old-generation-commits", "only members of the present generation commit offsets", seeds=40, faults=("kill",))(
    replacement(ClassicGroup, "check_commit", lambda *_arguments: None)
)


@mutant("coordinator-not-loaded", "a coordinator reads its log before it serves", seeds=40)
@around(CoordinatorLoader, "resume")
def _serve_before_loading(_real: Any, self: CoordinatorLoader) -> None:
    if not self._is_over:
        self._is_over = True
        self._done(0)


@mutant(
    "retention-past-hw",
    "retention takes nothing above the high watermark",
    seeds=150,
    faults=("slow way", "pause", "slow disk"),
)
@around(Log, "expired_segment")
def _retain_to_the_log_end(real: Any, self: Log, now_ms: int, _high_watermark: int) -> Any:
    return real(self, now_ms, self.log_end_offset)


@mutant("retention-of-what-is-not-due", "retention takes what is due only", seeds=20)
@mutant("retention-too-early", "retention takes what is due only", seeds=50, brokers=1)
@around(Log, "expired_segment")
def _retain_what_is_not_due(_real: Any, self: Log, _now_ms: int, high_watermark: int) -> Any:
    is_over = len(self.segments) > 1 and self.segments[1].base_offset <= high_watermark
    return self.segments[0] if is_over and "delete" in self.config.cleanup_policy else None


mutant("retention-never", "retention takes what is due", seeds=60, faults=("kill",))(
    replacement(Log, "expired_segment", lambda *_arguments: None)
)
mutant("lso-ignored", "read_committed readers wait for open transactions", seeds=20)(
    replacement(Partition, "last_stable_offset", property(lambda self: self.high_watermark))
)
mutant("uncommitted-marker-counts", "a transaction is over once its marker is committed", seeds=20)(
    rewritten(ProducerState, "first_unstable_offset", "in self._uncommitted", "in ()")
)
mutant("aborted-not-named", "a fetch names the aborted transactions", seeds=20)(
    replacement(fetches, "aborted_transactions", lambda *_arguments: ())
)


@mutant("epoch-not-bumped", "a new producer fences the one before", seeds=20)
@around(Transaction, "initialize")
def _keep_the_epoch(real: Any, self: Transaction, *arguments: Any, **named: Any) -> Any:
    changed = real(self, *arguments, **named)
    return changed._replace(producer_epoch=max(0, self.producer_epoch))


mutant("fenced-producer-recovers", "a producer recovers only until another takes its place (KIP-360)", seeds=100)(
    rewritten(Transaction, "initialize", "expected.epoch != self.last_producer_epoch", "False")
)


@mutant("prepared-forgotten", "a new coordinator ends what is prepared", seeds=60)
@around(TransactionShard, "restore")
def _forget_what_is_prepared(real: Any, self: TransactionShard) -> Iterator[None]:
    yield from real(self)
    for name in [name for name, entry in self.ids.items() if entry.transaction.state in PREPARED]:
        del self.ids[name]


mutant("verification-skipped", "a leader verifies that a transaction is open", seeds=30)(
    replacement(TransactionalAppends, "verify", lambda *_arguments: ErrorCode.none)
)


mutant("marker-before-decision", "markers follow the committed decision", seeds=60)(
    rewritten(
        TransactionCoordinator,
        "_append",
        "    record =",
        "    if changed.state in PREPARED:\n        before, entry.transaction = entry.transaction, changed\n        self._send_markers(coordinated, entry)\n        entry.transaction = before\n    record =",
    )
)


def _index_nothing_in(real: Any, *arguments: Any) -> None:
    with Patches() as inner:
        inner.put(Segment, "add_aborted", lambda *_arguments: None)
        real(*arguments)


mutant("aborted-index-lost", "recovery finds aborted transactions again", seeds=60)(
    around(Recovery, "_take")(_index_nothing_in)
)
mutant("aborted-index-not-copied", "each replica indexes aborted transactions", seeds=20)(
    around(Log, "_note_batch")(_index_nothing_in)
)


mutant("marker-dropped-early", "a marker outlives its records", seeds=60)(
    rewritten(TransactionFilter, "saw_marker", "return has_batches", "return False")
)


mutant("pending-offsets-applied", "offsets wait for their marker", seeds=20)(
    rewritten(Shard, "put_offset", "if producer_id is None:", "if True:")
)


mutant("aborted-offsets-applied", "an abort drops its offsets", seeds=20)(
    rewritten(Shard, "end_transaction", "is_commit=is_commit", "is_commit=True")
)


@mutant(
    "commit-shown-unreplicated",
    "an offset is visible when its commit is committed",
    seeds=150,
    faults=("cut brokers", "kill", "slow way", "power"),
)
def _show_commits_at_once(swaps: Patches) -> None:
    real = Offsets.at
    swaps.put(Shard, "end_of", lambda _self, _group_id: 0)
    swaps.put(Offsets, "at", lambda self, _high_watermark, topics=None, **options: real(self, 2**63, topics, **options))


mutant("stale-generation-accepted", "only a member of the generation commits", seeds=30)(
    replacement(Group, "check_transactional_commit", lambda *_arguments, **_options: None)
)


@mutant("snapshot-without-quotas", "a snapshot of the metadata has the quotas", seeds=100, faults=("kill", "stop"))
@around(image_log, "write_snapshot")
def _write_no_quotas(real: Any, image: Any) -> Any:
    record = real(image)
    record.payload["quotas"] = []
    return record


mutant("restore-without-acls", "a restored store has the ACLs", seeds=150, faults=_RESTORES)(
    rewritten(restore, "_write_configs", 'image.get("acls", ())', "()")
)


@mutant("move-without-configs", "a moved store has the configs", seeds=30, metadata="both")
@around(migration, "state_of")
def _move_no_configs(real: Any, rows: Any) -> Any:
    state = real(rows)
    state.configs.clear()
    return state


@mutant("producer-ids-given-again", "a restore gives no producer id again", seeds=60, faults=_RESTORES)
@around(sim_store, "plan_restore")
def _give_producer_ids_again(_real: Any, *arguments: Any, **named: Any) -> Any:
    planned = plan_restore(*arguments, **named)
    image = planned.image
    return replace(planned, image=replace(image, next_producer_id=image.next_producer_id - JUMP - 3_000))


mutant("snapshots-side-by-side", "a broker writes one snapshot of the metadata at a time", seeds=100)(
    rewritten(image_log.ImageLog, "compaction", "is_short or self.is_compacting or", "is_short or")
)
