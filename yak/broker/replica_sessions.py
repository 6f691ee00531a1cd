"""What a leader remembers of one follower's fetches: a session over one connection, and its partitions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from yak.ids import BrokerEpoch, NodeId
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.connections import Connection


class ReplicaItem:
    """One partition of one follower's session."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "is_fresh",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_id",
        "waits_for_follower",
    )

    def __init__(self, topic_id: uuid.UUID, index: int) -> None:
        self.topic_id = topic_id
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


class ReplicaSession:
    """What one follower fetches from us over one connection."""

    __slots__ = ("broker_epoch", "connection", "dirty", "epoch", "items", "node_id", "parked", "session_id")

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

    def mark_dirty(self, item: ReplicaItem) -> None:
        """There may be something new for the follower."""
        if not item.waits_for_follower:
            self.dirty[item] = None
