"""What a leader knows of one follower: how far its log goes, in which boot, and when it was last caught up.

Everything here was told by the follower's own fetches in the present leader epoch: a fetch offset says that all before
it is in the follower's log (KIP-101, KIP-320). Rules: Kafka's Replica.scala.
"""

from __future__ import annotations

from yak.ids import BrokerEpoch, NodeId, Offset

UNKNOWN_OFFSET = -1


class Replica:
    """One follower in one leader epoch. `log_end_offset` is -1 until it fetched."""

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
        """Whether it left the ISR by itself since it last fetched: what it told before says nothing any more."""
        self.furthest_offset: Offset = UNKNOWN_OFFSET
        """The highest end that was taken from this boot."""
        self.is_regressed = False
        """Whether the last fetch named a lower end than this boot had told before."""
        self.log_end_offset: Offset = UNKNOWN_OFFSET
        self.log_start_offset: Offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = now_ms
        """A new leader gives everyone the time to fetch: they count as caught up when it takes office."""
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
        """Take what a fetch says; False when it is of an older boot than one seen already, or its end is below one told before.

        Within a boot neither end of the log moves back: what a follower has acknowledged it has, and what it deleted is
        gone. A lower end is that of an earlier fetch that came late, or of a log that lost acknowledged records. It is not
        taken, and the earlier end counts no more (`log_end_offset` is unknown) until the follower is there again.
        A follower counts as caught up when it fetches from the leader's end, and as of the fetch before when it has now all
        that the leader had then: so one that is always a little behind a busy leader stays in sync.
        """
        if broker_epoch < self.broker_epoch:
            return False
        if broker_epoch > self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.last_fetch_end_offset = UNKNOWN_OFFSET
            self.furthest_offset = self.log_start_offset = UNKNOWN_OFFSET
        elif self.has_left:
            # It gave its log up, or left the ISR by itself, and begins again: what it told before counts for nothing.
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
        """Whether it may stay in the ISR: at the leader's end now, or there within `lag_max_ms`."""
        return self.log_end_offset >= leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms

    def __repr__(self) -> str:
        return f"Replica({self.node_id}@{self.broker_epoch}, {self.log_end_offset})"
