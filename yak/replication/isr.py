"""Who belongs in the in-sync set: what a leader proposes to the metadata store, read from what its followers told it.

A follower joins when its log reaches the high watermark and the start of the present leader epoch: with the first alone it
could lack what an earlier leader committed (the model of KIP-320). It stays while it was caught up within
`replica.lag.time.max.ms`, and while its broker is alive in the boot in which it joined (KIP-841, KIP-903).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from yak.ids import BrokerEpoch, NodeId, PartitionEpoch

if TYPE_CHECKING:
    from yak.replication.partition import Partition

Member: TypeAlias = tuple[NodeId, BrokerEpoch]
"""A broker in one boot."""
EpochOf: TypeAlias = Callable[[NodeId], BrokerEpoch]
"""The epoch in which a broker is alive and stays so (ACTIVE); -1 for one that is not."""


class IsrProposal:
    """A change of one partition's ISR on its way to the store: compare-and-set by `partition_epoch`, known by `nonce`."""

    __slots__ = ("expands", "members", "min_isr", "nonce", "partition_epoch", "shrinks")

    def __init__(self, members: tuple[Member, ...], partition_epoch: PartitionEpoch, min_isr: int, nonce: str) -> None:
        self.members = members
        self.partition_epoch = partition_epoch
        self.min_isr = min_isr
        self.nonce = nonce
        self.expands = self.shrinks = False
        """What it does to the committed ISR; may be both."""


def wanted_isr(
    partition: Partition, epoch_of: EpochOf, own_epoch: BrokerEpoch, now_ms: int, lag_max_ms: int
) -> tuple[Member, ...] | None:
    """The ISR that this leader would have, in the order of the replicas; None when it is the committed one.

    None too when nothing may be proposed: not the leader, a change under way, or our own registration is newer than
    our membership (the controller elects then).
    """
    log = partition.log
    if not partition.is_leader or log is None or partition.pending_isr is not None or len(partition.replicas) == 1:
        return None
    committed = dict(partition.isr_members)
    if committed.get(partition.node_id) != own_epoch:
        return None
    end = log.log_end_offset
    joins_at = max(partition.high_watermark, partition.epoch_start_offset)
    wanted: list[Member] = []
    for node_id in partition.replicas:
        if node_id == partition.node_id:
            wanted.append((node_id, own_epoch))
            continue
        epoch, replica = epoch_of(node_id), partition.replica_states[node_id]
        if epoch < 0:
            continue
        is_member = committed.get(node_id) == epoch
        joins = not replica.has_left and replica.broker_epoch == epoch and replica.log_end_offset >= joins_at
        if not is_member and not joins:
            continue
        # asked of those that join too: one that stopped fetching would be let out again at the next look, and so on
        if replica.is_caught_up(end, now_ms, lag_max_ms):
            wanted.append((node_id, epoch))
    return None if dict(wanted) == committed else tuple(wanted)


def may_join(partition: Partition, node_id: NodeId) -> bool:
    """Whether a follower outside of the ISR reached what it must have; a cheap look at each of its fetches."""
    replica = partition.replica_states[node_id]
    isr = partition.isr
    if node_id in isr and replica.broker_epoch == partition.isr_epochs[isr.index(node_id)]:
        return False
    return replica.log_end_offset >= max(partition.high_watermark, partition.epoch_start_offset)
