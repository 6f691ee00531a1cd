"""Ends transactions in the partitions that this broker leads: it appends the coordinator's markers (KIP-98).

Kafka's KafkaApis.handleWriteTxnMarkersRequest and UnifiedLog's checks of an append from a coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.ids import ProducerId, TopicPartition
from yak.partitions.leader_appends import LeaderAppends
from yak.protocol.control_batch import EndTransactionMarker, build_marker
from yak.replication.log_append_info import LogAppendInfo
from yak.replication.partition import Partition


class TxnMarker(NamedTuple):
    """How a producer's transaction ended. From `transaction_version` 2 on, its epoch is above the transaction's (KIP-890)."""

    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int


class TransactionMarkers:
    """Appends markers as the leader. `transaction_ended` gets the partition and its marker, once that is appended."""

    def __init__(
        self,
        context: Context,
        leader_appends: LeaderAppends,
        when_acknowledged: Callable[[LogAppendInfo, Callable[[ErrorCode], None]], None],
        transaction_ended: Callable[[Partition, TxnMarker], None],
    ) -> None:
        self._context, self._leader_appends, self._when_acknowledged = context, leader_appends, when_acknowledged
        self._transaction_ended = transaction_ended

    def write(self, topic_partition: TopicPartition, marker: TxnMarker, then: Callable[[ErrorCode], None]) -> None:
        """Append a marker, as for acks=all; call `then` with NONE when it is committed, else with the error.

        Nothing was written for NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED, NOT_ENOUGH_REPLICAS and KAFKA_STORAGE_ERROR.
        """
        try:
            partition = self._leader_appends.leadership.leader_of(topic_partition)
            assert partition.log is not None
            partition.log.producers.check_marker(
                marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version
            )
            batch = build_marker(
                marker.producer_id,
                marker.producer_epoch,
                EndTransactionMarker(marker.is_commit, marker.coordinator_epoch),
                self._context.clock.wall_ms,
            )
            appended = self._leader_appends.append_own_batch(partition, batch)
        except PeerError as error:
            then(error.error_code)
            return
        self._leader_appends.transactional.on_marker(partition, marker.producer_id)
        self._transaction_ended(partition, marker)
        self._when_acknowledged(appended, then)
