"""Moving leaderships in order: which partition to whom. Pure.

A leadership goes to a partition's preferred leader, its first replica, by ElectLeaders (key 43). To give it to another
replica that one is made the first: AlterPartitionReassignments (key 45) with the same replicas in another order, which
moves no data, and then ElectLeaders.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from yak.cluster.records import NO_LEADER
from yak.ids import NodeId, TopicPartition


class Led(Protocol):
    """A partition, as far as its leadership is concerned; `leader` is -1 when there is none."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def leader(self) -> NodeId:
        """Who leads it."""

    @property
    def replicas(self) -> tuple[NodeId, ...]:
        """In the order in which they are preferred."""

    @property
    def isr(self) -> tuple[NodeId, ...]:
        """The replicas in sync."""


@dataclass(frozen=True, slots=True)
class Move:
    """One leadership to move; `order` is the new order of its replicas, None when `to` comes first already."""

    partition: TopicPartition
    leader: NodeId
    to: NodeId
    order: tuple[NodeId, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to move, and what stays with the reason. `refused` stays against the caller's wish."""

    moves: tuple[Move, ...]
    stays: Mapping[TopicPartition, str]
    refused: Mapping[TopicPartition, str]


def plan_moves(partitions: Iterable[Led], *, to: NodeId | None = None, only_preferred: bool = False) -> Plan:
    """Whom each partition gets as its leader: `to`; else its preferred leader or, where that one leads, the in-sync
    replica that got fewest in this plan. With `only_preferred` those that their preferred leader leads stay.
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


def _successor(partition: Led, given: Counter[NodeId]) -> NodeId | None:
    preferred = partition.replicas[0]
    if preferred != partition.leader and preferred in partition.isr:
        return preferred
    others = [node for node in partition.replicas if node in partition.isr and node != partition.leader]
    return min(others, key=lambda node: given[node], default=None)
