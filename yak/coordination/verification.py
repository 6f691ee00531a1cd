"""Verification of transactional batches (KIP-890; Kafka's AddPartitionsToTxnManager).

Before a leader appends the first batch of a transaction to its partition, it verifies with the transaction coordinator.
With protocol 1 the coordinator says whether the transaction has the partition. So a batch that arrives after the end of
its transaction is refused, instead of opening a transaction that never ends. With protocol 2 (Produce v12) the
coordinator adds the partition, and the client sends no AddPartitionsToTxn.
"""

from __future__ import annotations

from typing import Any, Final

from yak.coordination.runtime import Then
from yak.coordination.transaction_coordinator import TransactionCoordinator
from yak.core.broker_channel import ChannelEvents
from yak.core.broker_requests import InterBrokerRequests
from yak.core.context import Context
from yak.core.peers import Peers
from yak.core.placement import partition_of
from yak.errors import ErrorCode
from yak.ids import NodeId, ProducerId, TopicPartition
from yak.lifecycle.liveness import is_serving
from yak.partitions.leader_appends import PRODUCE_ADDS_PARTITIONS
from yak.transactions.records import TRANSACTION_TOPIC
from yak.transactions.transaction import PROTOCOL_2, ProducerIdAndEpoch

_PRODUCE_KNOWS_ABORTABLE: Final = 11
_ADD_PARTITIONS_TO_TXN: Final = (24, 5)
_EVENTS: Final = ChannelEvents(
    "verification-connection-lost", "verification-coordinator-unresponsive", "verification-response-invalid"
)
_RETRIABLE: Final = (
    ErrorCode.concurrent_transactions,
    ErrorCode.network_exception,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class Verification:
    """The questions of this broker's leaders to the transaction coordinators."""

    def __init__(self, context: Context, peers: Peers, node_id: NodeId, here: TransactionCoordinator) -> None:
        self._context, self._node_id, self._here = context, node_id, here
        self.requests = InterBrokerRequests(context, peers, _EVENTS)

    def verify(
        self,
        topic_partition: TopicPartition,
        transactional_id: str,
        producer: tuple[ProducerId, int],
        produce_version: int,
        then: Then,
    ) -> None:
        """Call `then` with NONE if a batch of this producer may be appended, else with the client's error."""
        producer = ProducerIdAndEpoch(*producer)
        adds = produce_version >= PRODUCE_ADDS_PARTITIONS

        def answered(code: ErrorCode) -> None:
            then(_for_client(code, produce_version))

        if not transactional_id:
            answered(ErrorCode.invalid_request)
            return
        topic = self._context.image.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            answered(ErrorCode.coordinator_not_available)
            return
        leader_id = topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader
        if leader_id == self._node_id:
            if adds:
                self._here.add_partitions(
                    transactional_id, producer, frozenset((topic_partition,)), PROTOCOL_2, answered
                )
            else:
                self._here.verify(transactional_id, producer, topic_partition, answered)
        elif is_serving(self._context.image.brokers.get(leader_id)):
            transaction = {
                "transactional_id": transactional_id,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "verify_only": not adds,
                "topics": [{"name": topic_partition.topic, "partitions": [topic_partition.partition]}],
            }
            self.requests.to(leader_id).send(
                _ADD_PARTITIONS_TO_TXN,
                {"transactions": [transaction]},
                lambda response: answered(_code_in(response)),
            )
        else:
            answered(ErrorCode.coordinator_not_available)


def _code_in(response: Any) -> ErrorCode:
    """The error of the one partition in a response."""
    if response is None:
        return ErrorCode.network_exception
    for transaction in response.results_by_transaction:
        for topic in transaction.topic_results:
            for partition in topic.results_by_partition:
                code: ErrorCode = partition.partition_error_code
                return code
    refused: ErrorCode = response.error_code
    return ErrorCode.network_exception if refused == ErrorCode.none else refused


def _for_client(code: ErrorCode, produce_version: int) -> ErrorCode:
    """The error that the client gets (AddPartitionsToTxnManager and ReplicaManager.handleProduceAppend)."""
    if code == ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if code == ErrorCode.transaction_abortable and produce_version < _PRODUCE_KNOWS_ABORTABLE:
        return ErrorCode.invalid_txn_state
    if code == ErrorCode.concurrent_transactions and produce_version >= PRODUCE_ADDS_PARTITIONS:
        return code
    # Producers repeat the batch after this error, and fetch no metadata.
    return ErrorCode.not_enough_replicas if code in _RETRIABLE else code
