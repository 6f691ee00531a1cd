"""Fetch offsets outside of this broker's log: out of range, or in the log of a newer leader.

A client that gets OFFSET_OUT_OF_RANGE resets its position (`auto.offset.reset`). Kafka guards this by the client's
leader epoch (KIP-320). But a client that loses the new leader may take leader and epoch from an old one that does not
know of the election. So a leader with followers answers NOT_LEADER_OR_FOLLOWER for an offset beyond its end, and the
client retries. It answers OFFSET_OUT_OF_RANGE only after the store confirmed its leadership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yak.ids import LeaderEpoch, Offset
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

BEAT_MS: Final = 20
"""The next heartbeat is sent within this time; clients retry after 100 ms or more."""
ASKED_MS: Final = 10_000
"""A confirmation requested longer ago is void, and requested again: the client of that request is gone."""


def may_be_elsewhere(broker: Broker, partition: Partition, offset: Offset, current_leader_epoch: LeaderEpoch) -> bool:
    """Whether a consumer with an `offset` outside of the log must look for the leader first."""
    if partition.is_follower:
        # A client without a leader epoch takes this follower for the leader.
        return current_leader_epoch < 0
    assert partition.log is not None
    if offset < partition.log.log_start_offset:
        return current_leader_epoch < 0 and broker.metadata.may_be_fenced(partition)
    return bool(partition.replica_states) and not _still_leads(broker, partition)


def _still_leads(broker: Broker, partition: Partition) -> bool:
    """Whether the store accepted a heartbeat since the first request, and the image includes all it knew then."""
    heartbeats = broker.metadata.lifecycle.heartbeats
    asked_ms = partition.asked_beyond_ms
    if asked_ms is not None and broker.now_ms - asked_ms >= ASKED_MS:
        asked_ms = None
    if asked_ms is not None and heartbeats.accepted_ms > asked_ms and broker.image.offset >= heartbeats.accepted_offset:
        partition.asked_beyond_ms = None
        return True
    if asked_ms is None:
        partition.asked_beyond_ms = broker.now_ms
    heartbeats.hasten(broker.now_ms + BEAT_MS)
    return False
