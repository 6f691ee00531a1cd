"""A follower's fetch session at the leader: one connection, and its partitions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from yak.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset
from yak.protocol.hot_pieces import id_bytes
from yak.protocol.repeated_fetch import FetchPattern, partition_name
from yak.replication.partition import Partition
from yak.seams.disk import Buffer

if TYPE_CHECKING:
    from yak.broker.connections import Connection
    from yak.cluster.image import Image


class ReplicaItem:
    """One partition of one follower's session."""

    __slots__ = (
        "asks_again",
        "current_leader_epoch",
        "fetch_offset",
        "given_offset",
        "index",
        "is_fresh",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "raw_topic_id",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_id",
        "waits_for_follower",
    )

    def __init__(self, topic_id: uuid.UUID, index: int) -> None:
        self.topic_id = topic_id
        self.raw_topic_id = id_bytes(topic_id)
        """The topic id as an answer encodes it."""
        self.index = index
        self.partition: Partition | None = None
        self.fetch_offset = 0
        self.last_fetched_epoch = -1
        self.current_leader_epoch = -1
        self.log_start_offset = -1
        self.max_bytes = 0
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.is_fresh = True
        """Named by the follower since the last read: its fetch offset is not counted yet."""
        self.waits_for_follower = False
        """The last answer needs an action of the follower; no further one until it names the partition again."""
        self.given_offset = -1
        """Base offset of the records that were sent last."""
        self.asks_again = False
        """The follower fetches the same records again: it may have refused them as damaged."""

    def ask(
        self,
        fetch_offset: Offset,
        last_fetched_epoch: LeaderEpoch,
        current_leader_epoch: LeaderEpoch,
        log_start_offset: Offset,
        max_bytes: int,
    ) -> None:
        """Take a partition of the follower's request: its fetch position and limits."""
        self.asks_again = fetch_offset == self.given_offset
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.current_leader_epoch = current_leader_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes
        self.is_fresh, self.waits_for_follower = True, False


class ReplicaSession:
    """The partitions that one follower fetches over one connection."""

    __slots__ = (
        "broker_epoch",
        "connection",
        "delayed_fetch",
        "dirty",
        "epoch",
        "image",
        "items",
        "may_learn",
        "named",
        "node_id",
        "pattern",
        "request_bytes_max",
        "request_wait_ms",
        "session_id",
    )

    def __init__(self, session_id: int, node_id: NodeId, broker_epoch: BrokerEpoch, connection: Connection) -> None:
        self.session_id = session_id
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.connection = connection
        self.epoch = 1
        self.items: dict[tuple[uuid.UUID, int], ReplicaItem] = {}
        self.dirty: dict[ReplicaItem, None] = {}
        self.delayed_fetch: Any = None
        """The fetch of this session that waits (a ReplicaFetch), or None."""
        self.request_wait_ms = self.request_bytes_max = 0
        """Longest wait and largest answer, from the last request."""
        self.image: Image | None = None
        """The image in which the last full check accepted the follower."""
        self.pattern: FetchPattern | None = None
        """The byte pattern of this session's requests for one partition."""
        self.may_learn = False
        """Whether the current request belongs to this session and there is no pattern yet."""
        self.named: dict[bytes, ReplicaItem] = {}
        """The items by their bytes in such a request."""

    def add(self, topic_id: uuid.UUID, index: int) -> ReplicaItem:
        """Add a partition that the follower names for the first time."""
        item = self.items[topic_id, index] = ReplicaItem(topic_id, index)
        self.named[partition_name(topic_id, index)] = item
        return item

    def remove(self, topic_id: uuid.UUID, index: int) -> ReplicaItem | None:
        """Remove a partition that the follower forgets; None when it is not in the session."""
        self.named.pop(partition_name(topic_id, index), None)
        return self.items.pop((topic_id, index), None)

    def learn(self, frame: Buffer) -> None:
        """Take the current, accepted request as the pattern of later ones."""
        self.may_learn = False
        self.pattern = FetchPattern.of(frame)

    def mark_dirty(self, item: ReplicaItem) -> None:
        """Mark a partition that may have something new for the follower."""
        if not item.waits_for_follower:
            self.dirty[item] = None
