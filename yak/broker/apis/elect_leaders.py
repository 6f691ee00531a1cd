"""ElectLeaders (key 43, v0-2): preferred or unclean leader elections on request; null topics mean all partitions.

v0: preferred leaders. v1: unclean elections (KIP-460), a top-level error. v2: flexible. Only the controller elects; another
broker forwards the request to it. The answer is sent when the controller's image has the new leaders. With null topics it
has every topic, and the partitions that need an election.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Final

from yak.acls.bindings import Operation, ResourceType
from yak.broker.authorization import denial
from yak.broker.call import Call, Fields, Now, Outcome, error_fields
from yak.broker.delayed_metadata_changes import PartitionChanges, Results, from_newest_image
from yak.cluster.controller import Cause, Election, can_lead, clean_leader, has_leader, preferred_leader, unclean_leader
from yak.cluster.image import Image
from yak.cluster.records import NO_LEADER
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.protocol.pace import Pace, at_once

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 43, "ElectLeaders", range(3)

PREFERRED, UNCLEAN = 0, 1
_MESSAGES: Final = {
    ErrorCode.not_controller: "This is not the correct controller for this cluster.",
    ErrorCode.request_timed_out: "The controller did not answer in time; the result is unknown.",
}


def handle(broker: Broker, call: Call) -> Outcome:
    """Let the controller elect the leaders. Another broker may have changed the replicas just before: in the newest image."""
    refusal = None
    if not broker.authorization.allows_cluster(call, Operation.ALTER):
        refusal = denial(ResourceType.CLUSTER)
    elif _type_of(call) not in (PREFERRED, UNCLEAN):
        refusal = PeerError(ErrorCode.invalid_request, f"Unknown election type {_type_of(call)}")
    if refusal is not None:
        return _refused(broker, call, refusal)
    if broker.metadata.lifecycle.is_controller:
        return from_newest_image(broker, call, call.timeout_ms, _elect, is_needed=True)

    def failed(code: ErrorCode) -> Now:
        return _refused(broker, call, PeerError(code, _MESSAGES[code]))

    return broker.controller_requests.forward(call, VERSIONS.stop - 1, failed, election_type=PREFERRED)


def _elect(broker: Broker, call: Call) -> Outcome:
    unclean = _type_of(call) == UNCLEAN
    shortfall = ErrorCode.eligible_leaders_not_available if unclean else ErrorCode.preferred_leader_not_available

    def plan(topic_partition: TopicPartition) -> dict[str, object]:
        return plan_requested_election(broker.image, *topic_partition, unclean=unclean).arguments()

    waiting = PartitionChanges(
        broker,
        call,
        call.timeout_ms,
        lambda results: broker.large_requests.answer(call, _answer(call, results, ErrorCode.none)),
        script="elect",
        codes={
            "NO_TOPIC": PeerError(
                ErrorCode.unknown_topic_or_partition, "The partition was deleted during the request."
            ),
            "INELIGIBLE_REPLICA": PeerError(shortfall, "The replica is no longer eligible to lead."),
            "INVALID_UPDATE_VERSION": PeerError(shortfall, "The partition changed during each attempt; try again."),
        },
        already=ErrorCode.election_not_needed,
        plan=plan,
    )
    return broker.large_requests.answer(call, waiting.in_slices(_wanted(broker, call)))


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
            message = f"The preferred leader, node {preferred}, is not alive and in sync."
            raise PeerError(ErrorCode.preferred_leader_not_available, message)
        return Election(topic.topic_id, partition, leader, info.partition_epoch, unclean=False, cause=Cause.PREFERRED)
    leader = clean_leader(info, brokers)
    is_unclean = leader == NO_LEADER
    if is_unclean:
        leader = unclean_leader(info, brokers, allow_any=True)
    if leader == NO_LEADER:
        raise PeerError(ErrorCode.eligible_leaders_not_available, "No replica of the partition is alive.")
    return Election(topic.topic_id, partition, leader, info.partition_epoch, unclean=is_unclean)


def _type_of(call: Call) -> int:
    return int(getattr(call.request, "election_type", PREFERRED))


def _wanted(broker: Broker, call: Call) -> Iterable[TopicPartition]:
    requested = call.request.topic_partitions
    if requested is None:
        topics = broker.image.topics.values()
        return (TopicPartition(topic.name, info.partition) for topic in topics for info in topic.partitions)
    return (TopicPartition(topic.topic, index) for topic in requested for index in topic.partitions)


def _refused(broker: Broker, call: Call, error: PeerError) -> Now:
    """The answer when nothing is elected; with null topics it names no partitions."""
    wanted = () if call.request.topic_partitions is None else _wanted(broker, call)
    return at_once(_answer(call, dict.fromkeys(wanted, error), error.error_code))


def _answer(call: Call, results: Results, error_code: ErrorCode) -> Generator[None, None, Now]:
    topics: list[Fields] = []
    pace = Pace()
    if call.request.topic_partitions is None:
        by_topic: dict[str, list[Fields]] = {}
        for (topic, index), error in results.items():
            if pace.is_over(1):
                yield
            partitions = by_topic.setdefault(topic, [])
            if error is None or error.error_code != ErrorCode.election_not_needed:
                partitions.append({"partition_id": index, **error_fields(error)})
        topics = [{"topic": topic, "partition_result": partitions} for topic, partitions in by_topic.items()]
    else:
        for requested in call.request.topic_partitions:
            partitions = []
            topics.append({"topic": requested.topic, "partition_result": partitions})
            for index in requested.partitions:
                if pace.is_over(1):
                    yield
                error = results[TopicPartition(requested.topic, index)]
                partitions.append({"partition_id": index, **error_fields(error)})
    return Now({"error_code": error_code, "replica_election_results": topics})
