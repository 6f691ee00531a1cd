"""What a leader remembers of one follower's fetches: a session over one connection, and its partitions."""

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
        """As an answer has it."""
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
        """Named by the follower since it was last looked at: what it says was not taken yet."""
        self.waits_for_follower = False
        """It was given something to act on; nothing more for it until it is named again."""
        self.given_offset = -1
        """Where the records began that it was given last."""
        self.asks_again = False
        """It asks for the records that it was given last: it may have refused them as damaged."""

    def ask(
        self,
        fetch_offset: Offset,
        last_fetched_epoch: LeaderEpoch,
        current_leader_epoch: LeaderEpoch,
        log_start_offset: Offset,
        max_bytes: int,
    ) -> None:
        """The follower names it: what it has, and wants."""
        self.asks_again = fetch_offset == self.given_offset
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.current_leader_epoch = current_leader_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes
        self.is_fresh, self.waits_for_follower = True, False


class ReplicaSession:
    """What one follower fetches from us over one connection."""

    __slots__ = (
        "broker_epoch",
        "connection",
        "dirty",
        "epoch",
        "image",
        "items",
        "may_learn",
        "named",
        "node_id",
        "parked",
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
        self.parked: Any = None
        """The fetch of this session that waits, if one does."""
        self.request_wait_ms = self.request_bytes_max = 0
        """What the last request said of the longest wait and the largest answer."""
        self.image: Image | None = None
        """The cluster's metadata by which the last request was found to be of a follower of ours."""
        self.pattern: FetchPattern | None = None
        """How its requests for one partition look."""
        self.may_learn = False
        """The request in hand is of this session, and there is no pattern yet."""
        self.named: dict[bytes, ReplicaItem] = {}
        """The items by how such a request names them."""

    def add(self, topic_id: uuid.UUID, index: int) -> ReplicaItem:
        """The follower names a partition for the first time."""
        item = self.items[topic_id, index] = ReplicaItem(topic_id, index)
        self.named[partition_name(topic_id, index)] = item
        return item

    def remove(self, topic_id: uuid.UUID, index: int) -> ReplicaItem | None:
        """The follower wants it no more; None when it never did."""
        self.named.pop(partition_name(topic_id, index), None)
        return self.items.pop((topic_id, index), None)

    def learn(self, frame: Buffer) -> None:
        """Take the request in hand, which was found in order, for the pattern of those to come."""
        self.may_learn = False
        self.pattern = FetchPattern.of(frame)

    def mark_dirty(self, item: ReplicaItem) -> None:
        """There may be something new for the follower."""
        if not item.waits_for_follower:
            self.dirty[item] = None
