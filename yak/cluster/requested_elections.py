"""A requested election of one partition, computed from the image alone (ElectLeaders, KIP-183 and KIP-460).

Codes: Kafka's ReplicationControlManager.electLeader.
"""

from yak.cluster.elections import (
    Cause,
    Election,
    can_lead,
    clean_leader,
    has_leader,
    preferred_leader,
    unclean_leader,
)
from yak.cluster.image import Image
from yak.cluster.records import NO_LEADER
from yak.errors import ErrorCode, PeerError


def plan_requested_election(image: Image, topic_name: str, partition: int, *, unclean: bool) -> Election:
    """The election that a client requested.

    A preferred election elects the preferred leader, or for a partition without a leader any replica that can lead. An
    unclean election serves a partition without a leader: it elects a replica that can lead, else a live one that may
    lack records.

    Raises PeerError: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE.
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
        leader = unclean_leader(info, brokers, asked=True)
    if leader == NO_LEADER:
        raise PeerError(ErrorCode.eligible_leaders_not_available, "No replica of the partition is alive.")
    return Election(topic.topic_id, partition, leader, info.partition_epoch, unclean=is_unclean)
