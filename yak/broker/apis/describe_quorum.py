"""DescribeQuorum (key 55, v0-2): the controller, and the brokers that read the metadata log.

v1: time stamps (KIP-836). v2: messages, and the addresses of the voters (KIP-853). The metadata log is in the metadata
store, which commits it without votes of brokers. So the controller is the leader and the only voter, and the other live
brokers are observers. Every broker answers from its own image. It knows no other observer's log end: -1, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.apis.metadata import controller_of
from yak.broker.call import Call, Fields, Now, Outcome
from yak.errors import ErrorCode
from yak.ids import NodeId
from yak.lifecycle.liveness import serving_brokers
from yak.protocol.topic_names import METADATA_TOPIC

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 55, "DescribeQuorum", range(3)
ABSENT = (
    "a quorum: the metadata store commits, so the controller is the only voter and the other live brokers are observers",
    "the log end offsets of other observers: -1",
)

_LISTENER = "PLAINTEXT"


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe partition 0 of the metadata log, and no other partition."""
    topics = call.request.topics
    asked = [(topic.topic_name, part.partition_index) for topic in topics for part in topic.partitions]
    leader = controller_of(broker.image)
    if asked != [(METADATA_TOPIC, 0)]:
        refused = ErrorCode.unknown_topic_or_partition, "this broker does not host this partition"
    elif leader < 0:
        refused = ErrorCode.not_leader_or_follower, "there is no live controller now"
    else:
        return Now(_described(broker, leader, broker.wall_ms))
    return Now(
        {
            "error_code": ErrorCode.none,
            "error_message": "",
            "topics": [
                {
                    "topic_name": topic.topic_name,
                    "partitions": [_refused(part.partition_index, *refused) for part in topic.partitions],
                }
                for topic in topics
            ],
            "nodes": [],
        }
    )


def _described(broker: Broker, leader: NodeId, now_ms: int) -> Fields:
    image = broker.image
    end = image.offset + 1
    known = {leader: (end, now_ms), broker.node_id: (end, now_ms)}
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
        "observers": [_replica(node_id, *known.get(node_id, (-1, -1))) for node_id in observers],
    }
    listener = {"name": _LISTENER, "host": controller.host, "port": controller.port}
    return {
        "error_code": ErrorCode.none,
        "error_message": "",
        "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
        "nodes": [{"node_id": leader, "listeners": [listener]}],
    }


def _replica(node_id: NodeId, log_end_offset: int, seen_ms: int) -> Fields:
    return {
        "replica_id": node_id,
        "replica_directory_id": None,
        "log_end_offset": log_end_offset,
        "last_fetch_timestamp": seen_ms,
        "last_caught_up_timestamp": seen_ms,
    }


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
