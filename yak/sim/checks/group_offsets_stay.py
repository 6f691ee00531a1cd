"""I13, before a member notices: a coordinator that has loaded its partition knows every acknowledged commit.

A member would notice only with its next OffsetFetch; this check reads the coordinator as soon as it serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.core.placement import partition_of
from yak.groups.offsets import OFFSETS_TOPIC
from yak.sim.deliveries import Violation
from yak.sim.history import Watcher, coordinated_groups

if TYPE_CHECKING:
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.sim.cluster import Cluster
    from yak.sim.group_history import GroupHistory
    from yak.sim.node import SimNode


class GroupOffsetsStay(Watcher):
    """Checks each coordinator once, when it has loaded its groups."""

    of_coordinators = True

    def __init__(self, cluster: Cluster, history: GroupHistory) -> None:
        self._cluster = cluster
        self._history = history
        self._seen: dict[tuple[int, int], GroupsPartition] = {}

    def stepped(self, node: SimNode) -> None:
        """A coordinator of this broker may have begun to serve."""
        for index, coordinated in coordinated_groups(node):
            if not coordinated.is_loading and self._seen.get((node.node_id, index)) is not coordinated:
                self._seen[node.node_id, index] = coordinated
                self._cluster.history.counts["coordinators loaded"] += 1
                self._check(node, index, coordinated)

    def _check(self, node: SimNode, index: int, coordinated: GroupsPartition) -> None:
        state, partition = self._cluster.store.state, coordinated.partition
        row = state.partitions.get((str(partition.topic_id), index))
        if row is None or row["leader"] != node.node_id or row["leader_epoch"] != partition.leader_epoch:
            # the broker lost its leadership and does not know it yet: nothing that it answers is committed
            return
        topic = node.broker.image.topics[OFFSETS_TOPIC] if node.broker is not None else None
        for group in self._history.groups():
            if (
                topic is None
                or partition_of(group, len(topic.partitions)) != index
                or not self._history.promises(group)
            ):
                continue
            known = coordinated.shard.groups.get(group)
            for place in self._history.of(group).acked:
                wanted = self._history.must_hold(group, place)
                committed = None if known is None else known.offsets.get(*place)
                offsets = {} if known is None else known.offsets.pending
                # its transaction may be decided, and the marker under way
                pending = {held[place].offset for held in offsets.values() if place in held}
                if wanted and (committed is None or committed.offset not in wanted) and pending.isdisjoint(wanted):
                    has = "nothing" if committed is None else str(committed.offset)
                    raise Violation(
                        f"I13: {group} had committed {wanted[0]} of {place}; broker {node.node_id}, its coordinator in epoch"
                        f" {partition.leader_epoch}, has {has}"
                    )
