"""The state of a partition, and what brokers have of partitions: one rule for every table, filter and count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from operator import and_
from typing import Final, NamedTuple, Protocol

from yak.ids import NodeId, Offset
from yak.view.lag import lag_records


class Assigned(Protocol):
    """A partition of any source. `leader` is None or -1 when there is none."""

    @property
    def leader(self) -> NodeId | None:
        """The leader's id."""

    @property
    def replicas(self) -> Collection[NodeId]:
        """All replicas, the preferred leader first."""

    @property
    def isr(self) -> Collection[NodeId]:
        """The replicas in sync."""


def is_offline(partition: Assigned) -> bool:
    """Whether it has no leader (`--unavailable-partitions` of kafka-topics)."""
    return partition.leader is None or partition.leader < 0


def out_of_sync(partition: Assigned) -> list[NodeId]:
    """The replicas that are not in the ISR, in their order."""
    return [node for node in partition.replicas if node not in partition.isr]


def is_whole(partition: Assigned) -> bool:
    """Whether it has a leader, and all replicas are in the ISR: its state is OK, whatever `min.insync.replicas` is."""
    return not is_offline(partition) and not out_of_sync(partition)


class BrokerCounts(NamedTuple):
    """What one broker has: partitions that it leads, replicas, and those of its replicas that are not in the ISR."""

    leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0


def count_by_broker(partitions: Iterable[Assigned]) -> dict[NodeId | None, BrokerCounts]:
    """The counts of each broker that leads a partition or has a replica."""
    leaders: Counter[NodeId | None] = Counter()
    replicas: Counter[NodeId | None] = Counter()
    out: Counter[NodeId | None] = Counter()
    for each in partitions:
        leaders[each.leader] += 1
        for node in each.replicas:
            replicas[node] += 1
        if len(each.isr) < len(each.replicas):
            out.update(out_of_sync(each))
    return {node: BrokerCounts(leaders[node], replicas[node], out[node]) for node in {*leaders, *replicas}}


class PartitionState(StrEnum):
    """How well a partition is replicated, the worst first."""

    OFFLINE = "offline"
    """No leader: neither writes nor reads."""
    UNDER_MIN_ISR = "under_min_isr"
    """Writes with acks=all are refused."""
    AT_MIN_ISR = "at_min_isr"
    """Under-replicated, and writes with acks=all are refused if the ISR loses one more replica."""
    UNDER_REPLICATED = "under_replicated"
    """A replica is not in the ISR."""
    OK = "ok"
    """All replicas are in the ISR."""

    @property
    def label(self) -> str:
        """The state in a table for people."""
        return _LABELS[self]

    @property
    def severity(self) -> int:
        """0 for OK; a higher number is worse."""
        return _SEVERITIES[self]


_LABELS: Final = {
    PartitionState.OFFLINE: "offline",
    PartitionState.UNDER_MIN_ISR: "under min ISR",
    PartitionState.AT_MIN_ISR: "at min ISR",
    PartitionState.UNDER_REPLICATED: "under-replicated",
    PartitionState.OK: "ok",
}
_SEVERITIES: Final = {state: severity for severity, state in enumerate(reversed(PartitionState))}


class Replication(NamedTuple):
    """What decides a partition's state. `min_isr` is `min.insync.replicas` of its topic.

    The conditions are those of Kafka's tools (TopicCommand.java), and one partition may fulfil several. As in Kafka's
    brokers (Partition.effectiveMinIsr), a partition never needs more in-sync replicas than it has replicas.
    """

    is_offline: bool
    replicas: int
    isr: int
    min_isr: int

    @classmethod
    def of(cls, partition: Assigned, min_isr: int) -> Replication:
        """Of a partition of any source."""
        return cls(is_offline(partition), len(partition.replicas), len(partition.isr), min_isr)

    @property
    def needed(self) -> int:
        """The ISR size that a write with acks=all needs."""
        return min(self.min_isr, self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether writes with acks=all are refused for a lack of in-sync replicas."""
        return self.isr < self.needed

    @property
    def is_at_min_isr(self) -> bool:
        """Whether the ISR has just the size that acks=all needs; so has a partition with a single replica."""
        return self.isr == self.needed

    @property
    def is_under_replicated(self) -> bool:
        return self.isr < self.replicas

    @property
    def conditions(self) -> Conditions:
        return Conditions(self.is_offline, self.is_under_min_isr, self.is_at_min_isr, self.is_under_replicated)

    @property
    def state(self) -> PartitionState:
        """The worst of its conditions; `at_min_isr` only for partitions that are under-replicated too."""
        if self.is_offline:
            return PartitionState.OFFLINE
        if self.is_under_min_isr:
            return PartitionState.UNDER_MIN_ISR
        if not self.is_under_replicated:
            return PartitionState.OK
        return PartitionState.AT_MIN_ISR if self.is_at_min_isr else PartitionState.UNDER_REPLICATED


class Conditions(NamedTuple):
    """Conditions that a partition fulfils, or of a filter: it passes partitions that fulfil one of them, or all if it has none."""

    offline: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    under_replicated: bool = False

    def match(self, partition: Replication) -> bool:
        """Whether a partition passes."""
        return not any(self) or any(map(and_, self, partition.conditions))


ALL: Final = Conditions()


class StateCounts(NamedTuple):
    """The number of partitions that fulfil each condition."""

    offline: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    under_replicated: int = 0

    @classmethod
    def of(cls, partitions: Iterable[Replication]) -> StateCounts:
        # few partitions differ
        counts = [(each.conditions, count) for each, count in Counter(partitions).items()]
        return cls(*(sum(count for found, count in counts if found[index]) for index in range(len(cls._fields))))


NONE: Final = StateCounts()


def worst(states: Iterable[PartitionState]) -> PartitionState:
    """The worst of some states; OK for none."""
    return max(states, key=lambda state: state.severity, default=PartitionState.OK)


class Replicated:
    """What follows from a partition's leader, replicas, ISR and log ends, for the kinds of partitions that have these."""

    __slots__ = ()
    topic: str
    partition: int
    leader: NodeId | None
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    min_isr: int
    log_end_offsets: Mapping[NodeId, Offset | None]

    @property
    def name(self) -> str:
        """`orders-0`."""
        return f"{self.topic}-{self.partition}"

    @property
    def replication(self) -> Replication:
        """What decides its state."""
        return Replication.of(self, self.min_isr)

    @property
    def state(self) -> PartitionState:
        return self.replication.state

    @property
    def log_end_offset(self) -> Offset | None:
        """The leader's log end offset; None if it is unknown, or there is no leader."""
        return None if self.leader is None else self.log_end_offsets.get(self.leader)

    def lag(self, node: NodeId) -> int | None:
        """A replica's lag behind the leader in records; None when one of the two log ends is unknown."""
        return lag_records(self.log_end_offsets.get(node), self.log_end_offset)
