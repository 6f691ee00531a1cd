"""Batches of transactions that wait until the transaction coordinator knows of their partition (KIP-890).

Only the first batch of a transaction in a partition waits, and those of the same producer behind it. A marker that is
written meanwhile outdates the answer (Kafka's VerificationGuard): the batch could open a transaction that has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.ids import LeaderEpoch, ProducerId, TopicPartition
from yak.partitions.pending_append import PendingAppend
from yak.protocol.record_batch import BatchHeader, Buffer
from yak.replication.log_append_info import LogAppendInfo
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.partitions.transaction_markers import TxnMarker

PRODUCE_ADDS_PARTITIONS: Final = 12
"""The first version of Produce whose client leaves AddPartitionsToTxn to the leader (protocol 2)."""


class BatchVerifier(Protocol):
    """Asks the transaction coordinator (`yak.transactions.verification.Verification`)."""

    def verify(
        self,
        topic_partition: TopicPartition,
        transactional_id: str,
        producer: tuple[ProducerId, int],
        produce_version: int,
        then: Callable[[ErrorCode], None],
    ) -> None:
        """Call `then` with NONE if a batch of this producer may be appended, else with the client's error."""


class _Question:
    """A question to the coordinator without an answer yet, and what waits for the answer."""

    __slots__ = ("epoch", "is_outdated", "leader_epoch", "transactional_id", "waiting")

    def __init__(self, transactional_id: str, epoch: int, leader_epoch: LeaderEpoch) -> None:
        self.transactional_id, self.epoch, self.leader_epoch = transactional_id, epoch, leader_epoch
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.is_outdated = False
        """Whether a marker of the producer was written since the coordinator was asked."""

    def refusal(self, transactional_id: str, epoch: int) -> ErrorCode | None:
        """None if the answer counts for this producer too, else its error (AddPartitionsToTxnManager.addTxnData).

        The answer about one epoch says nothing about another. A producer with a higher one, or one that names another
        transactional id, is verified by itself when it sends the batch again.
        """
        if (transactional_id, epoch) == (self.transactional_id, self.epoch):
            return None
        is_fenced = transactional_id == self.transactional_id and epoch < self.epoch
        return ErrorCode.invalid_producer_epoch if is_fenced else ErrorCode.not_enough_replicas


class TransactionalAppends:
    """What waits for the coordinator's answer, by partition and producer."""

    def __init__(self, context: Context, verifier: BatchVerifier) -> None:
        self._context, self._verifier = context, verifier
        self._questions: dict[tuple[Partition, ProducerId], _Question] = {}
        self.held_bytes = 0
        """Bytes of the batches that wait."""

    def admit(
        self,
        partition: Partition,
        header: BatchHeader,
        records: Buffer,
        acks: int,
        version: int,
        transactional_id: str | None,
        append: Callable[[Buffer], LogAppendInfo],
    ) -> LogAppendInfo | None:
        """None if a transactional batch may be appended now; else it waits, and is appended with `append`.

        Raises PeerError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id, or the verifier's error.
        """
        if transactional_id is None:
            raise PeerError(
                ErrorCode.transactional_id_authorization_failed, "a transactional batch needs a transactional id"
            )
        producer = header.producer_id, header.producer_epoch
        code = self.verify(partition, producer, version, transactional_id)
        if code == ErrorCode.none:
            return None
        if code is not None:
            self._defer(partition, header, code)
            raise _refused(code)
        held = PendingAppend(partition, header, bytes(records), acks)
        self.held_bytes += len(held.records)

        def verified(code: ErrorCode) -> None:
            self.held_bytes -= len(held.records)
            self._defer(partition, header, code)
            try:
                if code != ErrorCode.none:
                    raise _refused(code)
                held.go_on(append(held.records))
            except PeerError as error:
                held.refuse(error)

        self.wait(partition, header.producer_id, verified)
        return held

    def _defer(self, partition: Partition, header: BatchHeader, code: ErrorCode) -> None:
        """Let no later batch of the producer overtake one that it sends again (VerificationStateEntry.lowestSequence)."""
        if code == ErrorCode.not_enough_replicas:
            partition.deferred_sequences.defer(header, self._context.clock.now_ms)

    def verify(
        self, partition: Partition, producer: tuple[ProducerId, int], version: int, transactional_id: str
    ) -> ErrorCode | None:
        """Whether the producer's transaction has the partition; None if the answer comes later: `wait` for it."""
        assert partition.log is not None
        key = partition, producer[0]
        question = self._questions.get(key)
        if question is not None:
            return question.refusal(transactional_id, producer[1])
        is_needed = version >= PRODUCE_ADDS_PARTITIONS or self._context.config.transaction_partition_verification_enable
        if not is_needed or partition.log.producers.has_open_transaction(*producer):
            return ErrorCode.none
        codes: list[ErrorCode] = []

        def answered(code: ErrorCode) -> None:
            codes.append(code)
            if key in self._questions:
                self._go_on(key, code)

        self._verifier.verify(partition.topic_partition, transactional_id, producer, version, answered)
        if codes:
            return codes[0]
        self._questions[key] = _Question(transactional_id, producer[1], partition.leader_epoch)
        return None

    def wait(self, partition: Partition, producer_id: ProducerId, then: Callable[[ErrorCode], None]) -> None:
        """Call `then` with the answer that `verify` could not give."""
        self._questions[partition, producer_id].waiting.append(then)

    def _go_on(self, key: tuple[Partition, ProducerId], code: ErrorCode) -> None:
        question = self._questions.pop(key)
        partition = key[0]
        # Another leader may have written a marker in between. What this broker no longer leads is refused as such.
        is_led_again = partition.is_leader and partition.leader_epoch != question.leader_epoch
        if question.is_outdated or is_led_again:
            # retried by the client, and verified again
            code = ErrorCode.not_enough_replicas
        for then in question.waiting:
            then(code)

    def on_marker(self, partition: Partition, marker: TxnMarker) -> None:
        """A marker was written: an answer about its producer, and batches that it let pass, are outdated."""
        question = self._questions.get((partition, marker.producer_id))
        if question is not None:
            question.is_outdated = True
        if partition.pending_appends is not None:
            partition.pending_appends.on_marker(marker.producer_id)


def _refused(code: ErrorCode) -> PeerError:
    return PeerError(code, "the transaction of this batch could not be verified; nothing was written")
