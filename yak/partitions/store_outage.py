"""What a broker does while its metadata store does not answer: Redis is down, or the quorum has no leader.

Records do not pass through the store, so produce and fetch go on, on the leaders of the image:

- A leader leads on, for as long as a follower fetches from it, or if it has none: no other broker can be elected. When
  the store and all its followers were silent for a session timeout, the leader may be alone on its side of a partition
  of the network. It then refuses appends with NOT_LEADER_OR_FOLLOWER, and Metadata and FindCoordinator name no leader.
- `acks=all` waits for the ISR of the image, which cannot change: a follower that dies blocks it until the store is back.
- Committed offsets are answered, and the broker stays ready for clients.
- A controlled shutdown moves no leaderships away.

What needs the store waits or is refused, by the broker lifecycle (`yak/cluster/broker_lifecycle.py`): clients' changes are
refused with REQUEST_TIMED_OUT (`BrokerLifecycle.refusal`). ISR changes and other changes of the broker's own are sent
again when the store is back (`Changes.resend`). Heartbeats, elections and fencings pause (`BrokerLifecycle.on_lost`), and
the session timeouts of all brokers start again with the next answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.image import PartitionInfo
from yak.core.context import Context
from yak.ids import NodeId, TopicPartition
from yak.lifecycle.liveness import is_serving
from yak.lifecycle.metadata import Metadata
from yak.replication.partition import Partition

HEARTBEAT_WAIT_MS: Final = 20
"""The next heartbeat is sent within this time; clients retry after 100 ms or more."""
CONFIRMATION_MS: Final = 10_000
"""A confirmation requested longer ago is void, and requested again: the client of that request is gone."""
STORE_BACK_MS: Final = 2_000
"""A connection to the store that a local pause ended is open again within this time, if the store is up."""
StoreState: TypeAlias = Literal["connected", "lost", "frozen"]
"""The metadata store as this broker sees it; frozen: it lacks the history that this broker knows."""


class StoreOutage:
    """The present outage of the store, and what it means for the partitions that this broker leads."""

    def __init__(
        self,
        context: Context,
        metadata: Metadata,
        session_timeout_ms: int,
        partitions: Mapping[TopicPartition, Partition],
        last_fetch_ms: Mapping[NodeId, int],
    ) -> None:
        self._context, self._metadata, self._session_timeout_ms = context, metadata, session_timeout_ms
        self._partitions, self._last_fetch_ms = partitions, last_fetch_ms
        """`last_fetch_ms`: when each follower last fetched."""
        self.since_ms: int | None = None
        """When the store stopped answering; None while it answers."""
        self.count = 0
        self.past_ms = 0
        """Duration of past outages."""

    def began(self) -> None:
        """The store does not answer."""
        if self.since_ms is None:
            self.since_ms = self._context.clock.now_ms
            self.count += 1

    def ended(self) -> None:
        """The store is connected."""
        self.past_ms += self.present_ms(self._context.clock.now_ms) or 0
        self.since_ms = None

    def present_ms(self, now_ms: int) -> int | None:
        """Duration of the present outage; None while the store answers."""
        return None if self.since_ms is None else max(0, now_ms - self.since_ms)

    # ------------------------------------------------------------------------------------------------- this broker

    @property
    def store_state(self) -> StoreState:
        """The store as this broker sees it."""
        if self._metadata.lifecycle.state is LifecycleState.FROZEN:
            return "frozen"
        return "connected" if self.since_ms is None else "lost"

    @property
    def unready_reason(self) -> str:
        """Why clients should use other brokers; empty if there is no reason.

        A broker that serves stays ready in an outage, and while it joins again after one, unless it was fenced.
        """
        lifecycle = self._metadata.lifecycle
        own = self._context.image.brokers.get(lifecycle.identity.node_id)
        if lifecycle.state is LifecycleState.ACTIVE:
            return ""
        if lifecycle.is_ready and self.store_state != "frozen" and own is not None and is_serving(own):
            return ""
        return f"this broker is {lifecycle.state.value}" + (f": {lifecycle.reason}" if lifecycle.reason else "")

    # ---------------------------------------------------------------------------------------- partitions that it leads

    def is_isolated(self, partition: Partition) -> bool:
        """Whether the store and all followers were silent for a session timeout: another broker may lead."""
        if self.since_ms is None or not partition.replica_states:
            return False
        silent_ms = self._context.clock.now_ms - self._session_timeout_ms
        return self.since_ms <= silent_ms and all(
            self._last_fetch_ms.get(node_id, 0) <= silent_ms for node_id in partition.replica_states
        )

    def is_isolated_leader(self, topic: str, info: PartitionInfo) -> bool:
        """Whether this broker leads in its image, but is isolated: Metadata must not name it as leader."""
        if self.since_ms is None or info.leader != self._metadata.lifecycle.identity.node_id:
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
        check_ms = partition.store_check_ms
        if check_ms is not None and now_ms - check_ms >= CONFIRMATION_MS:
            check_ms = None
        if check_ms is None:
            partition.store_check_ms = now_ms
        elif heartbeats.accepted_ms > check_ms and self._context.image.offset >= heartbeats.accepted_offset:
            partition.store_check_ms = None
            return True
        self._metadata.heartbeat_by(now_ms + HEARTBEAT_WAIT_MS)
        return False

    def may_have_successor(self, partition: Partition) -> bool:
        """Whether a local pause may have ended this broker's leadership, and the store will answer in a moment. No
        successor is elected while the store is down, or refuses every change."""
        is_away = self.since_ms is not None and self._context.clock.now_ms - self.since_ms >= STORE_BACK_MS
        is_away = is_away or self.store_state == "frozen" or self._refuses_changes()
        return not is_away and self.may_be_fenced(partition)

    def _refuses_changes(self) -> bool:
        """Whether the store is connected, and refuses this broker's heartbeats as it refuses every change: out of memory.

        A pause of a session timeout since the newest one proves nothing, nor does the first one after a pause: this
        broker may have been fenced before, which the tail of the metadata log tells.
        """
        refused_ms = self._metadata.lifecycle.heartbeats.refused_ms
        if refused_ms is None:
            return False
        first_ms, newest_ms = refused_ms
        is_recent = self._context.clock.now_ms - newest_ms < self._session_timeout_ms
        return is_recent and newest_ms - first_ms >= STORE_BACK_MS
