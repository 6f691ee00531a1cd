"""Topics and partitions in the image, their leaders, the leaders' HTTP addresses, and offsets that only leaders know."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import trio

from yak.cluster.image import Image, TopicInfo
from yak.errors import ErrorCode, PeerError
from yak.ids import NodeId, Offset, TopicPartition, by_topic
from yak.protocol.topic_names import validate_topic_name
from yak.server.http.context import Context
from yak.server.http.problems import Problem, kafka_problem

METADATA: Final = 3
LIST_OFFSETS: Final = 2
LIST_OFFSETS_VERSION: Final = 7
LATEST, EARLIEST = -1, -2
_OFFSETS_PER_REQUEST: Final = 200
_AGAIN_SECONDS: Final = 0.02


def partition_text(place: TopicPartition) -> str:
    """`partition 0 of topic 'orders'`."""
    return f"partition {place.partition} of topic {place.topic!r}"


def find_topic(context: Context, name: str) -> TopicInfo:
    """An existing topic. Raises Problem 404 `unknown-topic-or-partition`."""
    topic = context.broker.image.topics.get(name)
    if topic is None:
        raise kafka_problem(ErrorCode.unknown_topic_or_partition, f"topic {name[:249]!r}", "the topic does not exist")
    return topic


def check_partition(topic: TopicInfo, partition: int) -> None:
    """Raises Problem 404 `unknown-topic-or-partition`, naming the partitions that exist."""
    if not 0 <= partition < len(topic.partitions):
        last = len(topic.partitions) - 1
        raise kafka_problem(
            ErrorCode.unknown_topic_or_partition,
            partition_text(TopicPartition(topic.name, partition)),
            "it has only partition 0" if last == 0 else f"it has partitions 0 to {last}",
        )


def no_leader(place: TopicPartition) -> Problem:
    """The problem for a partition without a leader."""
    return kafka_problem(ErrorCode.leader_not_available, partition_text(place), "it has no leader")


async def find_or_create_topic(context: Context, name: str) -> TopicInfo:
    """A topic, created if `auto.create.topics.enable` allows it; a Metadata request decides.

    Raises Problem 404, 400 for an invalid name, 503.
    """
    topic = context.broker.image.topics.get(name)
    if topic is not None:
        return topic
    try:
        validate_topic_name(name)
    except PeerError as error:
        raise kafka_problem(error.error_code, "topic", error.message) from None
    fields: Mapping[str, object] = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    answer = await context.broker_client.ask(METADATA, fields)
    found = answer.topics[0]
    if found.error_code is not ErrorCode.none and found.error_code is not ErrorCode.leader_not_available:
        if found.error_code is ErrorCode.unknown_topic_or_partition and context.broker.config.auto_create_topics_enable:
            raise kafka_problem(ErrorCode.leader_not_available, f"topic {name!r}", "it could not be created")
        raise kafka_problem(found.error_code, f"topic {name[:249]!r}", "the topic does not exist")
    return find_topic(context, name)


def leader_of(image: Image, place: TopicPartition) -> NodeId | None:
    """The partition's leader; None when it has no leader or does not exist."""
    info = image.partition(place)
    return info.leader if info is not None and info.leader in image.brokers else None


def by_leader(image: Image, partitions: Iterable[TopicPartition]) -> dict[NodeId, list[TopicPartition]]:
    """The partitions that have a leader, by that leader."""
    led: dict[NodeId, list[TopicPartition]] = {}
    for each in partitions:
        leader = leader_of(image, each)
        if leader is not None:
            led.setdefault(leader, []).append(each)
    return led


def offsets_request(partitions: Iterable[TopicPartition], timestamp: int, isolation_level: int = 0) -> dict[str, Any]:
    """The fields of a ListOffsets request, by kio's names. With isolation level 1, LATEST is the last stable offset."""

    def requested(place: TopicPartition) -> dict[str, int]:
        return {"partition_index": place.partition, "current_leader_epoch": -1, "timestamp": timestamp}

    topics = [{"name": name, "partitions": list(map(requested, of))} for name, of in by_topic(partitions).items()]
    return {"replica_id": -1, "isolation_level": isolation_level, "topics": topics}


async def list_offsets(
    context: Context, partitions: Iterable[TopicPartition], timestamp: int, timeout_s: float
) -> dict[TopicPartition, Offset]:
    """The LATEST or EARLIEST offset of each partition whose leader answers in time. Requests to the leaders run in parallel."""
    found: dict[TopicPartition, Offset] = {}

    async def ask(node_id: NodeId, led: list[TopicPartition]) -> None:
        for start in range(0, len(led), _OFFSETS_PER_REQUEST):
            fields = offsets_request(led[start : start + _OFFSETS_PER_REQUEST], timestamp)
            try:
                answer = await context.broker_client.ask(
                    LIST_OFFSETS, fields, node_id=node_id, timeout_s=timeout_s, version=LIST_OFFSETS_VERSION
                )
            except Problem:
                return
            found.update(
                (TopicPartition(str(topic.name), int(each.partition_index)), int(each.offset))
                for topic in answer.topics
                for each in topic.partitions
                if not each.error_code and each.offset >= 0
            )

    with trio.move_on_after(timeout_s):
        async with trio.open_nursery() as nursery:
            for node_id, led in by_leader(context.broker.image, partitions).items():
                nursery.start_soon(ask, node_id, led)
    return found


async def log_ends(
    context: Context, partitions: Collection[TopicPartition], timeout_s: float
) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]]:
    """The log start offsets and high watermarks, read at the same time: a silent leader delays the answer once."""
    found: dict[int, dict[TopicPartition, Offset]] = {}

    async def read(timestamp: int) -> None:
        found[timestamp] = await list_offsets(context, partitions, timestamp, timeout_s)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, EARLIEST)
        nursery.start_soon(read, LATEST)
    return found[EARLIEST], found[LATEST]


def max_message_bytes(context: Context, topic: TopicInfo) -> int:
    """The topic's `max.message.bytes` in the current image; computed once for each image."""
    image = context.broker.image
    held = context.parts.get("max_message_bytes")
    if held is None or held[0] is not image:
        held = context.parts["max_message_bytes"] = (image, {})
    known: dict[str, int] = held[1]
    found = known.get(topic.name)
    if found is None:
        config = image.log_config(topic, context.broker.node_id, context.broker.config.static)
        found = known[topic.name] = config.max_message_bytes
    return found


class RetryBudget:
    """The retry budget: `HttpLimits.retry_ms` from the first failure.

    `again` waits a little and returns whether to retry.
    """

    def __init__(self, context: Context) -> None:
        self._seconds = context.limits.retry_ms / 1000
        self._until: float | None = None
        self._pause = _AGAIN_SECONDS

    async def again(self) -> bool:
        """Wait a moment; False when the time is over."""
        now = trio.current_time()
        if self._until is None:
            self._until = now + self._seconds
        if now >= self._until:
            return False
        await trio.sleep(min(self._pause, max(0.0, self._until - now)))
        self._pause = min(self._pause * 2, 0.25)
        return True

    def reset(self) -> None:
        """A request succeeded: the next failure gets the whole budget again."""
        self._until = None
        self._pause = _AGAIN_SECONDS


MOVING: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    }
)
"""Errors that are transient during a leadership change, with nothing done. A leader returns the last two while it does
not know a new topic yet; a deleted topic is missing in the image.
"""
