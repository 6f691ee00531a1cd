"""The leader's view of one follower: its log end, its broker epoch, and when it was last caught up.

All of it comes from the follower's own fetches in the current leader epoch: a fetch offset says that the follower's log
holds all records before it (KIP-101, KIP-320). Rules: Kafka's Replica.scala.
"""

from __future__ import annotations

from yak.ids import BrokerEpoch, NodeId, Offset

UNKNOWN_OFFSET = -1


class Replica:
    """One follower in one leader epoch. `log_end_offset` is -1 until its first fetch."""

    __slots__ = (
        "broker_epoch",
        "furthest_offset",
        "has_left",
        "is_regressed",
        "last_caught_up_ms",
        "last_fetch_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: NodeId, now_ms: int) -> None:
        self.node_id = node_id
        self.broker_epoch: BrokerEpoch = -1
        self.has_left = False
        """Whether the follower left the ISR by itself since its last fetch: its earlier offsets no longer count."""
        self.furthest_offset: Offset = UNKNOWN_OFFSET
        """The highest log end accepted under this broker epoch."""
        self.is_regressed = False
        """Whether the last fetch named a lower log end than an earlier one under this broker epoch."""
        self.log_end_offset: Offset = UNKNOWN_OFFSET
        self.log_start_offset: Offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = now_ms
        """A follower counts as caught up when its leader is elected, so that it has time to fetch."""
        self.last_fetch_end_offset: Offset = UNKNOWN_OFFSET
        self.last_fetch_ms = now_ms

    def fetched(
        self,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        now_ms: int,
    ) -> bool:
        """Record a fetch; False when it is of an older broker epoch, or its fetch offset is below an earlier one.

        Within a broker epoch neither end of the log moves back: acknowledged records stay, and deleted records are
        gone. A lower offset comes from a fetch that arrived late, or from a log that lost acknowledged records. It is
        not taken, and `log_end_offset` becomes unknown until the follower is back at the earlier end.

        A follower is caught up when it fetches from the leader's log end. It counts as caught up at its previous fetch
        when it now has all that the leader had then, so a follower slightly behind a busy leader stays in the ISR.
        """
        if broker_epoch < self.broker_epoch:
            return False
        if broker_epoch > self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.last_fetch_end_offset = UNKNOWN_OFFSET
            self.furthest_offset = self.log_start_offset = UNKNOWN_OFFSET
        elif self.has_left:
            # It began a full resync, or left the ISR by itself: its earlier offsets no longer count.
            self.furthest_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.is_regressed = fetch_offset < self.furthest_offset
        if self.is_regressed:
            self.log_end_offset = UNKNOWN_OFFSET
            return False
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_end_offset != UNKNOWN_OFFSET and fetch_offset >= self.last_fetch_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.has_left = False
        self.log_end_offset = self.furthest_offset = fetch_offset
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        self.last_fetch_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms
        return True

    def is_caught_up(self, leader_end_offset: Offset, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower may stay in the ISR: at the leader's log end now, or within the last `lag_max_ms`."""
        return self.log_end_offset >= leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms

    def __repr__(self) -> str:
        return f"Replica({self.node_id}@{self.broker_epoch}, {self.log_end_offset})"
