"""Plans where the replicas of a broker go that leaves the cluster for good. Pure.

The new replicas are striped over racks and brokers, as Kafka's `StripedReplicaPlacer` places those of a new topic. A
partition keeps its other replicas, so no more data moves than the broker holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yak.cluster.placement import MACHINE, alternate_racks
from yak.ids import NodeId, TopicPartition

LEADER_ROLE = "leader"


@dataclass(frozen=True, slots=True)
class RemainingBroker:
    """A live broker that stays. `role` None: the broker reports none."""

    node_id: NodeId
    rack: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """The new replicas of each partition, and the partitions for which no other broker is left."""

    targets: Mapping[TopicPartition, tuple[NodeId, ...]]
    too_few: tuple[TopicPartition, ...]


def plan_removal(
    held: Mapping[TopicPartition, Sequence[NodeId]], node_id: NodeId, brokers: Sequence[RemainingBroker]
) -> RemovalPlan:
    """Replace `node_id` in the replicas of each partition that it holds by one of `brokers`.

    The new replica takes its place in the order of preference, in a rack without another replica if there is one, and never
    on a machine with one. A broker with the role of a leader stays, or becomes, the first replica if the partition has one.
    """
    by_id = {broker.node_id: broker for broker in brokers}
    order = alternate_racks(brokers)
    targets, too_few = {}, []
    for partition, replicas in sorted(held.items()):
        others = [each for each in replicas if each != node_id]
        chosen = _choose(order, others, by_id)
        if chosen is None:
            too_few.append(partition)
            continue
        order.remove(chosen)  # the next partition's turn is the next broker's
        order.append(chosen)
        target = [chosen if each == node_id else each for each in replicas]
        if replicas[0] == node_id:
            target.sort(key=lambda each: each not in by_id or by_id[each].role != LEADER_ROLE)
        targets[partition] = tuple(target)
    return RemovalPlan(targets, tuple(too_few))


def _choose(order: list[NodeId], others: list[NodeId], by_id: Mapping[NodeId, RemainingBroker]) -> NodeId | None:
    racks = {by_id[each].rack for each in others if each in by_id}
    machines = {rack for rack in racks if rack is not None and rack.startswith(MACHINE)}
    candidates = [each for each in order if each not in others and by_id[each].rack not in machines]
    return next((each for each in candidates if by_id[each].rack not in racks), next(iter(candidates), None))
