"""Moves partition leadership by Kafka's own requests: AlterPartitionReassignments, then ElectLeaders."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from yak.broker.apis import alter_partition_reassignments, elect_leaders
from yak.cluster.image import Image, PartitionInfo
from yak.cluster.leadership_moves import Move
from yak.errors import ErrorCode
from yak.ids import NodeId, TopicPartition
from yak.server.http.context import Context
from yak.server.http.problems import Problem, kafka_problem

_TIMEOUT_MS: Final = 10_000
_SEEN_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.01
_CONTROLLER_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class LedPartition:
    """A partition as `plan_moves` needs it."""

    topic: str
    partition: int
    leader: NodeId
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]


@dataclass(slots=True)
class Done:
    """The result of the moves: each partition's state before, and the failures with their reasons."""

    before: dict[TopicPartition, PartitionInfo] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    took_ms: float = 0.0


def led_partitions(
    image: Image, topic: str | None, partition: int | None, leader: NodeId | None
) -> Iterator[LedPartition]:
    """The selected partitions; None selects all."""
    names = sorted(image.topics) if topic is None else [topic]
    for name in names:
        for info in image.topics[name].partitions:
            if partition not in (None, info.partition) or leader not in (None, info.leader):
                continue
            yield LedPartition(name, info.partition, info.leader, info.replicas, info.isr)


def info_of(image: Image, place: TopicPartition) -> PartitionInfo | None:
    """A partition in an image; None when it does not exist."""
    topic = image.topics.get(place.topic)
    return None if topic is None or place.partition >= len(topic.partitions) else topic.partitions[place.partition]


async def carry_out(context: Context, moves: Sequence[Move]) -> Done:
    """Move leaderships and wait until the image shows them. Raises Problem when a whole request is refused."""
    done = Done()
    began = trio.current_time()
    for each in moves:
        info = info_of(context.broker.image, each.partition)
        if info is not None:
            done.before[each.partition] = info
    await _reorder(context, {each.partition: each.order for each in moves if each.order is not None}, done)
    wanted = {each.partition: each.to for each in moves if each.partition not in done.failed}
    if wanted:
        await _elect(context, list(wanted), done)
    await _wait_until_led(context, {place: to for place, to in wanted.items() if place not in done.failed}, done)
    done.took_ms = (trio.current_time() - began) * 1000
    return done


async def _reorder(context: Context, orders: Mapping[TopicPartition, tuple[NodeId, ...]], done: Done) -> None:
    if not orders:
        return
    topics = [
        {
            "name": name,
            "partitions": [{"partition_index": each.partition, "replicas": list(orders[each])} for each in places],
        }
        for name, places in _by_topic(orders).items()
    ]
    fields = {"timeout": _TIMEOUT_MS, "allow_replication_factor_change": False, "topics": topics}
    answer = await context.broker_client.ask(alter_partition_reassignments.KEY, fields)
    if answer.error_code:
        raise kafka_problem(answer.error_code, "the replicas were not reordered", answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            if each.error_code:
                place = TopicPartition(str(topic.name), int(each.partition_index))
                done.failed[place] = each.error_message or _words(each.error_code)


async def _elect(context: Context, places: Sequence[TopicPartition], done: Done) -> None:
    fields: dict[str, Any] = {
        "election_type": elect_leaders.PREFERRED,
        "timeout": _TIMEOUT_MS,
        "topic_partitions": [
            {"topic": name, "partitions": [each.partition for each in of]} for name, of in _by_topic(places).items()
        ],
    }
    until = trio.current_time() + _CONTROLLER_SECONDS
    while True:
        controller = context.broker.image.controller_id
        try:
            if controller < 0:
                raise kafka_problem(
                    ErrorCode.not_controller, "no leader was elected", "the cluster has no controller now"
                )
            answer = await context.broker_client.ask(elect_leaders.KEY, fields, node_id=controller)
            if answer.error_code:
                raise kafka_problem(answer.error_code, "no leader was elected")
            break
        except Problem as problem:
            # safe to retry: the second time, the election is not needed
            if problem.status != 503 or trio.current_time() >= until:
                raise
        await trio.sleep(_LOOK_SECONDS * 10)
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            if result.error_code not in (ErrorCode.none, ErrorCode.election_not_needed):
                place = TopicPartition(str(topic.topic), int(result.partition_id))
                done.failed[place] = result.error_message or _words(result.error_code)


async def _wait_until_led(context: Context, leaders: Mapping[TopicPartition, NodeId], done: Done) -> None:
    until = trio.current_time() + _SEEN_SECONDS
    late = dict(leaders)
    while True:
        image = context.broker.image
        late = {place: to for place, to in late.items() if (info := info_of(image, place)) is None or info.leader != to}
        if not late:
            return
        if trio.current_time() >= until:
            done.failed |= dict.fromkeys(
                late, f"it was requested, but this broker has not seen it after {_SEEN_SECONDS:g} s"
            )
            return
        await trio.sleep(_LOOK_SECONDS)


def _by_topic(places: Sequence[TopicPartition] | Mapping[TopicPartition, Any]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for each in places:
        topics.setdefault(each.topic, []).append(each)
    return topics


def _words(code: int) -> str:
    return ErrorCode(code).name.replace("_", " ")
