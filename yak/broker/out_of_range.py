"""Offsets that our log lacks: nowhere, or with another leader that we do not know of.

Who is told that an offset is out of range begins anew somewhere (`auto.offset.reset`). Kafka tells it by its leader epoch
(KIP-320); but a client that reads from the new leader, loses it, and asks an old one who leads, is told what that one
believes, and comes with its epoch. So a leader with followers says that an offset is behind its end only after the store has
told it that it still leads; until then it says NOT_LEADER_OR_FOLLOWER, and the client asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yak.ids import LeaderEpoch, Offset
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

BEAT_MS: Final = 20
"""So soon the store is asked; clients ask again after 100 ms and more."""
ASKED_MS: Final = 10_000
"""Whoever asked so long ago does not ask again: what the store said since then is too old for another."""


def may_be_elsewhere(broker: Broker, partition: Partition, offset: Offset, current_leader_epoch: LeaderEpoch) -> bool:
    """Whether a consumer that asks for an `offset` outside of our log is to ask for the leader first."""
    if partition.is_follower:
        # who does not say in which epoch takes us for the leader
        return current_leader_epoch < 0
    assert partition.log is not None
    if offset < partition.log.log_start_offset:
        return current_leader_epoch < 0 and broker.metadata.may_be_fenced(partition)
    return bool(partition.replica_states) and not _still_leads(broker, partition)


def _still_leads(broker: Broker, partition: Partition) -> bool:
    """Whether the store took a heartbeat since this was asked first, and we know all that it knew then."""
    heart = broker.metadata.membership.heart
    asked_ms = partition.asked_beyond_ms
    if asked_ms is not None and broker.now_ms - asked_ms >= ASKED_MS:
        asked_ms = None
    if asked_ms is not None and heart.counted_ms > asked_ms and broker.image.offset >= heart.counted_offset:
        partition.asked_beyond_ms = None
        return True
    if asked_ms is None:
        partition.asked_beyond_ms = broker.now_ms
    heart.hasten(broker.now_ms + BEAT_MS)
    return False
