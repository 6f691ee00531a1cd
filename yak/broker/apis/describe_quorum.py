"""DescribeQuorum (key 55, v0-2): the leader and the replicas of the metadata log.

v1: time stamps (KIP-836). v2: messages, and the addresses of the voters (KIP-853). In a cluster with a quorum the quorum's
leader answers, and other brokers forward the request to it. In a cluster with Redis the metadata log is in Redis, which
commits it without votes of brokers: the controller is the leader and the only voter, and the other live brokers are
observers. Then every broker answers from its own image, and knows no other observer's log end: -1, as in Kafka.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from yak.acls.bindings import Operation
from yak.broker.apis.metadata import controller_of
from yak.broker.call import Call, Fields, Now, Outcome
from yak.broker.quorum_node import NO_LEADER, QuorumNode, forward_to_leader
from yak.errors import ErrorCode, PeerError
from yak.ids import NodeId
from yak.lifecycle.liveness import serving_brokers
from yak.protocol.topic_names import METADATA_TOPIC

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.quorum.leader_state import Follower
    from yak.quorum.quorum import Quorum

KEY, NAME, VERSIONS = 55, "DescribeQuorum", range(3)
ABSENT = (
    "voters in a cluster with Redis: the controller is the only voter there, and the other live brokers are observers",
    "the log end offsets of observers in a cluster with Redis: -1",
)

_LISTENER = "PLAINTEXT"


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe partition 0 of the metadata log, and no other partition."""
    try:
        broker.authorization.check_cluster(call, Operation.DESCRIBE)
    except PeerError as error:
        return Now({"error_code": error.error_code, "error_message": error.message, "topics": [], "nodes": []})
    topics = call.request.topics
    requested = [(topic.topic_name, part.partition_index) for topic in topics for part in topic.partitions]
    if requested != [(METADATA_TOPIC, 0)]:
        return _refusal(call, ErrorCode.unknown_topic_or_partition, "this broker does not host this partition")
    if broker.quorum is not None:
        return _of_quorum(broker, call, broker.quorum)
    leader = controller_of(broker.image, call.connection.listener.name)
    if leader < 0:
        return _refusal(call, ErrorCode.not_leader_or_follower, "there is no live controller now")
    return Now(_of_redis(broker, leader, broker.wall_ms))


def _of_quorum(broker: Broker, call: Call, node: QuorumNode) -> Outcome:
    if node.quorum.leader is None:
        return forward_to_leader(broker, call, _refusal(call, *NO_LEADER).fields)
    quorum = node.quorum
    return _answer(
        _partition_of(quorum, broker.wall_ms - broker.now_ms),
        [
            {"node_id": voter.node_id, "listeners": [{"name": _LISTENER, "host": voter.host, "port": voter.port}]}
            for voter in quorum.voters.voters
        ],
    )


def _partition_of(quorum: Quorum, ahead_ms: int) -> Fields:
    leader, voters = quorum.leader, quorum.voters
    assert leader is not None
    return {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "error_message": "",
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "current_voters": [
            _follower(quorum, voter.node_id, voter.directory_id, leader.state_of(voter), ahead_ms)
            for voter in voters.voters
        ],
        "observers": [
            _follower(quorum, node_id, seen.directory_id, seen, ahead_ms)
            for node_id, seen in leader.observers(voters, quorum.now_ms)
        ],
    }


def _follower(
    quorum: Quorum, node_id: NodeId, directory_id: uuid.UUID | None, follower: Follower, ahead_ms: int
) -> Fields:
    if node_id == quorum.config.node_id:
        now_ms = quorum.now_ms + ahead_ms
        return _replica(node_id, quorum.log.end_offset, now_ms, now_ms, directory_id)
    fetched_ms, caught_up_ms = (
        at_ms if at_ms < 0 else at_ms + ahead_ms for at_ms in (follower.last_fetch_ms, follower.last_caught_up_ms)
    )
    return _replica(node_id, follower.end_offset, fetched_ms, caught_up_ms, directory_id)


def _of_redis(broker: Broker, leader: NodeId, now_ms: int) -> Fields:
    image = broker.image
    end = image.offset + 1
    known = {leader: (end, now_ms, now_ms), broker.node_id: (end, now_ms, now_ms)}
    controller = image.brokers[leader]
    observers = [info.node_id for info in serving_brokers(image) if info.node_id != leader]
    partition = {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "error_message": "",
        "leader_id": leader,
        "leader_epoch": image.controller_epoch,
        "high_watermark": end,
        "current_voters": [_replica(leader, *known[leader])],
        "observers": [_replica(node_id, *known.get(node_id, (-1, -1, -1))) for node_id in observers],
    }
    listener = {"name": _LISTENER, "host": controller.host, "port": controller.port}
    return _answer(partition, [{"node_id": leader, "listeners": [listener]}]).fields


def _answer(partition: Fields, nodes: list[Fields]) -> Now:
    return Now(
        {
            "error_code": ErrorCode.none,
            "error_message": "",
            "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
            "nodes": nodes,
        }
    )


def _replica(
    node_id: NodeId, log_end_offset: int, fetched_ms: int, caught_up_ms: int, directory_id: uuid.UUID | None = None
) -> Fields:
    return {
        "replica_id": node_id,
        "replica_directory_id": directory_id,
        "log_end_offset": log_end_offset,
        "last_fetch_timestamp": fetched_ms,
        "last_caught_up_timestamp": caught_up_ms,
    }


def _refusal(call: Call, error_code: ErrorCode, message: str) -> Now:
    topics = [
        {
            "topic_name": topic.topic_name,
            "partitions": [_refused(part.partition_index, error_code, message) for part in topic.partitions],
        }
        for topic in call.request.topics
    ]
    return Now({"error_code": ErrorCode.none, "error_message": "", "topics": topics, "nodes": []})


def _refused(index: int, error_code: ErrorCode, message: str) -> Fields:
    return {
        "partition_index": index,
        "error_code": error_code,
        "error_message": message,
        "leader_id": -1,
        "leader_epoch": -1,
        "high_watermark": -1,
        "current_voters": [],
        "observers": [],
    }
