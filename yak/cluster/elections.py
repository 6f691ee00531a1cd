"""Which partitions need another leader, and whom: a pure reading of the image.

A leader is in order when it is ACTIVE and in the ISR in its current boot. Otherwise a leader is chosen among these, the
first group that has anybody: the ACTIVE members of the ISR in their current boot; when no such member is left, ACTIVE
former members (ISR in an older boot, or ELR, KIP-966) that did not lose anything since. Within a group brokers with
the role of a leader go first, then the order of the replicas counts. A broker that is STOPPING leads on until there is
an ACTIVE member to take over.

Nobody of these: the partition has no leader until one comes back, unless it may be led uncleanly, that is by a replica
of which it is not known that it has everything:
  - the topic says so (`unclean.leader.election.enable`);
  - it has one replica, so that no other copy exists;
  - every replica is back, all who were in the ISR or ELR at the end had a lossy boot since, and so had all others since those
    booted (all machines lost power): there is nobody left to wait for, and none of whom it is known that he has more. The last
    in sync leads, as Kafka's last known leader does (KIP-966). One that came back without a data directory that it had does
    not qualify: its disk is empty, and others may have more.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.records import NO_LEADER, BrokerState
from yak.ids import BrokerEpoch, NodeId, PartitionEpoch

MAX_PARTITIONS_PER_CALL = 200
"""A script blocks the store while it runs; this many partitions take it about 2 ms."""
UNCLEAN_CONFIG = "unclean.leader.election.enable"

Brokers = Mapping[NodeId, BrokerInfo]


class Cause(StrEnum):
    """Why a partition gets another leader."""

    LOST = "lost"
    STOPPING = "stopping"
    PREFERRED = "preferred"


@dataclass(slots=True, frozen=True)
class Election:
    """One partition's change of leader; `leader` is -1 for none."""

    topic_id: uuid.UUID
    partition: int
    leader: NodeId
    partition_epoch: PartitionEpoch
    unclean: bool
    cause: Cause = Cause.LOST

    def arguments(self) -> dict[str, object]:
        """As the script `elect` takes it."""
        return {
            "topic_id": str(self.topic_id),
            "partition": self.partition,
            "leader": self.leader,
            "partition_epoch": self.partition_epoch,
            "unclean": self.unclean,
        }


def needed_elections(image: Image, *, unclean: bool = False) -> Iterator[Election]:
    """The elections that the image asks for, topic by topic in the image's order; `unclean` as for `unclean_allowed`."""
    brokers = image.brokers
    for topic in image.topics.values():
        allow_unclean = None
        for partition in topic.partitions:
            if partition.held:
                continue
            state = _leader_state(partition, brokers)
            if state is BrokerState.ACTIVE:
                continue
            leader, is_unclean = clean_leader(partition, brokers), False
            if state is BrokerState.STOPPING:
                if leader != NO_LEADER:
                    yield _election(topic, partition, leader, unclean=False, cause=Cause.STOPPING)
                continue
            if leader == NO_LEADER:
                if allow_unclean is None:
                    allow_unclean = unclean_allowed(image, topic, by_default=unclean)
                leader = unclean_leader(partition, brokers, asked=allow_unclean)
                is_unclean = leader != NO_LEADER
            if leader != partition.leader or leader != NO_LEADER:
                yield _election(topic, partition, leader, unclean=is_unclean, cause=Cause.LOST)


def preferred_elections(image: Image) -> Iterator[Election]:
    """Leaderships that can go back to the preferred leader: it is ACTIVE and in the ISR, and another one leads."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = preferred_leader(partition)
            if (
                not partition.held
                and partition.leader not in (preferred, NO_LEADER)
                and preferred in _members(partition, image.brokers)
            ):
                yield _election(topic, partition, preferred, unclean=False, cause=Cause.PREFERRED)


def preferred_leader(partition: PartitionInfo) -> NodeId:
    """The first replica. Placement has a broker with the role of a leader there; a person may order otherwise."""
    return partition.replicas[0]


def can_lead(partition: PartitionInfo, node_id: NodeId, brokers: Brokers) -> bool:
    """Whether a broker may lead the partition now without anything being lost."""
    return node_id in (_members(partition, brokers) or _former_members(partition, brokers))


def has_leader(partition: PartitionInfo, brokers: Brokers) -> bool:
    """Whether the leader is alive and in the ISR."""
    return _leader_state(partition, brokers) is not None


def clean_leader(partition: PartitionInfo, brokers: Brokers) -> NodeId:
    """Who leads with everything that was committed; -1 for nobody."""
    candidates = _members(partition, brokers) or _former_members(partition, brokers)
    return _first(partition, candidates, brokers)


def unclean_leader(partition: PartitionInfo, brokers: Brokers, *, asked: bool) -> NodeId:
    """Who leads although records may be missing there; -1 for nobody. `asked`: a person or a config wants any leader.

    One whose present boot began with a loss comes last: its disk may be empty, and the others would follow it. Among the
    rest those that were in the ISR go first, then those in the ELR: they miss the least, as far as anybody knows.
    """
    active = [n for n in partition.replicas if (b := brokers.get(n)) is not None and b.state is BrokerState.ACTIVE]
    if not active or _has_stopping_member(partition, brokers):
        return NO_LEADER
    last_in = dict(_named(partition))
    newest = max(last_in.values(), default=0)
    all_lost = len(active) == len(partition.replicas) and all(
        brokers[node_id].lossy_epoch > last_in.get(node_id, newest) for node_id in active
    )
    if not asked and not all_lost and len(partition.replicas) > 1:
        return NO_LEADER
    pool = active
    if not asked and len(partition.replicas) > 1:
        pool = [n for n in active if n in last_in and brokers[n].emptied_epoch <= last_in[n]]
    whole = [node_id for node_id in pool if brokers[node_id].lossy_epoch != brokers[node_id].broker_epoch]
    candidates = whole or pool
    if partition.leader in candidates:
        return partition.leader
    last = [node_id for node_id in candidates if node_id in partition.isr]
    former = [node_id for node_id in candidates if node_id in last_in]
    return _first(partition, last or former or candidates, brokers)


def unclean_allowed(image: Image, topic: TopicInfo, *, by_default: bool = False) -> bool:
    """Whether the topic, or the default of all brokers, or where both are silent the controller's own settings
    (`by_default`) say that any leader is better than none."""
    value = topic.configs.get(UNCLEAN_CONFIG) or image.default_broker_configs.get(UNCLEAN_CONFIG)
    return by_default if value is None else value.strip().lower() == "true"


# ------------------------------------------------------------------------------------------------------- inside


def _election(topic: TopicInfo, partition: PartitionInfo, leader: NodeId, *, unclean: bool, cause: Cause) -> Election:
    return Election(topic.topic_id, partition.partition, leader, partition.partition_epoch, unclean, cause)


def _leader_state(partition: PartitionInfo, brokers: Brokers) -> BrokerState | None:
    """ACTIVE or STOPPING for a leader that is in the ISR in its current boot; None for any other, and for none."""
    if partition.leader not in partition.isr:
        return None
    epoch = partition.isr_epochs[partition.isr.index(partition.leader)]
    broker = brokers.get(partition.leader)
    if broker is None or broker.broker_epoch != epoch:
        return None
    return broker.state if broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING) else None


def _members(partition: PartitionInfo, brokers: Brokers) -> list[NodeId]:
    """The ACTIVE members of the ISR in their current boot."""
    return [
        node_id
        for node_id, epoch in zip(partition.isr, partition.isr_epochs, strict=True)
        if (broker := brokers.get(node_id)) is not None
        and broker.broker_epoch == epoch
        and broker.state is BrokerState.ACTIVE
    ]


def _former_members(partition: PartitionInfo, brokers: Brokers) -> list[NodeId]:
    """ACTIVE brokers that were in the ISR or ELR and lost nothing since; nobody while a member is alive."""
    if _has_stopping_member(partition, brokers):
        return []
    return [
        node_id
        for node_id, epoch in _named(partition)
        if (broker := brokers.get(node_id)) is not None
        and broker.state is BrokerState.ACTIVE
        and epoch >= broker.lossy_epoch
    ]


def _named(partition: PartitionInfo) -> Iterator[tuple[NodeId, BrokerEpoch]]:
    """Who is in the ISR or the ELR, alive or not, and in which boot he was."""
    yield from zip(partition.isr, partition.isr_epochs, strict=True)
    yield from zip(partition.elr, partition.elr_epochs, strict=True)


def _has_stopping_member(partition: PartitionInfo, brokers: Brokers) -> bool:
    return any(
        (broker := brokers.get(node_id)) is not None
        and broker.broker_epoch == epoch
        and broker.state is BrokerState.STOPPING
        for node_id, epoch in zip(partition.isr, partition.isr_epochs, strict=True)
    )


def _first(partition: PartitionInfo, candidates: list[NodeId], brokers: Brokers) -> NodeId:
    """The first in the replicas' order that has the role of a leader, else the first at all; -1 for no candidate."""
    ordered = [node_id for node_id in partition.replicas if node_id in candidates]
    for node_id in ordered:
        if brokers[node_id].role == "leader":
            return node_id
    return ordered[0] if ordered else NO_LEADER
