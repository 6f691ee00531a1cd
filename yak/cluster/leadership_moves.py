"""Plans leadership moves: which partition gets which leader. Pure.

ElectLeaders (key 43) moves a leadership to the preferred leader, which is the first replica. For any other target,
AlterPartitionReassignments (key 45) first makes it the first replica, which moves no data.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from yak.cluster.records import NO_LEADER
from yak.ids import NodeId, TopicPartition


class PartitionLeadership(Protocol):
    """The leadership of a partition; `leader` is -1 when there is none."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def partition(self) -> int:
        """The partition's number."""

    @property
    def leader(self) -> NodeId:
        """The leader's node id."""

    @property
    def replicas(self) -> tuple[NodeId, ...]:
        """The replicas in order of preference."""

    @property
    def isr(self) -> tuple[NodeId, ...]:
        """The in-sync replicas."""


@dataclass(frozen=True, slots=True)
class Move:
    """A leadership move; `order` is the new order of the replicas, None when `to` is already the first."""

    partition: TopicPartition
    leader: NodeId
    to: NodeId
    order: tuple[NodeId, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves, and the partitions that stay with the reason. `refused` stay against the caller's wish."""

    moves: tuple[Move, ...]
    stays: Mapping[TopicPartition, str]
    refused: Mapping[TopicPartition, str]


def plan_moves(
    partitions: Iterable[PartitionLeadership], *, to: NodeId | None = None, only_preferred: bool = False
) -> Plan:
    """Plan each partition's new leader: `to`, or without it the preferred leader.

    Where the preferred leader leads already or is out of sync, the in-sync replica with the fewest moves in this plan
    is next. With `only_preferred` partitions with their preferred leader stay.
    """
    moves: list[Move] = []
    stays: dict[TopicPartition, str] = {}
    refused: dict[TopicPartition, str] = {}
    given: Counter[NodeId] = Counter()
    for each in partitions:
        key = TopicPartition(each.topic, each.partition)
        if each.leader == NO_LEADER:
            refused[key] = "it has no leader to take it from"
            continue
        chosen = (
            _successor(each, given) if to is None and not only_preferred else (each.replicas[0] if to is None else to)
        )
        if chosen is None:
            refused[key] = f"no other replica is in sync: ISR {','.join(map(str, each.isr))}"
        elif chosen == each.leader:
            stays[key] = f"{chosen} leads it already"
        elif chosen not in each.replicas:
            refused[key] = f"{chosen} has no replica of it: replicas {','.join(map(str, each.replicas))}"
        elif chosen not in each.isr:
            refused[key] = f"{chosen} is out of sync: ISR {','.join(map(str, each.isr))}"
        else:
            given[chosen] += 1
            order = (chosen, *(node for node in each.replicas if node != chosen))
            moves.append(Move(key, each.leader, chosen, None if order == each.replicas else order))
    return Plan(tuple(moves), stays, refused)


def _successor(partition: PartitionLeadership, given: Counter[NodeId]) -> NodeId | None:
    preferred = partition.replicas[0]
    if preferred != partition.leader and preferred in partition.isr:
        return preferred
    others = [node for node in partition.replicas if node in partition.isr and node != partition.leader]
    return min(others, key=lambda node: given[node], default=None)
