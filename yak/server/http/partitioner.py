"""Chooses the partition of each record: the named one, the key's, or one for all records without a key.

Keys are hashed like in Java's producers and librdkafka's `murmur2_random`. Records without a key share one partition of
their topic, a different one for each request. Like with Kafka's sticky partitioner, a request's records make one batch.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from yak.cluster.image import Image, TopicInfo
from yak.errors import ErrorCode
from yak.ids import NodeId, TopicPartition
from yak.protocol.murmur2 import partition_for_key
from yak.protocol.record_batch import HEADER_BYTES
from yak.server.http.context import Context
from yak.server.http.problems import Problem, kafka_problem
from yak.server.http.produce_rows import Row
from yak.server.http.record_producer import Lane
from yak.server.http.topic_partitions import find_or_create_topic, leader_of, max_message_bytes

PLACED_AT_ONCE_MAX = 1000
"""More records than this are parsed and placed in a thread."""
HINT = "GET /docs lists the fields of a record"


class Placing:
    """Distributes the rows of one request to lanes. Rows without a key go to partitions led by `prefer` first."""

    def __init__(self, context: Context, topics: Mapping[str, TopicInfo], prefer: NodeId | None = None) -> None:
        self._image: Image = context.broker.image
        self._topics = topics
        self._prefer = prefer
        self._limits = {name: max_message_bytes(context, topic) for name, topic in topics.items()}
        self._named_max = context.limits.failed_rows_named_max
        self._turn = next(context.parts.setdefault("sticky", itertools.count()))
        self._sticky: dict[str, int] = {}
        self.lanes: dict[tuple[str, int], Lane] = {}
        self.faults: list[dict[str, Any]] = []
        self.failed = 0

    def put(self, rows: Sequence[Row], first_row: int = 0) -> None:
        """Place all rows. `failed` counts those that cannot be placed; `faults` names the first of them."""
        lanes = self.lanes
        for at, row in enumerate(rows, first_row):
            topic, partition, key, value, headers = row
            count = len(self._topics[topic].partitions)
            if partition is None:
                partition = self._sticky_partition(topic) if key is None else partition_for_key(key, count)
            elif partition >= count:
                words = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
                message = f"partition {partition} does not exist: topic {topic!r} has {words}"
                self._fault(at, ErrorCode.unknown_topic_or_partition, message)
                continue
            size = row.size_bytes_max
            if HEADER_BYTES + size > self._limits[topic]:
                message = f"a record of {size} bytes, max.message.bytes={self._limits[topic]}"
                self._fault(at, ErrorCode.message_too_large, message)
                continue
            lane = lanes.get((topic, partition))
            if lane is None:
                lane = Lane(TopicPartition(topic, partition), batch_bytes_max=self._limits[topic])
                lanes[topic, partition] = lane
            lane.add(at, key, value, headers, size)

    def _fault(self, row: int, code: ErrorCode, message: str) -> None:
        self.failed += 1
        if len(self.faults) < self._named_max:
            problem = kafka_problem(code, f"record {row}", message)
            self.faults.append({"row": row, "error": problem.error, "message": message, "status": problem.status})

    def _sticky_partition(self, topic: str) -> int:
        found = self._sticky.get(topic)
        if found is None:
            partitions = self._topics[topic].partitions
            led = [each.partition for each in partitions if leader_of(self._image, topic, each.partition) is not None]
            if self._prefer is not None:
                led = [each for each in led if leader_of(self._image, topic, each) == self._prefer] or led
            led = led or [each.partition for each in partitions]
            found = self._sticky[topic] = led[self._turn % len(led)]
        return found


async def topics_of(context: Context, rows: Sequence[Row]) -> dict[str, TopicInfo]:
    """The topics that the rows name, created where producers may create them. Raises Problem."""
    names = dict.fromkeys(row.topic for row in rows)
    return {name: await find_or_create_topic(context, name) for name in names}


def refuse(failed: int, total: int, faults: list[dict[str, Any]]) -> Problem:
    """The problem for a request with invalid rows, of which nothing is written."""
    if total == 1:
        (fault,) = faults
        return Problem(fault.pop("status", 400), fault["error"], fault["message"], HINT)
    for fault in faults:
        fault.pop("status", None)
    return Problem(
        400,
        "bad-records",
        f"{failed} of {total} records are invalid, so none was written; the first is record {faults[0]['row']}: "
        + faults[0]["message"],
        HINT,
        more={"failed": failed, "records": faults},
    )
