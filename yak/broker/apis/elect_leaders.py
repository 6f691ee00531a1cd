"""ElectLeaders (key 43, v0-2): preferred or unclean leader elections on request; null topics mean all partitions.

v0: preferred leaders. v1: unclean elections (KIP-460), a top-level error. v2: flexible. Only the controller elects. The
answer is sent when the image has the new leaders. With null topics it omits partitions that need no election.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.authorization import denial
from yak.broker.call import Call, Fields, Now, Outcome, error_fields
from yak.broker.delayed_metadata_changes import PartitionChanges, Results
from yak.cluster.leader_elections import plan_requested_election
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 43, "ElectLeaders", range(3)
ABSENT: tuple[str, ...] = ()

PREFERRED, UNCLEAN = 0, 1


def handle(broker: Broker, call: Call) -> Outcome:
    """Elect the leaders; only the controller may."""
    request = call.request
    election_type = getattr(request, "election_type", PREFERRED)
    wanted = _wanted(broker, call)
    refusal = None
    if not broker.authorization.allows_cluster(call, Operation.ALTER):
        refusal = denial(ResourceType.CLUSTER)
    elif not broker.metadata.lifecycle.is_controller:
        refusal = PeerError(ErrorCode.not_controller, "This is not the correct controller for this cluster.")
    elif election_type not in (PREFERRED, UNCLEAN):
        refusal = PeerError(ErrorCode.invalid_request, f"Unknown election type {election_type}")
    if refusal is not None:
        results = {} if request.topic_partitions is None else dict.fromkeys(wanted, refusal)
        return _answer(call, results, refusal.error_code)
    unclean = election_type == UNCLEAN
    shortfall = ErrorCode.eligible_leaders_not_available if unclean else ErrorCode.preferred_leader_not_available

    def plan(topic_partition: TopicPartition) -> dict[str, object]:
        return plan_requested_election(broker.image, *topic_partition, unclean=unclean).arguments()

    waiting = PartitionChanges(
        broker.metadata,
        broker.purgatory,
        call,
        call.timeout_ms,
        lambda results: _answer(call, results, ErrorCode.none),
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
    waiting.send(wanted)
    return waiting.outcome()


def _wanted(broker: Broker, call: Call) -> list[TopicPartition]:
    asked = call.request.topic_partitions
    if asked is None:
        return [
            TopicPartition(topic.name, info.partition)
            for topic in broker.image.topics.values()
            for info in topic.partitions
        ]
    return list(dict.fromkeys(TopicPartition(topic.topic, index) for topic in asked for index in topic.partitions))


def _answer(call: Call, results: Results, error_code: ErrorCode) -> Now:
    asks_for_all = call.request.topic_partitions is None
    topics: dict[str, list[Fields]] = {}
    for (topic, index), error in results.items():
        if asks_for_all and error is not None and error.error_code == ErrorCode.election_not_needed:
            continue
        topics.setdefault(topic, []).append(
            {
                "partition_id": index,
                **error_fields(error),
            }
        )
    return Now(
        {
            "error_code": error_code,
            "replica_election_results": [
                {"topic": topic, "partition_result": partitions} for topic, partitions in topics.items()
            ],
        }
    )
