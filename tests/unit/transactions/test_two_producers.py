"""Two producers with one transactional id, lost answers and coordinators that are loaded again, in seeded walks."""

from __future__ import annotations

import random

import pytest

from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.transactions import transaction as transactions
from yak.transactions.records import read_transaction, transaction_key, transaction_value
from yak.transactions.transaction import (
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    PROTOCOL_1,
    PROTOCOL_2,
    ProducerIdAndEpoch,
    ProducerIdNeededError,
    Transaction,
)

PLACE = TopicPartition("orders", 0)
LOST_PERCENT = 20


class Walk:
    """The coordinator's transaction, the producer that opened it, and how each of its transactions ended."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.transaction, self.last_id = Transaction("tx", 1), 1
        self.owner: tuple[str, int] | None = None
        self.ends: dict[tuple[str, int], bool] = {}
        self.holders: dict[ProducerIdAndEpoch, str] = {}
        self.producers = [Producer(self, name, self.rng.choice((PROTOCOL_1, PROTOCOL_2))) for name in "ab"]

    def decide(self, decide):
        try:
            changed = decide(None)
        except ProducerIdNeededError:
            self.last_id += 1
            changed = decide(self.last_id)
        if changed.state in PREPARED and self.transaction.state is ONGOING:
            self.ends[self.owner] = changed.state is PREPARE_COMMIT
        self.transaction = changed
        return changed

    def is_lost(self):
        return self.rng.randrange(100) < LOST_PERCENT

    def step(self):
        transaction = self.transaction
        match self.rng.randrange(12):
            case 0:
                self.transaction = read_transaction(transaction_key("tx"), transaction_value(transaction))
            case 1 if transaction.state is ONGOING:
                self.decide(lambda _id: transaction.fence(0))
            case 2 | 3 | 4 if transaction.state in PREPARED:
                self.transaction = transaction.complete(0)
            case _:
                self.rng.choice(self.producers).step()


class Producer:
    """Begins and ends transactions, repeats what was not answered, and recovers or begins anew after an error."""

    def __init__(self, walk: Walk, name: str, version: int) -> None:
        self.walk, self.name, self.version = walk, name, version
        self.identity = self.expected = None
        self.number, self.is_commit = 0, None

    def takes(self, identity):
        assert self.walk.holders.setdefault(identity, self.name) == self.name, f"{identity} belongs to another producer"
        self.identity = identity

    def step(self):
        walk = self.walk
        try:
            if self.identity is None:
                changed = walk.decide(lambda new: walk.transaction.initialize(1, self.expected, 0, new))
                if changed.state not in PREPARED and not walk.is_lost():
                    self.takes(ProducerIdAndEpoch(changed.producer_id, changed.producer_epoch))
            elif self.is_commit is None and self.version == PROTOCOL_2 and walk.rng.random() < 0.3:
                self.is_commit = False  # its batches were refused, before the coordinator heard of the transaction
            elif self.is_commit is None:
                is_new = walk.transaction.state is not ONGOING
                walk.decide(lambda _id: walk.transaction.add_partitions(self.identity, [PLACE], self.version, 0))
                walk.owner = (self.name, self.number) if is_new else walk.owner
                self.is_commit = None if walk.is_lost() else walk.rng.random() < 0.5
            else:
                more = {"is_commit": self.is_commit, "client_version": self.version, "now_ms": 0}
                changed = walk.decide(lambda new: walk.transaction.end(self.identity, new_producer_id=new, **more))
                if not walk.is_lost():
                    assert walk.ends.get((self.name, self.number), self.is_commit) == self.is_commit
                    self.takes(changed.next_producer)
                    self.number, self.is_commit = self.number + 1, None
        except PeerError as error:
            if error.error_code != ErrorCode.concurrent_transactions:
                recovers = error.error_code != ErrorCode.producer_fenced and walk.rng.random() < 0.5
                self.expected, self.identity = self.identity if recovers else None, None
                self.number, self.is_commit = self.number + 1, None


@pytest.mark.parametrize("last_epoch", [4, 2**15 - 2])
def test_no_producer_gets_the_identity_of_another_nor_the_end_of_its_transaction(monkeypatch, last_epoch):
    monkeypatch.setattr(transactions, "_LAST_USED_EPOCH", last_epoch)
    monkeypatch.setattr(transactions, "_EPOCH_MAX", last_epoch + 1)
    for seed in range(150):
        walk = Walk(seed)
        for _ in range(120):
            walk.step()
