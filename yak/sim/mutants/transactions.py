"""Mutants of transactions: isolation, verification, fencing and coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yak.broker import fetches
from yak.coordination.transaction_coordinator import TransactionCoordinator
from yak.errors import ErrorCode
from yak.groups.group import Group
from yak.groups.shard import Shard
from yak.partitions.leader_appends import TransactionalAppends
from yak.partitions.transaction_markers import TxnMarker
from yak.replication.partition import Partition
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.log import Log
from yak.storage.recovery import Recovery
from yak.storage.segment import Segment
from yak.storage.transaction_filter import TransactionFilter
from yak.transactions.marker_sender import PendingMarkers
from yak.transactions.shard import TransactionShard
from yak.transactions.transaction import PREPARE_COMMIT, PREPARED, Transaction


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

    def end_transaction(self: Shard, producer_id: Any, *, is_commit: bool) -> Any:  # noqa: ARG001
        return real(self, producer_id, is_commit=True)

    swaps.put(Shard, "end_transaction", end_transaction)


def _accept_any_generation(swaps: Swaps) -> None:
    swaps.put(Group, "check_transactional_commit", lambda *_arguments: None)


MUTANTS = (
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
)
