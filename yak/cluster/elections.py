"""Computes which partitions need another leader, and which replica to elect, from the image alone.

A leader is in order when it is ACTIVE and in the ISR under its current broker epoch. Otherwise the leader comes from
the first of these groups that is not empty:

- the ACTIVE members of the ISR under their current broker epoch;
- when no such member is left, ACTIVE former members (ISR under an older epoch, or ELR, KIP-966) that lost nothing
  since.

Within a group leader-role brokers go first, then the order of the replicas counts. A STOPPING leader leads on until an
ACTIVE member can take over.

If both groups are empty, the partition has no leader until a member comes back. An unclean leader, which may lack
committed records, is elected only in these cases:

- the topic allows it (`unclean.leader.election.enable`);
- the partition has one replica, so that no other copy exists;
- all replicas are back after all machines lost power: every last member of the ISR or ELR had a lossy start since, and
  every other replica too since those registered. No broker is left to wait for, and none is known to have more. A
  replica of the last ISR leads, as Kafka's last known leader does (KIP-966). A broker that came back without a data
  directory does not qualify: its disk is empty, and others may have more.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.records import NO_LEADER, BrokerState
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, NodeId, PartitionEpoch

MAX_PARTITIONS_PER_CALL = 200
"""A script blocks the store while it runs; this many partitions take about 2 ms."""
UNCLEAN_CONFIG = "unclean.leader.election.enable"

Brokers = Mapping[NodeId, BrokerInfo]


class Cause(StrEnum):
    """The reason for a new leader."""

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
        """The arguments of the script `elect`."""
        return {
            "topic_id": str(self.topic_id),
            "partition": self.partition,
            "leader": self.leader,
            "partition_epoch": self.partition_epoch,
            "unclean": self.unclean,
        }


def needed_elections(image: Image, *, unclean: bool = False) -> Iterator[Election]:
    """The elections that the image needs, topic by topic in its order; `unclean` as for `unclean_allowed`."""
    brokers = image.brokers
    for topic in image.topics.values():
        allow_unclean = None
        for partition in topic.partitions:
            if partition.quarantined:
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
                leader = unclean_leader(partition, brokers, allow_any=allow_unclean)
                is_unclean = leader != NO_LEADER
            if leader != partition.leader or leader != NO_LEADER:
                yield _election(topic, partition, leader, unclean=is_unclean, cause=Cause.LOST)


def preferred_elections(image: Image) -> Iterator[Election]:
    """Preferred leader elections: the preferred leader is ACTIVE and in the ISR, and another replica leads."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = preferred_leader(partition)
            if (
                not partition.quarantined
                and partition.leader not in (preferred, NO_LEADER)
                and preferred in _members(partition, image.brokers)
            ):
                yield _election(topic, partition, preferred, unclean=False, cause=Cause.PREFERRED)


def preferred_leader(partition: PartitionInfo) -> NodeId:
    """The first replica. Placement puts a leader-role broker there; an operator may order otherwise."""
    return partition.replicas[0]


def can_lead(partition: PartitionInfo, node_id: NodeId, brokers: Brokers) -> bool:
    """Whether a broker may lead the partition now without loss of records."""
    return node_id in (_members(partition, brokers) or _former_members(partition, brokers))


def has_leader(partition: PartitionInfo, brokers: Brokers) -> bool:
    """Whether the leader is alive and in the ISR."""
    return _leader_state(partition, brokers) is not None


def clean_leader(partition: PartitionInfo, brokers: Brokers) -> NodeId:
    """The next leader that has all committed records; -1 for none."""
    candidates = _members(partition, brokers) or _former_members(partition, brokers)
    return _first(partition, candidates, brokers)


def unclean_leader(partition: PartitionInfo, brokers: Brokers, *, allow_any: bool) -> NodeId:
    """The next leader, which may lack committed records; -1 for none.

    `allow_any`: a request or a config allows any leader.

    A broker whose current epoch began with a loss comes last: its disk may be empty, and the others would follow it.
    Among the rest former ISR members go first, then former ELR members: they probably lack the fewest records.
    """
    active = [n for n in partition.replicas if (b := brokers.get(n)) is not None and b.state is BrokerState.ACTIVE]
    if not active or _has_stopping_member(partition, brokers):
        return NO_LEADER
    last_in = dict(_named(partition))
    newest = max(last_in.values(), default=0)
    all_lost = len(active) == len(partition.replicas) and all(
        brokers[node_id].lossy_epoch > last_in.get(node_id, newest) for node_id in active
    )
    if not allow_any and not all_lost and len(partition.replicas) > 1:
        return NO_LEADER
    pool = active
    if not allow_any and len(partition.replicas) > 1:
        pool = [n for n in active if n in last_in and brokers[n].emptied_epoch <= last_in[n]]
    whole = [node_id for node_id in pool if brokers[node_id].lossy_epoch != brokers[node_id].broker_epoch]
    candidates = whole or pool
    if partition.leader in candidates:
        return partition.leader
    last = [node_id for node_id in candidates if node_id in partition.isr]
    former = [node_id for node_id in candidates if node_id in last_in]
    return _first(partition, last or former or candidates, brokers)


def unclean_allowed(image: Image, topic: TopicInfo, *, by_default: bool = False) -> bool:
    """Whether unclean elections are allowed: by the topic, else the default of all brokers, else `by_default`."""
    value = topic.configs.get(UNCLEAN_CONFIG) or image.default_broker_configs.get(UNCLEAN_CONFIG)
    return by_default if value is None else value.strip().lower() == "true"


def plan_requested_election(image: Image, topic_name: str, partition: int, *, unclean: bool) -> Election:
    """The election that a client requested (ElectLeaders, KIP-183 and KIP-460), from the image alone.

    A preferred election elects the preferred leader, or for a partition without a leader any replica that can lead. An
    unclean election serves a partition without a leader: it elects a replica that can lead, else a live one that may
    lack records.

    Raises PeerError, with the codes of Kafka's ReplicationControlManager.electLeader: UNKNOWN_TOPIC_OR_PARTITION,
    ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    topic = image.topics.get(topic_name)
    if topic is None:
        raise PeerError(ErrorCode.unknown_topic_or_partition, f"No such topic as {topic_name}")
    if not 0 <= partition < len(topic.partitions):
        raise PeerError(ErrorCode.unknown_topic_or_partition, f"No such partition as {topic_name}-{partition}")
    info, brokers = topic.partitions[partition], image.brokers
    preferred = preferred_leader(info)
    if has_leader(info, brokers) and (unclean or info.leader == preferred):
        raise PeerError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
    if not unclean:
        if can_lead(info, preferred, brokers):
            leader = preferred
        else:
            leader = NO_LEADER if has_leader(info, brokers) else clean_leader(info, brokers)
        if leader == NO_LEADER:
            words = f"The preferred leader, node {preferred}, is not alive and in sync."
            raise PeerError(ErrorCode.preferred_leader_not_available, words)
        return Election(topic.topic_id, partition, leader, info.partition_epoch, unclean=False, cause=Cause.PREFERRED)
    leader = clean_leader(info, brokers)
    is_unclean = leader == NO_LEADER
    if is_unclean:
        leader = unclean_leader(info, brokers, allow_any=True)
    if leader == NO_LEADER:
        raise PeerError(ErrorCode.eligible_leaders_not_available, "No replica of the partition is alive.")
    return Election(topic.topic_id, partition, leader, info.partition_epoch, unclean=is_unclean)


# ------------------------------------------------------------------------------------------------------- inside


def _election(topic: TopicInfo, partition: PartitionInfo, leader: NodeId, *, unclean: bool, cause: Cause) -> Election:
    return Election(topic.topic_id, partition.partition, leader, partition.partition_epoch, unclean, cause)


def _leader_state(partition: PartitionInfo, brokers: Brokers) -> BrokerState | None:
    """ACTIVE or STOPPING for a leader in the ISR under its current broker epoch; else None."""
    if partition.leader not in partition.isr:
        return None
    epoch = partition.isr_epochs[partition.isr.index(partition.leader)]
    broker = brokers.get(partition.leader)
    if broker is None or broker.broker_epoch != epoch:
        return None
    return broker.state if broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING) else None


def _members(partition: PartitionInfo, brokers: Brokers) -> list[NodeId]:
    """The ACTIVE members of the ISR under their current broker epoch."""
    return [
        node_id
        for node_id, epoch in zip(partition.isr, partition.isr_epochs, strict=True)
        if (broker := brokers.get(node_id)) is not None
        and broker.broker_epoch == epoch
        and broker.state is BrokerState.ACTIVE
    ]


def _former_members(partition: PartitionInfo, brokers: Brokers) -> list[NodeId]:
    """ACTIVE brokers that were in the ISR or ELR and lost nothing since; none while a STOPPING member is alive."""
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
    """The members of the ISR and the ELR, alive or not, with their broker epochs."""
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
    """The first leader-role candidate in the replicas' order, else the first candidate; -1 for none."""
    ordered = [node_id for node_id in partition.replicas if node_id in candidates]
    for node_id in ordered:
        if brokers[node_id].role == "leader":
            return node_id
    return ordered[0] if ordered else NO_LEADER
