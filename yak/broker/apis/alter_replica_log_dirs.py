"""AlterReplicaLogDirs (key 34, v1-2): moves of replicas between the log directories of this broker. v2: flexible.

As in Kafka (`ReplicaManager.alterReplicaLogDirs`), the answer does not wait for the move. The directory that the replica
is in ends a move of it, and another directory replaces one. A move ends when the broker stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation
from yak.broker.call import Call, Now, Slices
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 34, "AlterReplicaLogDirs", range(1, 3)
ABSENT = (
    "the directory of a replica that the broker does not have yet is not stored",
    "a move does not resume after a restart",
)


def slices(broker: Broker, call: Call) -> Slices:
    """Answer for each partition; of a partition named for several directories the last one counts, as in Kafka."""
    wanted = {
        TopicPartition(topic.name, index): log_dir.path
        for log_dir in call.request.dirs
        for topic in log_dir.topics
        for index in topic.partitions
    }
    results: dict[str, list[dict[str, int]]] = {}
    pace = Pace()
    for topic_partition, path in wanted.items():
        if pace.is_over(1):
            yield
        results.setdefault(topic_partition.topic, []).append(
            {"partition_index": topic_partition.partition, "error_code": _outcome(broker, call, topic_partition, path)}
        )
    return Now({"results": [{"topic_name": topic, "partitions": rows} for topic, rows in results.items()]})


def _outcome(broker: Broker, call: Call, topic_partition: TopicPartition, path: str) -> ErrorCode:
    try:
        broker.authorization.check_cluster(call, Operation.ALTER)
        directory = next((found for found in broker.log_store.directories if found.path == path), None)
        if directory is None:
            return ErrorCode.log_dir_not_found
        if directory.failure is not None:
            return ErrorCode.kafka_storage_error
        broker.log_moves.request(broker.leadership.replica_of(topic_partition), path)
    except PeerError as error:
        is_elsewhere = error.error_code == ErrorCode.not_leader_or_follower
        return ErrorCode.replica_not_available if is_elsewhere else error.error_code
    return ErrorCode.none
