"""The transaction coordinator, with `__transaction_state` as its topic (Kafka's TransactionCoordinator.scala).

`yak.transactions.transaction` decides. A decision counts once its record is committed; until then further requests of the
transactional id get CONCURRENT_TRANSACTIONS. Once the end of a transaction is committed, the client has its answer, and the
markers are written; then a last record completes the transaction. A coordinator that loads such a transaction goes on there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from yak.coordination.coordinator_partitions import CoordinatorPartitions
from yak.coordination.producer_ids import ProducerIds
from yak.coordination.runtime import CoordinatedPartition, CoordinatorRuntime, Then, tombstone_batches
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.ids import ConnectionId, ProducerId, TopicPartition
from yak.limits import SLICE_ELEMENTS
from yak.partitions.transaction_markers import TxnMarker
from yak.replication.partition import Partition
from yak.transactions.marker_sender import MarkerSender, PendingMarkers
from yak.transactions.records import TRANSACTION_TOPIC, transaction_key, transaction_value
from yak.transactions.shard import Addition, TransactionalId, TransactionShard
from yak.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    ProducerIdAndEpoch,
    ProducerIdNeededError,
    Transaction,
)

TransactionsPartition: TypeAlias = CoordinatedPartition[TransactionShard]
"""A coordinated partition of `__transaction_state`."""
ThenProducer: TypeAlias = Callable[[ErrorCode, ProducerIdAndEpoch], None]
Decide: TypeAlias = Callable[[Transaction, ProducerId | None], Transaction]
"""The transaction that follows; with a new producer id if the decision needs one."""
RETRY_MS: Final = 100
_SLICE_GAP_MS: Final = 10
WAIT_MS: Final = 100
"""How long a request that adds partitions waits for changes under way, until its client has to repeat it."""
NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
_NONE: Final = ErrorCode.none


class TransactionCoordinator:
    """The entry point of the transaction APIs."""

    def __init__(
        self, context: Context, partitions: CoordinatorPartitions, producer_ids: ProducerIds, sender: MarkerSender
    ) -> None:
        self._context, self._producer_ids, self._sender = context, producer_ids, sender
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            context, TRANSACTION_TOPIC, partitions, self
        )

    # --------------------------------------------------------------------------------------------- which partitions

    def make_shard(self) -> TransactionShard:
        """An empty state for a partition of `__transaction_state`."""
        return TransactionShard()

    def loaded(self, coordinated: TransactionsPartition, records: int) -> None:
        """Serve once everything that was read is committed: a marker must not record an end that may be lost."""

        def committed(code: ErrorCode) -> None:
            if code == _NONE:
                self._serve(coordinated, records)

        self.runtime.when_committed(coordinated, coordinated.partition.log_end_offset, committed)

    @changes_state
    def _serve(self, coordinated: TransactionsPartition, records: int) -> None:
        shard = coordinated.shard
        shard.is_committed = True
        if records:
            self._context.notice(
                "info",
                "transactions-loaded",
                partition=str(coordinated.partition.topic_partition),
                transactional_ids=len(shard.ids),
                records=records,
                unreadable=shard.unreadable,
            )
        for entry in shard.ids.values():
            if entry.transaction.state is ONGOING:
                shard.note_open(entry, self._context.clock.now_ms)
            elif entry.transaction.state in PREPARED:
                self._send_markers(coordinated, entry)
        config = self._context.config
        self._arm("abort", config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self._abort_timed_out)
        self._arm("expire", config.transaction_remove_expired_transaction_cleanup_interval_ms, self._expire)

    def resigned(self, coordinated: TransactionsPartition) -> None:
        """Drop the partition's transactions: the next coordinator writes their markers."""
        for entry in coordinated.shard.ids.values():
            self._context.timers.disarm(entry)
            if entry.markers is not None:
                entry.markers.is_over = True
            self._resume(entry)

    def epoch_changed(self, partition: Partition) -> None:
        """This broker leads on in a later epoch: send the markers again that are not written, under that epoch.

        Another broker may have led in between, unnoticed here, and its markers fence those of the earlier epoch.
        """
        coordinated = self.runtime.coordinated.get(partition.topic_partition.partition)
        if coordinated is None or coordinated.partition is not partition:
            return
        for entry in coordinated.shard.ids.values():
            if entry.markers is not None:
                entry.markers.is_over = True
                self._send_markers(coordinated, entry)

    def stop(self) -> None:
        """Resign from every partition."""
        self.runtime.stop()
        self._sender.stop()

    def _find(self, transactional_id: str) -> tuple[TransactionsPartition, TransactionalId | None]:
        """The partition and entry of a transactional id. Raises PeerError as `CoordinatorRuntime.find`."""
        coordinated = self.runtime.find(transactional_id)
        if not coordinated.shard.is_committed:
            raise PeerError(ErrorCode.coordinator_load_in_progress)
        return coordinated, coordinated.shard.ids.get(transactional_id)

    def _known(self, transactional_id: str) -> TransactionalId | None:
        """The entry of a transactional id, if this broker coordinates it and has one."""
        try:
            return self._find(transactional_id)[1]
        except PeerError:
            return None

    # ----------------------------------------------------------------------------------------------------- changes

    def _decide(
        self,
        transactional_id: str,
        decide: Decide,
        then: Callable[[ErrorCode, Transaction | None], None],
        new_producer_id: ProducerId | None = None,
        *,
        creates: bool = False,
        appends_always: bool = False,
    ) -> None:
        """Append what `decide` returns, unless that changes nothing; `then` gets it, or the error.

        With `creates` an unknown transactional id gets a producer id. With `appends_always` the transaction is appended in
        any case: the commit proves that this broker is still the coordinator.
        """

        def taken(producer_id: ProducerId, error: PeerError | None) -> None:
            if error is None:
                self._decide(
                    transactional_id, decide, then, producer_id, creates=creates, appends_always=appends_always
                )
            else:
                then(error.error_code, None)

        try:
            coordinated, entry = self._find(transactional_id)
            if entry is None:
                if not creates:
                    raise PeerError(ErrorCode.invalid_producer_id_mapping)
                if new_producer_id is None:
                    raise ProducerIdNeededError
                created = Transaction(transactional_id, new_producer_id, updated_ms=self._context.clock.wall_ms)
                entry = coordinated.shard.ids[transactional_id] = TransactionalId(created)
            if entry.pending is not None:
                raise PeerError(ErrorCode.concurrent_transactions)
            changed = decide(entry.transaction, new_producer_id)
        except ProducerIdNeededError:
            self._producer_ids.take(taken)
            return
        except PeerError as error:
            then(error.error_code, None)
            return
        if changed is entry.transaction and not appends_always:
            then(_NONE, changed)
        else:
            self._append(coordinated, entry, changed, lambda code: then(code, changed))

    @changes_state
    def _append(
        self, coordinated: TransactionsPartition, entry: TransactionalId, changed: Transaction, then: Then
    ) -> None:
        """Append a transaction's record. Once it is committed, the entry has it; the markers of its end are sent."""
        transactional_id, shard = changed.transactional_id, coordinated.shard
        entry.pending = changed

        def committed(code: ErrorCode) -> None:
            entry.pending = None
            if code != _NONE:
                then(code)
                return
            entry.transaction = changed
            if changed.state is ONGOING:
                shard.note_open(entry, self._context.clock.now_ms)
            else:
                shard.open.pop(transactional_id, None)
            then(code)
            if changed.state in PREPARED:
                self._send_markers(coordinated, entry)
            elif entry.waiting:
                self._resume(entry)

        record = transaction_key(transactional_id), transaction_value(changed)
        self.runtime.append(coordinated, (record,), lambda _end_offset: None, committed)

    def _add(self, transactional_id: str, additions: Sequence[Addition]) -> None:
        """Add the partitions of requests of one producer, with one record."""
        producer, client_version = additions[0].producer, additions[0].client_version
        partitions = frozenset[TopicPartition]().union(*(each.partitions for each in additions))

        def decide(transaction: Transaction, _new_producer_id: ProducerId | None) -> Transaction:
            return transaction.add_partitions(producer, partitions, client_version, self._context.clock.wall_ms)

        def decided(code: ErrorCode, _changed: Transaction | None) -> None:
            # Leaders of several partitions verify at once: all but the first wait for it.
            for each in additions:
                if code == ErrorCode.concurrent_transactions and self._context.clock.now_ms < each.due_ms:
                    self._wait(transactional_id, each)
                else:
                    each.then(code)

        self._decide(transactional_id, decide, decided)

    def _wait(self, transactional_id: str, addition: Addition) -> None:
        """Repeat a request when the change or the end that is under way is complete; when it is due at the latest."""
        entry = self._known(transactional_id)
        if entry is None or (entry.pending is None and entry.transaction.state not in PREPARED):
            self._add(transactional_id, (addition,))
            return
        entry.waiting.append(addition)
        self._context.timers.arm_at_the_latest((entry, "waiting"), addition.due_ms, partial(self._resume, entry))

    def _resume(self, entry: TransactionalId) -> None:
        self._context.timers.disarm((entry, "waiting"))
        waiting, entry.waiting = entry.waiting, []
        by_producer: dict[tuple[ProducerIdAndEpoch, int], list[Addition]] = {}
        for each in waiting:
            by_producer.setdefault((each.producer, each.client_version), []).append(each)
        for additions in by_producer.values():
            self._add(entry.transaction.transactional_id, additions)

    def _send_markers(self, coordinated: TransactionsPartition, entry: TransactionalId) -> None:
        transaction = entry.transaction
        marker = TxnMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            coordinated.partition.leader_epoch,
            transaction.state is PREPARE_COMMIT,
            transaction.client_version,
        )
        entry.markers = PendingMarkers(
            transaction.transactional_id,
            marker,
            set(transaction.partitions),
            partial(self._complete, coordinated, entry),
        )
        self._sender.send(entry.markers)

    def _complete(self, coordinated: TransactionsPartition, entry: TransactionalId) -> None:
        """All markers are written: append the last record, again after an error until this broker resigns."""
        entry.markers = None

        def appended(code: ErrorCode) -> None:
            # An isolated leader gets NOT_COORDINATOR too, and its leadership may go on.
            if code != _NONE and self.runtime.is_coordinated(coordinated):
                self._context.after(entry, RETRY_MS, partial(self._complete, coordinated, entry))

        self._append(coordinated, entry, entry.transaction.complete(self._context.clock.wall_ms), appended)

    # ------------------------------------------------------------------------------------------------------ requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, then: ThenProducer
    ) -> None:
        """Give the transactional id its producer id with the next epoch; abort a transaction that is open first."""
        if not 0 < timeout_ms <= self._context.config.transaction_max_timeout_ms:
            then(ErrorCode.invalid_transaction_timeout, NO_PRODUCER)
            return

        def decided(code: ErrorCode, changed: Transaction | None) -> None:
            if code == _NONE and changed is not None and changed.state in PREPARED:
                # The client retries until the open transaction has been aborted.
                code = ErrorCode.concurrent_transactions
            then(code, NO_PRODUCER if code != _NONE or changed is None else _producer_of(changed))

        def decide(transaction: Transaction, new_producer_id: ProducerId | None) -> Transaction:
            return transaction.initialize(timeout_ms, expected, self._context.clock.wall_ms, new_producer_id)

        self._decide(transactional_id, decide, decided, creates=True)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int,
        then: Then,
    ) -> None:
        """Add partitions to the producer's transaction, which begins with the first one."""
        due_ms = self._context.clock.now_ms + WAIT_MS
        self._add(transactional_id, (Addition(producer, client_version, frozenset(partitions), due_ms, then),))

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, topic_partition: TopicPartition, then: Then
    ) -> None:
        """Call `then` with NONE if the producer's transaction has the partition."""
        try:
            _coordinated, entry = self._find(transactional_id)
        except PeerError as error:
            then(error.error_code)
            return
        if entry is None:
            then(ErrorCode.invalid_producer_id_mapping)
        else:
            then(entry.transaction.verify(producer, topic_partition))

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool,
        client_version: int,
        then: ThenProducer,
    ) -> None:
        """End the producer's transaction. `then` gets the identity of the producer's next one.

        A repetition is appended too. A former coordinator, which was paused or is isolated, would acknowledge the end of a
        later transaction as a repetition of the end that it knows: with protocol 1 both have the same epoch.
        """

        def decide(transaction: Transaction, new_producer_id: ProducerId | None) -> Transaction:
            return transaction.end(
                producer,
                is_commit=is_commit,
                client_version=client_version,
                now_ms=self._context.clock.wall_ms,
                new_producer_id=new_producer_id,
            )

        def decided(code: ErrorCode, changed: Transaction | None) -> None:
            if code != _NONE or changed is None:
                then(code, NO_PRODUCER)
            else:
                then(code, changed.next_producer)

        if self._is_adding(transactional_id, producer):
            then(ErrorCode.concurrent_transactions, NO_PRODUCER)
        else:
            self._decide(transactional_id, decide, decided, appends_always=True)

    def _is_adding(self, transactional_id: str, producer: ProducerIdAndEpoch) -> bool:
        """Whether an earlier request of the producer waits to add partitions: its end comes after that.

        In Kafka a connection's next request is read when the one before is answered. An end that overtakes the addition
        would get INVALID_TXN_STATE, which is fatal to clients, and the addition would begin a transaction without an end.
        """
        entry = self._known(transactional_id)
        return entry is not None and any(each.producer == producer for each in entry.waiting)

    def check_connection(
        self, transactional_id: str, producer: ProducerIdAndEpoch, connection_id: ConnectionId
    ) -> bool:
        """Whether a request of protocol 1 may be served: none is that was sent before a request which was served.

        A client opens a connection after it has given up the one before. So what an older connection still delivers is
        late, and could end or extend the producer's next transaction, whose epoch is the same. A producer that is fenced
        may be served: it gets its error.
        """
        entry = self._known(transactional_id)
        if entry is None or producer != _producer_of(entry.transaction):
            return True
        if connection_id < entry.connection_id:
            return False
        entry.connection_id = connection_id
        return True

    def describe(self, transactional_id: str) -> Transaction:
        """The transaction. Raises PeerError: TRANSACTIONAL_ID_NOT_FOUND, and the errors of the runtime."""
        _coordinated, entry = self._find(transactional_id)
        if entry is None:
            raise PeerError(ErrorCode.transactional_id_not_found)
        return entry.transaction

    def transactions(self) -> Iterator[Transaction]:
        """All transactions here. Raises PeerError while a partition is being loaded."""
        if any(not coordinated.shard.is_committed for coordinated in self.runtime.coordinated.values()):
            raise PeerError(ErrorCode.coordinator_load_in_progress)
        return (
            entry.transaction
            for coordinated in self.runtime.coordinated.values()
            for entry in coordinated.shard.ids.values()
        )

    # ------------------------------------------------------------------------------------------------------- timers

    def _arm(self, name: str, wait_ms: int, action: Callable[[], None]) -> None:
        def run() -> None:
            if self.runtime.coordinated:
                action()
                self._arm(name, wait_ms, action)

        self._context.within((self, name), wait_ms, run)

    def _abort_timed_out(self) -> None:
        """Abort transactions that are open for longer than their timeout, under the next epoch."""
        now_ms, wall_ms = self._context.clock.now_ms, self._context.clock.wall_ms
        for coordinated in self.runtime.loaded_partitions():
            for entry in coordinated.shard.timed_out(now_ms, wall_ms):
                transaction = entry.transaction
                self._context.notice("info", "transaction-timed-out", transactional_id=transaction.transactional_id)
                self._append(coordinated, entry, transaction.fence(wall_ms), _ignore)

    def _expire(self) -> None:
        """Remove transactional ids that are unused for `transactional.id.expiration.ms`, in steps of some hundred ids."""
        if (self, "rest") not in self._context.timers:
            self._expire_some(
                (coordinated, entry)
                for coordinated in self.runtime.loaded_partitions()
                for entry in list(coordinated.shard.ids.values())
            )

    def _expire_some(self, left: Iterator[tuple[TransactionsPartition, TransactionalId]]) -> None:
        now_ms, expiration_ms = self._context.clock.wall_ms, self._context.config.transactional_id_expiration_ms
        expired: dict[TransactionsPartition, list[tuple[TransactionalId, bytes]]] = {}
        seen = 0
        for coordinated, entry in islice(left, SLICE_ELEMENTS):
            seen += 1
            transaction = entry.transaction
            if (
                coordinated.shard.is_committed
                and entry.pending is None
                and transaction.is_expired(now_ms, expiration_ms)
                and coordinated.shard.ids.get(transaction.transactional_id) is entry
            ):
                key = transaction_key(transaction.transactional_id)
                expired.setdefault(coordinated, []).append((entry, key))
        for coordinated, entries in expired.items():
            for some in tombstone_batches(entries, coordinated.partition):
                self._remove(coordinated, some)
        if seen:
            self._context.after((self, "rest"), _SLICE_GAP_MS, partial(self._expire_some, left))

    @changes_state
    def _remove(self, coordinated: TransactionsPartition, entries: list[TransactionalId]) -> None:
        for entry in entries:
            entry.pending = entry.transaction.expire()

        def committed(code: ErrorCode) -> None:
            for entry in entries:
                entry.pending = None
                if code == _NONE:
                    del coordinated.shard.ids[entry.transaction.transactional_id]

        records = [(transaction_key(entry.transaction.transactional_id), None) for entry in entries]
        self.runtime.append(coordinated, records, lambda _end_offset: None, committed)


def _producer_of(transaction: Transaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def _ignore(_code: ErrorCode) -> None:
    """Ignore a failed append: the next round finds the same transactions."""
