"""Places replicas: leaders spread over leader-role brokers, replicas over all brokers and racks.

Kafka's scheme (`AdminUtils.assignReplicasToBrokers`, KIP-36): brokers are ordered so that neighbours are in different
racks, partitions go round-robin, and each full round shifts the followers by one more. Only leader-role brokers get
leaders, while there is one; with equal roles the result is exactly Kafka's.

Brokers of one machine (`MACHINE`) fail together: no partition gets two replicas on a machine. Kafka's racks are only a
preference.

Brokers that are not ACTIVE get replicas as in Kafka's `StripedReplicaPlacer`: never the first one, and only where the
ACTIVE brokers of the rack are used up. The store leaves them out of the ISR.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, Protocol

from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.ids import NodeId

MACHINE: Final = "machine:"
"""A rack whose name begins so is one machine: its brokers fail together (`yak serve --cores`)."""


class BrokerRack(Protocol):
    """A broker and its rack."""

    @property
    def node_id(self) -> NodeId:
        """The broker."""

    @property
    def rack(self) -> str | None:
        """None: the broker names no rack."""


def place(
    brokers: Sequence[BrokerInfo], partitions: int, replication_factor: int, *, first_partition: int = 0, start: int = 0
) -> list[tuple[NodeId, ...]]:
    """Replicas for `partitions` new partitions; the first is the preferred leader, an ACTIVE broker.

    `first_partition` is the number of existing partitions. `start` shifts the first leader, so that topics of one
    partition spread over the brokers. At least one of `brokers` is ACTIVE, and `replication_factor` is at most
    their `count_machines`. With a rack on every broker, no rack gets two replicas of a partition while another has none.
    """
    assert 0 < replication_factor <= count_machines(brokers)
    by_id = {broker.node_id: broker for broker in brokers}
    active = {broker.node_id for broker in brokers if broker.state is BrokerState.ACTIVE}
    ordered = alternate_racks(brokers)
    has_racks = all(broker.rack is not None for broker in brokers)
    may_lead = [index for index, node_id in enumerate(ordered) if node_id in active]
    leaders = [index for index in may_lead if by_id[ordered[index]].role == "leader"] or may_lead
    assert leaders, "a partition is led by an ACTIVE broker"
    inactive = len(ordered) - len(active)
    period = len(leaders) * math.lcm(max(len(active) - 1, 1), max(inactive, 1))

    @cache
    def replicas(turn: int) -> tuple[NodeId, ...]:
        shift, leader_number = divmod(turn, len(leaders))
        leader_index = leaders[leader_number]
        rest = ordered[leader_index + 1 :] + ordered[:leader_index]
        others = _shifted([n for n in rest if n in active], shift) + _shifted(
            [n for n in rest if n not in active], shift
        )
        leader = ordered[leader_index]
        if has_racks:
            others = _new_racks_first(leader, others, by_id)
        return tuple(_one_a_machine([leader, *others], by_id)[:replication_factor])

    first = first_partition + start
    # After one period the same replicas come again: a topic of many partitions is placed within one step.
    return [replicas(turn % period) for turn in range(first, first + partitions)]


def machine_of(broker: BrokerRack) -> str:
    """What fails together with this broker: its machine, or the broker alone."""
    is_machine = broker.rack is not None and broker.rack.startswith(MACHINE)
    return str(broker.rack) if is_machine else str(broker.node_id)


def count_machines(brokers: Iterable[BrokerRack]) -> int:
    """How many replicas of a partition these brokers can have: one for each machine."""
    return len(set(map(machine_of, brokers)))


def shared_machine(replicas: Iterable[NodeId], by_id: Mapping[NodeId, BrokerRack]) -> str | None:
    """A machine with two of these replicas; None if there is none."""
    seen: set[str] = set()
    for node_id in replicas:
        machine = machine_of(by_id[node_id]) if node_id in by_id else ""
        if machine in seen:
            return machine
        seen |= {machine} - {""}
    return None


def _one_a_machine(nodes: list[NodeId], by_id: Mapping[NodeId, BrokerInfo]) -> list[NodeId]:
    """The nodes without those on the machine of an earlier one."""
    first: dict[str, NodeId] = {}
    for node_id in nodes:
        first.setdefault(machine_of(by_id[node_id]), node_id)
    return list(first.values())


def _shifted(nodes: list[NodeId], shift: int) -> list[NodeId]:
    turn = shift % len(nodes) if nodes else 0
    return nodes[turn:] + nodes[:turn]


def _new_racks_first(leader: NodeId, others: list[NodeId], by_id: dict[NodeId, BrokerInfo]) -> list[NodeId]:
    """Order the followers in rounds; each round takes one broker from every rack that it has not used yet."""
    result: list[NodeId] = []
    used = [by_id[leader].rack]
    waiting = others
    while waiting:
        later = []
        for node_id in waiting:
            rack = by_id[node_id].rack
            if rack in used:
                later.append(node_id)
            else:
                used.append(rack)
                result.append(node_id)
        used = []
        waiting = later
    return result


def alternate_racks(brokers: Sequence[BrokerRack]) -> list[NodeId]:
    """The brokers in an order in which neighbours are in different racks, while there are different ones."""
    by_rack: dict[str, list[NodeId]] = {}
    for broker in sorted(brokers, key=lambda b: b.node_id):
        by_rack.setdefault(broker.rack or "", []).append(broker.node_id)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    ordered = []
    for turn in range(max(map(len, queues), default=0)):
        ordered += [queue[turn] for queue in queues if turn < len(queue)]
    return ordered
