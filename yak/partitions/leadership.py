"""Whether this broker leads a partition, and what refuses an append to it.

`Leadership.check_append` has every fence of an append except those of its producer, which `yak.storage.producer_state`
has. Each append passes it: a client's batch, the same batch after its verification or its job, a coordinator's batch, a
marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.replication.partition import Partition
from yak.storage.log import Log

ACKS_ALL: Final = -1


class Leadership:
    """The partitions that this broker has and leads."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        is_isolated: Callable[[Partition], bool],
    ) -> None:
        self._context, self._partitions, self._is_isolated = context, partitions, is_isolated
        self.is_stopping = False
        """This broker leads no partition any more: it is in controlled shutdown, and others take over."""

    def stop(self) -> None:
        """Lead no partition any more, and refuse the batches that wait."""
        self.is_stopping = True
        for partition in self._partitions.values():
            if partition.pending_appends is not None:
                partition.pending_appends.fail(ErrorCode.not_leader_or_follower)

    def replica_of(self, topic_partition: TopicPartition) -> Partition:
        """The partition, if this broker has a replica of it, as leader or follower.

        Raises PeerError: UNKNOWN_TOPIC_OR_PARTITION when it does not exist, NOT_LEADER_OR_FOLLOWER without a replica
        here, KAFKA_STORAGE_ERROR when its log is offline (Kafka's ReplicaManager.getPartitionOrError).
        """
        partition = self._partitions.get(topic_partition)
        if partition is None:
            topic = self._context.image.topics.get(topic_partition.topic)
            if topic is not None and 0 <= topic_partition.partition < len(topic.partitions):
                raise PeerError(ErrorCode.not_leader_or_follower, "this broker has no replica of the partition")
            raise PeerError(ErrorCode.unknown_topic_or_partition, f"{topic_partition} does not exist")
        if partition.log is None:
            raise _offline()
        return partition

    def leader_of(self, topic_partition: TopicPartition) -> Partition:
        """The partition, if this broker leads it. Raises PeerError as `replica_of`, and NOT_LEADER_OR_FOLLOWER."""
        partition = self.replica_of(topic_partition)
        if not self.leads(partition):
            raise _led_elsewhere(partition)
        return partition

    def leads(self, partition: Partition) -> bool:
        """Whether this broker leads the partition, has its log, and is not stopping.

        `Partition.is_leader` is false for a leader of an earlier incarnation of this broker.
        """
        return partition.is_leader and partition.log is not None and not self.is_stopping

    def check_append(self, partition: Partition, acks: int, *, may_queue: bool = False) -> Log:
        """The log, if this broker may append to the partition now (Kafka's Partition.appendRecordsToLeader).

        Raises PeerError: KAFKA_STORAGE_ERROR when the log is offline, NOT_LEADER_OR_FOLLOWER when another broker leads or may lead,
        NOT_ENOUGH_REPLICAS with acks=all below `min.insync.replicas`, and while the log is handed over to another
        directory, unless the batch `may_queue` until then.
        """
        log = partition.log
        if log is None:
            raise _offline()
        if not partition.is_leader or self.is_stopping:
            raise _led_elsewhere(partition)
        if self._is_isolated(partition):
            raise PeerError(
                ErrorCode.not_leader_or_follower,
                "this leader is isolated: it reaches neither the metadata store nor a follower; nothing was written",
            )
        if acks == ACKS_ALL and partition.is_under_min_isr:
            minimum = log.config.min_insync_replicas
            raise PeerError(
                ErrorCode.not_enough_replicas,
                f"the ISR has {len(partition.isr)} replicas, min.insync.replicas={minimum}; nothing was written",
            )
        if not may_queue and partition.is_handed_over:
            raise PeerError(ErrorCode.not_enough_replicas, "the log moves to another directory; nothing was written")
        return log


def _offline() -> PeerError:
    return PeerError(ErrorCode.kafka_storage_error, "the log directory of this partition is offline")


def _led_elsewhere(partition: Partition) -> PeerError:
    words = f"broker {partition.leader_id} leads {partition.topic_partition}"
    return PeerError(ErrorCode.not_leader_or_follower, words)
