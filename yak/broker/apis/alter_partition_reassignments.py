"""AlterPartitionReassignments (key 45, v0-1): move partitions to other replicas; null cancels a move (KIP-455).

v1: whether the replication factor may change (KIP-860). The answer is sent when the image has the reassignment. The new
replicas catch up after that; ListPartitionReassignments shows it until they have. Any broker takes the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.call import Call, Fields, Now, Outcome, Slices, error_fields
from yak.broker.delayed_metadata_changes import PartitionChanges, Results, from_newest_image
from yak.cluster.reassignment import plan_reassignment
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.protocol.pace import Pace, at_once

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 45, "AlterPartitionReassignments", range(2)
ABSENT = (
    "refusing to cancel the reassignment of an offline partition: its ISR keeps its last members, so nothing is lost",
    "a reassignment that was changed on the way returns to its first replicas when it is cancelled; Kafka keeps all",
)

_CODES = {
    "NO_TOPIC": PeerError(ErrorCode.unknown_topic_or_partition, "The partition was deleted during the request."),
    "INELIGIBLE_BROKER": PeerError(
        ErrorCode.invalid_replica_assignment, "A broker of the new replicas was unregistered."
    ),
    "INELIGIBLE_REPLICA": PeerError(
        ErrorCode.invalid_replica_assignment,
        "No remaining replica is alive and in the ISR: the change needs an unclean leader election.",
    ),
    "NO_REASSIGNMENT": PeerError(
        ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress that can be cancelled."
    ),
    "INVALID_UPDATE_VERSION": PeerError(
        ErrorCode.invalid_update_version, "The partition changed during each attempt. Nothing was changed; try again."
    ),
}


def handle(broker: Broker, call: Call) -> Outcome:
    """Start or cancel each reassignment. For a topic that the image lacks, it must be the newest."""
    lacks = any(topic.name not in broker.image.topics for topic in call.request.topics)
    may_alter = broker.authorization.may_see(call, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    return from_newest_image(broker, call, call.timeout_ms, _reassign, is_needed=lacks and may_alter)


def _reassign(broker: Broker, call: Call) -> Outcome:
    request = call.request
    may_change_factor = getattr(request, "allow_replication_factor_change", True)
    full = broker.full_brokers()
    targets = {
        TopicPartition(topic.name, requested.partition_index): requested.replicas
        for topic in request.topics
        for requested in topic.partitions
    }

    def plan(topic_partition: TopicPartition) -> dict[str, object] | None:
        target = targets[topic_partition]
        return plan_reassignment(broker.image, *topic_partition, target, may_change_factor=may_change_factor, full=full)

    def answer(results: Results, refusal: PeerError | None) -> Slices:
        responses: list[Fields] = []
        pace = Pace()
        for topic in request.topics:
            partitions: list[Fields] = []
            responses.append({"name": topic.name, "partitions": partitions})
            for requested in topic.partitions:
                if pace.is_over(1):
                    yield
                error = results[TopicPartition(topic.name, requested.partition_index)]
                partitions.append({"partition_index": requested.partition_index, **error_fields(error)})
        fields = {"allow_replication_factor_change": may_change_factor, "responses": responses}
        return Now(fields | error_fields(refusal))

    try:
        broker.authorization.check_cluster(call, Operation.ALTER)
    except PeerError as error:
        return at_once(answer(dict.fromkeys(targets, error), error))
    waiting = PartitionChanges(
        broker,
        call,
        call.timeout_ms,
        lambda results: broker.large_requests.answer(call, answer(results, None)),
        script="alter_replicas",
        codes=_CODES,
        already=ErrorCode.no_reassignment_in_progress,
        plan=plan,
    )
    return broker.large_requests.answer(call, waiting.in_slices(targets))
