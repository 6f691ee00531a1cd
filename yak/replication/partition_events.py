"""How a partition of this broker changed. `yak.broker.broker` has the table of the parts that each event notifies."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TypeAlias

from yak.replication.partition import Partition


class PartitionEvent(Enum):
    """How a partition changed. The emitter has already changed the partition."""

    ADDED = auto()
    """This broker has a new replica, which has no role yet."""
    LEADER_CHANGED = auto()
    """Another broker leads it, or this broker begins to lead it."""
    LEADER_EPOCH_CHANGED = auto()
    """This leader continues in a new epoch: it keeps its log, so its delayed produces stay valid."""
    ISR_CHANGED = auto()
    """The ISR, the replicas or the partition epoch changed, under the same leader."""
    OFFSETS_MOVED = auto()
    """The high watermark, the flushed end or the log start may have moved: delayed operations are checked."""
    LOG_START_MOVED = auto()
    FOLLOWER_LOG_START_MOVED = auto()
    """A follower reported a higher log start offset to this leader."""
    GAP_FOUND = auto()
    """The topic is not compacted any more, and the log has gaps, or may have some: until a checkpoint says so, a start takes
    them for damage."""
    FOLLOWER_FLUSHED = auto()
    """The flush of a followed partition is done."""
    CLOSED_SEGMENTS_FLUSHED = auto()
    CONFIG_CHANGED = auto()
    LOG_TRUNCATED = auto()
    """A follower's truncation ended: the partition may be fetched again."""
    LOG_MOVED = auto()
    """A hand-over to another log directory ended: the log may be written again, there or where it was."""
    LOG_OFFLINE = auto()
    """Its log directory failed, or the log is damaged: `Partition.log` is None."""
    LOG_RECREATED = auto()
    """An offline replica has a log again: an empty one, which is filled from the leader, or one whose end is missing."""
    REMOVED = auto()
    """A reassignment moved this replica to another broker."""
    DELETED = auto()
    """Its topic was deleted."""


PartitionListener: TypeAlias = Callable[[Partition], None]
EmitPartitionEvent: TypeAlias = Callable[[Partition, PartitionEvent], None]
