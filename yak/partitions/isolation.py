"""Whether this broker's leaderships may be over, because the store or its followers did not answer for too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.image import PartitionInfo
from yak.core.context import Context
from yak.ids import NodeId, TopicPartition
from yak.lifecycle.metadata import Metadata
from yak.replication.partition import Partition

HEARTBEAT_WAIT_MS: Final = 20
"""The next heartbeat is sent within this time; clients retry after 100 ms or more."""
CONFIRMATION_MS: Final = 10_000
"""A confirmation requested longer ago is void, and requested again: the client of that request is gone."""
STORE_BACK_MS = 2_000
"""A connection to the store that a local pause ended is open again within this time, if the store is up."""


class Isolation:
    """Compares the last signs of life of the store and of the followers with the session timeout."""

    def __init__(
        self,
        context: Context,
        metadata: Metadata,
        session_timeout_ms: int,
        partitions: Mapping[TopicPartition, Partition],
        heard_ms: Mapping[NodeId, int],
    ) -> None:
        self._context, self._metadata, self._session_timeout_ms = context, metadata, session_timeout_ms
        self._partitions, self._heard_ms = partitions, heard_ms
        """`heard_ms`: when each follower last fetched."""

    def is_isolated(self, partition: Partition) -> bool:
        """Whether the store and all followers were silent for a session timeout: another broker may lead."""
        if self._metadata.store_lost_ms is None or not partition.replica_states:
            return False
        since_ms = self._context.clock.now_ms - self._session_timeout_ms
        return self._metadata.store_lost_ms <= since_ms and all(
            self._heard_ms.get(node_id, 0) <= since_ms for node_id in partition.replica_states
        )

    def is_isolated_leader(self, topic: str, info: PartitionInfo) -> bool:
        """Whether this broker leads in its image, but is isolated: it refuses writes, so Metadata must not name it as
        leader."""
        if self._metadata.store_lost_ms is None or info.leader != self._metadata.lifecycle.identity.node_id:
            return False
        partition = self._partitions.get(TopicPartition(topic, info.partition))
        return partition is not None and self.is_isolated(partition)

    def may_be_fenced(self, partition: Partition) -> bool:
        """Whether another broker may lead, with records that this broker lacks.

        True when the store accepted no heartbeat of this broker for a session timeout. Until then this broker counts as
        alive, so a new leader waits for it before it exposes a record. The time is measured from when the heartbeat was
        sent, which is no later than when the store accepted it.
        """
        if not partition.replica_states:
            return False
        return self._context.clock.now_ms - self._metadata.lifecycle.heartbeats.accepted_ms >= self._session_timeout_ms

    def still_leads(self, partition: Partition) -> bool:
        """Whether the store accepted a heartbeat since the first request, and the image includes all it knew then."""
        heartbeats, now_ms = self._metadata.lifecycle.heartbeats, self._context.clock.now_ms
        asked_ms = partition.asked_beyond_ms
        if asked_ms is not None and now_ms - asked_ms >= CONFIRMATION_MS:
            asked_ms = None
        if asked_ms is None:
            partition.asked_beyond_ms = now_ms
        elif heartbeats.accepted_ms > asked_ms and self._context.image.offset >= heartbeats.accepted_offset:
            partition.asked_beyond_ms = None
            return True
        self._metadata.heartbeat_by(now_ms + HEARTBEAT_WAIT_MS)
        return False

    def may_have_successor(self, partition: Partition) -> bool:
        """Whether a local pause may have ended this broker's leadership, and the store will answer in a moment. No
        successor is elected while the store is away."""
        is_away = (
            self._metadata.store_lost_ms is not None
            and self._context.clock.now_ms - self._metadata.store_lost_ms >= STORE_BACK_MS
        )
        return not (is_away or self._metadata.lifecycle.state is LifecycleState.FROZEN) and self.may_be_fenced(
            partition
        )
