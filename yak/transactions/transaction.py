"""One transactional id: its producer, its open transaction, and every decision about them (Kafka's TransactionMetadata.java
and TransactionCoordinator.scala).

A `Transaction` is a value. Each decision returns the value that follows, which the coordinator appends before it counts.
Decisions raise PeerError with the error code that Kafka answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from yak.errors import ErrorCode, PeerError
from yak.ids import ProducerId, TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**15 - 1
_LAST_USED_EPOCH: Final = _EPOCH_MAX - 1
"""The last epoch that a client gets: the coordinator can still fence it with the next one."""
PROTOCOL_1, PROTOCOL_2 = 0, 2
"""Levels of the feature `transaction.version`: 2 bumps the epoch at the end of each transaction (KIP-890)."""


class TransactionState(IntEnum):
    """A state (Kafka's TransactionState.java); its number is the one of the records in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name in ListTransactions and DescribeTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, PREPARE_EPOCH_FENCE = (
    TransactionState
)

PREPARED: Final = (PREPARE_COMMIT, PREPARE_ABORT)
"""The end is decided, and markers are being written."""
AT_REST: Final = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
"""No transaction is open, and none is being ended. Only these expire."""
BY_LABEL: Final[Mapping[str, TransactionState]] = {state.label: state for state in TransactionState}

MOVES: Final[Mapping[TransactionState, tuple[TransactionState, ...]]] = {
    EMPTY: AT_REST,
    ONGOING: (ONGOING, *AT_REST),
    PREPARE_COMMIT: (ONGOING,),
    # A producer with protocol 2 may abort a transaction that has no partition yet.
    PREPARE_ABORT: (ONGOING, *AT_REST),
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
    DEAD: AT_REST,
    # Kafka's state between the decision to fence a producer and PREPARE_ABORT. Here that is one decision, so no
    # transaction is ever in it; clients may still filter by its name.
    PREPARE_EPOCH_FENCE: (),
}
"""From which states each state is entered."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer's identity."""

    producer_id: ProducerId
    epoch: int


class ProducerIdNeededError(Exception):
    """The decision needs a new producer id: get one, and decide again with it."""


class Transaction(NamedTuple):
    """The state of one transactional id, as a record of `__transaction_state` holds it."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch from which the producer may repeat its request for the present one. Records do not have it."""
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id from the next transaction on, after the last epoch of this one."""
    timeout_ms: int = 0
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    updated_ms: int = -1
    client_version: int = PROTOCOL_1
    """The transaction protocol of the client that made the last change."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether no epoch is left that a client may get."""
        return self.producer_epoch >= _LAST_USED_EPOCH

    def _move(self, state: TransactionState, **changes: Any) -> Transaction:
        assert self.state in MOVES[state], f"{self.transactional_id}: {self.state.name} to {state.name}"
        changes.setdefault("previous_producer_id", self.producer_id)
        return self._replace(state=state, **changes)

    # ------------------------------------------------------------------------------------------- InitProducerId

    def initialize(
        self,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        now_ms: int,
        new_producer_id: ProducerId | None = None,
    ) -> Transaction:
        """Bump the epoch, or move to a new producer id after the last one; abort a transaction that is open.

        With an `expected` identity the producer recovers from an error (KIP-360): an older one is fenced, and the one
        before the last bump repeats a request. Raises PeerError, and ProducerIdNeededError without `new_producer_id`.
        """
        self._check_expected(expected)
        if self.state in PREPARED:
            raise PeerError(ErrorCode.concurrent_transactions)
        if self.state is ONGOING:
            if expected is None:
                # Another producer takes over: the one before may not recover, not even from this abort.
                return self.fence(now_ms)._replace(last_producer_epoch=NO_PRODUCER_EPOCH)
            if expected != (self.producer_id, self.producer_epoch):
                # Kafka lets such a zombie abort the transaction of its successor.
                raise PeerError(ErrorCode.producer_fenced)
            return self.fence(now_ms)
        fresh: dict[str, Any] = {
            "timeout_ms": timeout_ms,
            "partitions": frozenset(),
            "started_ms": -1,
            "updated_ms": now_ms,
        }
        epoch = self.producer_epoch
        if expected is None:
            last_epoch = NO_PRODUCER_EPOCH
        elif epoch == NO_PRODUCER_EPOCH or expected.epoch == epoch:
            last_epoch = epoch
        elif expected.epoch != self.last_producer_epoch:
            raise PeerError(ErrorCode.producer_fenced)
        elif epoch < _EPOCH_MAX:
            # The answer to the bump was lost. A new producer would have cleared `last_producer_epoch`.
            return self._move(EMPTY, previous_producer_id=self.previous_producer_id, **fresh)
        else:
            last_epoch = expected.epoch
        if not self.is_epoch_exhausted:
            return self._move(EMPTY, producer_epoch=epoch + 1, last_producer_epoch=last_epoch, **fresh)
        if new_producer_id is None:
            raise ProducerIdNeededError
        return self._move(EMPTY, producer_id=new_producer_id, producer_epoch=0, last_producer_epoch=last_epoch, **fresh)

    def _check_expected(self, expected: ProducerIdAndEpoch | None) -> None:
        """Raise PRODUCER_FENCED for another producer id, except one whose epochs were used up just before."""
        if expected is not None:
            self._check_not_next(expected)
        if expected is None or self.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == self.producer_id:
            return
        if expected.producer_id != self.previous_producer_id or expected.epoch < _LAST_USED_EPOCH:
            raise PeerError(ErrorCode.producer_fenced)

    def fence(self, now_ms: int) -> Transaction:
        """Abort the open transaction under the next epoch, so that its producer can write no more."""
        return self._move(
            PREPARE_ABORT,
            producer_epoch=min(self.producer_epoch + 1, _EPOCH_MAX),
            last_producer_epoch=self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            updated_ms=now_ms,
            client_version=PROTOCOL_2,
        )

    # ---------------------------------------------------------------------------------------------- partitions

    def _check_not_next(self, producer: ProducerIdAndEpoch) -> None:
        """Raise CONCURRENT_TRANSACTIONS for the next producer id while the end of this transaction is prepared.

        The answer to EndTxn names that id before the markers are written, and its producer begins at once
        (TransactionCoordinator.java looks for a pending transition before it looks at the id).
        """
        if self.state in PREPARED and self.next_producer_id != NO_PRODUCER_ID and producer == self.next_producer:
            raise PeerError(ErrorCode.concurrent_transactions)

    def _check_identity(self, producer: ProducerIdAndEpoch) -> None:
        self._check_not_next(producer)
        if self.producer_id != producer.producer_id:
            raise PeerError(ErrorCode.invalid_producer_id_mapping)
        if self.producer_epoch != producer.epoch:
            raise PeerError(ErrorCode.producer_fenced)

    def _check_producer(self, producer: ProducerIdAndEpoch) -> None:
        self._check_identity(producer)
        if self.state in PREPARED:
            raise PeerError(ErrorCode.concurrent_transactions)

    def add_partitions(
        self, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition], client_version: int, now_ms: int
    ) -> Transaction:
        """Add partitions, and begin the transaction with the first; unchanged if it has all of them. Raises PeerError."""
        self._check_producer(producer)
        added = self.partitions.union(partitions)
        if self.state is ONGOING and added == self.partitions:
            return self
        return self._move(
            ONGOING,
            partitions=added,
            started_ms=self.started_ms if self.state is ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def verify(self, producer: ProducerIdAndEpoch, partition: TopicPartition) -> ErrorCode:
        """NONE if the producer's transaction has the partition, else the error for the requesting leader."""
        try:
            self._check_producer(producer)
        except PeerError as error:
            return error.error_code
        return ErrorCode.none if partition in self.partitions else ErrorCode.transaction_abortable

    # -------------------------------------------------------------------------------------------------- EndTxn

    def end(
        self,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool,
        client_version: int,
        now_ms: int,
        new_producer_id: ProducerId | None = None,
    ) -> Transaction:
        """Decide the end; unchanged if this transaction ended so before. Raises as `initialize`."""
        if client_version < PROTOCOL_2:
            return self._end_1(producer, is_commit=is_commit, now_ms=now_ms)
        is_retry = self._check_end_2(producer)
        wanted = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        if self.state in PREPARED:
            raise self._refusal_while_prepared(is_commit=is_commit)
        if is_retry:
            if self.state is not wanted:
                raise PeerError(ErrorCode.invalid_txn_state)
            if self.producer_epoch > _LAST_USED_EPOCH:
                # Its transaction timed out in the last epoch, and the epoch of the fence is for no client.
                raise PeerError(ErrorCode.producer_fenced)
            return self
        if self.state is not ONGOING and is_commit:
            raise PeerError(ErrorCode.invalid_txn_state)
        next_producer_id = NO_PRODUCER_ID
        if self.is_epoch_exhausted:
            if new_producer_id is None:
                raise ProducerIdNeededError
            next_producer_id = new_producer_id
        return self._move(
            PREPARE_COMMIT if is_commit else PREPARE_ABORT,
            producer_epoch=min(self.producer_epoch + 1, _EPOCH_MAX),
            last_producer_epoch=self.producer_epoch,
            next_producer_id=next_producer_id,
            # The abort of a transaction without partitions has no start yet.
            started_ms=self.started_ms if self.state is ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def _check_end_2(self, producer: ProducerIdAndEpoch) -> bool:
        """Whether this repeats the EndTxn that bumped the epoch; protocol 2. Raises PeerError."""
        self._check_not_next(producer)
        # The end of a transaction with protocol 1 bumps no epoch: this epoch is another producer's, which took over.
        is_bumped = self.client_version >= PROTOCOL_2
        is_after_bump = is_bumped and self.producer_epoch == producer.epoch + 1
        is_after_new_id = (
            is_bumped
            and self.previous_producer_id == producer.producer_id
            and producer.epoch == _LAST_USED_EPOCH
            and self.producer_epoch == 0
        )
        if self.producer_id != producer.producer_id and not is_after_new_id:
            raise PeerError(ErrorCode.invalid_producer_id_mapping)
        is_same = self.producer_epoch == producer.epoch
        if self.state in PREPARED:
            if is_same:
                # The end of the next transaction, which is empty. Kafka's PRODUCER_FENCED would end a client in order.
                raise PeerError(ErrorCode.concurrent_transactions)
            is_valid = is_after_bump
        elif self.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
            is_valid = is_same or is_after_bump or is_after_new_id
        else:
            is_valid = is_same
        if not is_valid:
            raise PeerError(ErrorCode.producer_fenced)
        return is_after_bump or is_after_new_id

    def _end_1(self, producer: ProducerIdAndEpoch, *, is_commit: bool, now_ms: int) -> Transaction:
        self._check_identity(producer)
        if self.state in PREPARED:
            raise self._refusal_while_prepared(is_commit=is_commit)
        if self.state is not ONGOING:
            if self.state is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT):
                return self
            raise PeerError(ErrorCode.invalid_txn_state)
        return self._move(
            PREPARE_COMMIT if is_commit else PREPARE_ABORT,
            next_producer_id=NO_PRODUCER_ID,
            updated_ms=now_ms,
            client_version=PROTOCOL_1,
        )

    def _refusal_while_prepared(self, *, is_commit: bool) -> PeerError:
        is_same_end = self.state is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
        return PeerError(ErrorCode.concurrent_transactions if is_same_end else ErrorCode.invalid_txn_state)

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """The producer's identity in its next transaction. After the last epoch it continues under its next id."""
        if self.next_producer_id != NO_PRODUCER_ID and self.client_version >= PROTOCOL_2:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    def complete(self, now_ms: int) -> Transaction:
        """All markers are written."""
        producer_id, producer_epoch = self.next_producer
        return self._move(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    # ------------------------------------------------------------------------------------------------ time-outs

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether the transaction is open for longer than its timeout."""
        return self.state is ONGOING and self.started_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the transactional id is unused for so long that it may be removed."""
        return self.state in AT_REST and self.updated_ms <= now_ms - expiration_ms

    def expire(self) -> Transaction:
        """The transactional id is being removed."""
        return self._move(DEAD, partitions=frozenset())
