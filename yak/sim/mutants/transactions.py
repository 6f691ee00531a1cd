"""Mutants of transactions: isolation, verification, fencing and coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from yak.broker import fetches
from yak.errors import ErrorCode
from yak.partitions.transactional_appends import TransactionalAppends
from yak.replication.partition import Partition
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.transactions.shard import TransactionShard
from yak.transactions.states import PREPARED
from yak.transactions.transaction import Transaction


def _ignore_open_transactions(swaps: Swaps) -> None:
    swaps.put(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def _name_no_aborted_transactions(swaps: Swaps) -> None:
    swaps.put(fetches, "aborted_transactions", lambda *_arguments: ())


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
    Mutant("epoch-not-bumped", "a new producer fences the one before", _keep_the_epoch, 20),
    Mutant("prepared-forgotten", "a new coordinator ends what is prepared", _forget_what_is_prepared, 60),
    Mutant("verification-skipped", "a leader asks whether a transaction is open", _verify_nothing, 30),
)
