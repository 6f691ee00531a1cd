"""The ISR that a leader proposes to the metadata store, computed from its followers' fetches.

A follower joins when its log reaches both the high watermark and the start of the current leader epoch: with only the
first it could lack records that an earlier leader committed (the model of KIP-320). It stays while it was caught up
within `replica.lag.time.max.ms` and its broker is alive under the epoch with which it joined (KIP-841, KIP-903).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from yak.ids import BrokerEpoch, NodeId, PartitionEpoch

if TYPE_CHECKING:
    from yak.replication.partition import Partition

Member: TypeAlias = tuple[NodeId, BrokerEpoch]
"""A broker and its epoch."""
EpochOf: TypeAlias = Callable[[NodeId], BrokerEpoch]
"""The epoch under which a broker is ACTIVE; -1 for one that is not."""


class IsrProposal:
    """A change of one partition's ISR sent to the store: compare-and-set by `partition_epoch`, with a `nonce`."""

    __slots__ = ("expands", "members", "min_isr", "nonce", "partition_epoch", "shrinks")

    def __init__(self, members: tuple[Member, ...], partition_epoch: PartitionEpoch, min_isr: int, nonce: str) -> None:
        self.members = members
        self.partition_epoch = partition_epoch
        self.min_isr = min_isr
        self.nonce = nonce
        self.expands = self.shrinks = False
        """The effect on the committed ISR; both may be true."""


def wanted_isr(
    partition: Partition, epoch_of: EpochOf, own_epoch: BrokerEpoch, now_ms: int, lag_max_ms: int
) -> tuple[Member, ...] | None:
    """The ISR that this leader would propose, in the order of the replicas; None when it is the committed one.

    Also None when nothing may be proposed: it is not the leader, a change is under way, or the ISR has another epoch of
    this broker than its registration (the controller elects then).
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
        # Joining followers need it too: otherwise one that stopped fetching would leave and rejoin for ever.
        if replica.is_caught_up(end, now_ms, lag_max_ms):
            wanted.append((node_id, epoch))
    return None if dict(wanted) == committed else tuple(wanted)


def may_join(partition: Partition, node_id: NodeId) -> bool:
    """Whether a follower outside the ISR has caught up enough to join it; cheap enough for each of its fetches."""
    replica = partition.replica_states[node_id]
    isr = partition.isr
    if node_id in isr and replica.broker_epoch == partition.isr_epochs[isr.index(node_id)]:
        return False
    return replica.log_end_offset >= max(partition.high_watermark, partition.epoch_start_offset)
