"""DescribeLogDirs (key 35, v1-5): the log directories, their replicas, and their total and usable bytes.

v2: flexible. v3: a top-level error. v4: bytes of the file system. v5: cordoned directories, of which there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation
from yak.broker.call import Call, Fields, Now, Outcome, Slices
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.limits import SLICE_ELEMENTS

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 35, "DescribeLogDirs", range(1, 6)


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe every directory, with the requested partitions, or all if the topics are null."""
    if not broker.authorization.allows_cluster(call, Operation.DESCRIBE):
        return Now({"error_code": ErrorCode.cluster_authorization_failed, "results": []})
    requested = call.request.topics
    wanted = None if requested is None else {(topic.topic, index) for topic in requested for index in topic.partitions}
    return broker.large_requests.answer(call, _described(broker, wanted))


def _described(broker: Broker, wanted: set[tuple[str, int]] | None) -> Slices:
    """Each replica is described as it is in its own slice; one that is removed meanwhile may still be in the answer."""
    found: dict[str, dict[str, list[Fields]]] = {}
    """The replicas by directory and topic."""

    def add(directory: str, topic_partition: TopicPartition, size: int, lag: int, *, is_future: bool) -> None:
        topic, index = topic_partition
        if wanted is None or topic_partition in wanted:
            fields = {"partition_index": index, "partition_size": size, "offset_lag": lag, "is_future_key": is_future}
            found.setdefault(directory, {}).setdefault(topic, []).append(fields)

    for number, (topic_partition, partition) in enumerate(list(broker.partitions.items()), 1):
        if number % SLICE_ELEMENTS == 0:
            yield
        log = partition.log
        if log is not None:
            lag = max(0, partition.high_watermark - log.log_end_offset)
            add(log.directory, topic_partition, log.size_bytes, lag, is_future=False)
    results = []
    for usage in broker.log_store.usage():
        for future in broker.log_moves.futures(usage.path) if usage.failure is None else ():
            add(usage.path, future.partition, future.size_bytes, future.offset_lag, is_future=True)
        topics = found.get(usage.path, {}) if usage.failure is None else {}
        results.append(
            {
                "error_code": ErrorCode.none if usage.failure is None else ErrorCode.kafka_storage_error,
                "log_dir": usage.path,
                "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
                "total_bytes": usage.total_bytes,
                "usable_bytes": usage.usable_bytes,
            }
        )
    return Now({"error_code": ErrorCode.none, "results": results})
