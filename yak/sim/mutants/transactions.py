"""Mutants of transactions: isolation, markers, fencing and coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from yak.broker import fetches
from yak.coordination.transaction_coordinator import TransactionCoordinator
from yak.errors import ErrorCode
from yak.partitions.transaction_markers import TxnMarker
from yak.partitions.transactional_appends import TransactionalAppends
from yak.replication.partition import Partition
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.transactions.marker_sender import PendingMarkers
from yak.transactions.shard import TransactionShard
from yak.transactions.states import PREPARE_COMMIT, PREPARED
from yak.transactions.transaction import Transaction


def _ignore_open_transactions(swaps: Swaps) -> None:
    swaps.put(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def _name_no_aborted_transactions(swaps: Swaps) -> None:
    swaps.put(fetches, "aborted_transactions", lambda *_arguments: ())


def _mark_before_the_decision(swaps: Swaps) -> None:
    real = vars(TransactionCoordinator)["_append"]

    def append(self: TransactionCoordinator, coordinated: Any, entry: Any, changed: Transaction, then: Any) -> None:
        real(self, coordinated, entry, changed, then)
        if changed.state in PREPARED:
            marker = TxnMarker(
                changed.producer_id,
                changed.producer_epoch,
                coordinated.partition.leader_epoch,
                changed.state is PREPARE_COMMIT,
                changed.client_version,
            )
            self._sender.send(PendingMarkers(changed.transactional_id, marker, changed.partitions, lambda: None))

    swaps.put(TransactionCoordinator, "_append", append)


def _keep_the_epoch(swaps: Swaps) -> None:
    real = Transaction.initialize

    def initialize(self: Transaction, *arguments: Any, **named: Any) -> Transaction:
        changed = real(self, *arguments, **named)
        return replace(changed, producer_epoch=max(0, self.producer_epoch))

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


MUTANTS = (
    Mutant("lso-ignored", "read_committed readers wait for open transactions", _ignore_open_transactions, 20),
    Mutant("aborted-not-named", "a fetch names the aborted transactions", _name_no_aborted_transactions, 20),
    Mutant("marker-before-decision", "markers follow the committed decision", _mark_before_the_decision, 60),
    Mutant("epoch-not-bumped", "a new producer fences the one before", _keep_the_epoch, 20),
    Mutant("prepared-forgotten", "a new coordinator ends what is prepared", _forget_what_is_prepared, 60),
    Mutant("verification-skipped", "a leader asks whether a transaction is open", _verify_nothing, 30),
)
