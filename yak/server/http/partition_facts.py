"""Facts known only to a partition's leader: first offset, high watermark, size. All leaders are asked in parallel."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import trio

from yak.cluster.image import TopicInfo
from yak.ids import NodeId, TopicPartition
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.topic_partitions import EARLIEST, LATEST, by_leader, list_offsets

DESCRIBE_LOG_DIRS: Final = 35
_TIMEOUT_SECONDS: Final = 5.0
_LOG_DIRS_VERSION: Final = 4


@dataclass(slots=True)
class Facts:
    """Facts of one partition; None where its leader did not answer, because it is offline or was only just elected."""

    log_start_offset: int | None = None
    high_watermark: int | None = None
    size_bytes: int | None = None


async def facts_of(context: Context, topic: TopicInfo) -> list[Facts]:
    """The facts of all partitions of a topic, in order. A leader that does not answer is no error."""
    facts = [Facts() for _ in topic.partitions]
    places = [TopicPartition(topic.name, info.partition) for info in topic.partitions]

    async def look(name: str, timestamp: int) -> None:
        for place, offset in (await list_offsets(context, places, timestamp, _TIMEOUT_SECONDS)).items():
            setattr(facts[place.partition], name, offset)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look, "log_start_offset", EARLIEST)
        nursery.start_soon(look, "high_watermark", LATEST)
        for node_id, led in by_leader(context.broker.image, places).items():
            nursery.start_soon(_sizes, context, node_id, topic.name, [each.partition for each in led], facts)
    return facts


async def _sizes(context: Context, node_id: NodeId, topic: str, partitions: list[int], facts: list[Facts]) -> None:
    fields: Mapping[str, object] = {"topics": [{"topic": topic, "partitions": partitions}]}
    try:
        answer = await context.broker_client.ask(
            DESCRIBE_LOG_DIRS, fields, node_id=node_id, timeout_s=_TIMEOUT_SECONDS, version=_LOG_DIRS_VERSION
        )
    except Problem:
        return
    for directory in answer.results:
        for found in directory.topics:
            for each in found.partitions:
                facts[each.partition_index].size_bytes = each.partition_size
