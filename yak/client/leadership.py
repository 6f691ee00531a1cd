"""Moves leaders and replicas: ElectLeaders (key 43, KIP-460), AlterPartitionReassignments and
ListPartitionReassignments (keys 45 and 46, KIP-455). `yak.cluster.leadership_moves` plans the moves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yak.attempts import attempts
from yak.client.errors import from_answer
from yak.client.metadata import Broker, ClusterMetadata
from yak.client.raw_connection import call_once
from yak.client.replica_offsets import read_metadata
from yak.cluster.leadership_moves import Move, Plan, plan_moves
from yak.errors import Unreachable, YakError
from yak.ids import NodeId, TopicPartition, by_topic
from yak.view.partition_replicas import NO_LEADER

if TYPE_CHECKING:
    from yak.client.admin import Admin

ELECT_LEADERS: Final = 43, 2
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46, 0
ELECTION_NOT_NEEDED = 84
_PREFERRED: Final = 0
WAIT_MS = 5_000


def elect_preferred_leaders(
    metadata: ClusterMetadata, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, str | None]:
    """Elect preferred leaders through the controller; None or the reason of the failure, by partition.

    Raises Unreachable when the controller does not answer, YakError (`not-elected`) when it refuses the whole request.
    """
    fields = {
        "election_type": _PREFERRED,
        "topic_partitions": [
            {"topic": topic, "partitions": [each.partition for each in of]}
            for topic, of in by_topic(partitions).items()
        ],
        "timeout": WAIT_MS,
    }
    controller = metadata.brokers.get(metadata.controller_id)
    if controller is None:
        raise Unreachable("no-controller", "the cluster has no controller now", try_=("yak brokers list",))
    answer = call_once(controller.address, ELECT_LEADERS, fields, "no leader was elected", timeout_s)
    if answer.error_code:
        raise YakError("not-elected", "no leader was elected", why=answer.error_code.name)
    found: dict[TopicPartition, str | None] = {}
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            is_leading = int(result.error_code) in (0, ELECTION_NOT_NEEDED)
            why = None if is_leading else result.error_message or result.error_code.name
            found[TopicPartition(topic.topic, result.partition_id)] = why
    return found


REQUEST_PARTITIONS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress: the replicas that it adds and removes."""

    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]


def reassign(
    broker: Broker,
    targets: Mapping[TopicPartition, tuple[NodeId, ...]],
    *,
    timeout_s: float,
    keeps_factor: bool = False,
) -> dict[TopicPartition, str]:
    """Begin to move partitions to these replicas, the first of them preferred as leader; return the failed ones, with
    the reason.

    Any broker takes the request; the controller saves a hop. With `keeps_factor` the broker refuses another replication
    factor (KIP-860, Kafka 4.1). Raises Unreachable.
    """
    failed: dict[TopicPartition, str] = {}
    items = list(targets.items())
    for start in range(0, len(items), REQUEST_PARTITIONS_MAX):
        failed |= _reassign_some(broker, dict(items[start : start + REQUEST_PARTITIONS_MAX]), timeout_s, keeps_factor)
    return failed


def _reassign_some(
    broker: Broker, targets: Mapping[TopicPartition, tuple[NodeId, ...]], timeout_s: float, keeps_factor: bool
) -> dict[TopicPartition, str]:
    fields = {
        "timeout": round(timeout_s * 1000),
        "topics": [
            {
                "name": name,
                "partitions": [{"partition_index": each.partition, "replicas": list(targets[each])} for each in of],
            }
            for name, of in by_topic(targets).items()
        ],
    }
    if keeps_factor:
        fields["allow_replication_factor_change"] = False
    api = ALTER_PARTITION_REASSIGNMENTS, int(keeps_factor)
    answer = call_once(broker.address, api, fields, "the replicas were not moved", timeout_s)
    if int(answer.error_code):
        reason = answer.error_message or answer.error_code.name
        return dict.fromkeys(targets, reason)
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): each.error_message or each.error_code.name
        for topic in answer.responses
        for each in topic.partitions
        if int(each.error_code)
    }


def list_reassignments(broker: Broker, *, timeout_s: float) -> dict[TopicPartition, Reassignment]:
    """All reassignments in progress. Raises Unreachable, YakError (`not-authorized`, `kafka-error`)."""
    what = "the partition reassignments could not be read"
    fields = {"timeout": round(timeout_s * 1000), "topics": None}
    answer = call_once(broker.address, LIST_PARTITION_REASSIGNMENTS, fields, what, timeout_s)
    if int(answer.error_code):
        raise from_answer(answer, what, "kafka-error")
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): Reassignment(
            tuple(map(int, each.adding_replicas)), tuple(map(int, each.removing_replicas))
        )
        for topic in answer.topics
        for each in topic.partitions
    }


POLL_SECONDS: Final = 0.01


def carry_out(admin: "Admin", moves: Sequence[Move], *, timeout_s: float) -> dict[TopicPartition, str]:
    """Move leaders and wait until the new leaders lead; return the failed ones, with the reason.

    Raises YakError when a request as a whole fails.
    """
    orders = {each.partition: each.order for each in moves if each.order}
    failed: dict[TopicPartition, str] = {}
    if orders:
        found = read_metadata(admin.servers, timeout_s=timeout_s)
        controller = found.brokers.get(found.controller_id) or next(iter(found.brokers.values()))
        failed = _reassigned(controller, orders, timeout_s)
        orders = {key: order for key, order in orders.items() if key not in failed}
        failed |= reassign(controller, orders, timeout_s=timeout_s)
    wanted = [each for each in moves if each.partition not in failed]
    if not wanted:
        return failed
    keys = [each.partition for each in wanted]
    for partition, reason in elect_preferred_leaders(admin.metadata(), keys, timeout_s=timeout_s).items():
        if reason is not None:
            failed[partition] = reason
    return failed | wait_until_led(
        admin.servers, {each.partition: each.to for each in wanted if each.partition not in failed}, timeout_s=timeout_s
    )


def _reassigned(
    controller: Broker, orders: Mapping[TopicPartition, tuple[NodeId, ...]], timeout_s: float
) -> dict[TopicPartition, str]:
    """The partitions whose replicas an order would change, with the reason.

    An order has the replicas of the metadata from which the move was planned. A reassignment since then, or one in progress,
    would be replaced by a reassignment to these replicas.
    """
    moves = list_reassignments(controller, timeout_s=timeout_s)
    # after the reassignments: one that ends in between is in the list still
    found = read_metadata(controller.address, timeout_s=timeout_s)
    now = {TopicPartition(each.topic, each.partition): each.replicas for each in found.partitions}
    reasons: dict[TopicPartition, str] = {}
    for key, order in orders.items():
        replicas = now.get(key, ())
        if key in moves:
            reasons[key] = "a reassignment of its replicas is in progress"
        elif set(replicas) != set(order):
            reasons[key] = f"its replicas have changed: they are {','.join(map(str, replicas)) or 'none'} now"
    return reasons


def wait_until_led(
    servers: str, leaders: Mapping[TopicPartition, NodeId], *, timeout_s: float
) -> dict[TopicPartition, str]:
    """Wait until each partition is led by its broker; on a timeout return the others, with their present leaders."""
    for _ in attempts(timeout_s, POLL_SECONDS):
        found = read_metadata(servers, timeout_s=timeout_s)
        now = {TopicPartition(each.topic, each.partition): each.leader for each in found.partitions}
        late = {key: now.get(key, NO_LEADER) for key, node in leaders.items() if now.get(key) != node}
        if not late:
            break
    return {key: f"{leader} still leads it after {timeout_s:.0f} s" for key, leader in late.items()}


__all__ = ["Move", "Plan", "carry_out", "plan_moves", "wait_until_led"]
