"""Facts known only to a partition's leader: first offset, high watermark, size. All leaders are asked in parallel."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import trio

from yak.cluster.image import TopicInfo
from yak.errors import ErrorCode
from yak.ids import NodeId
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.record_reader import EARLIEST, LATEST, LIST_OFFSETS
from yak.server.http.topic_partitions import leader_of

DESCRIBE_LOG_DIRS: Final = 35
_TIMEOUT_SECONDS: Final = 5.0
_LIST_OFFSETS_VERSION: Final = 7
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
    led: dict[NodeId, list[int]] = {}
    image = context.broker.image
    for info in topic.partitions:
        leader = leader_of(image, topic.name, info.partition)
        if leader is not None:
            led.setdefault(leader, []).append(info.partition)
    async with trio.open_nursery() as nursery:
        for node_id, partitions in led.items():
            for look in (_log_starts, _high_watermarks, _sizes):
                nursery.start_soon(partial(_quietly, look, context, node_id, topic.name, partitions, facts))
    return facts


async def _quietly(look: Any, *arguments: Any) -> None:
    try:
        await look(*arguments)
    except Problem:
        return


async def _log_starts(context: Context, node_id: NodeId, topic: str, partitions: list[int], facts: list[Facts]) -> None:
    for partition, offset in (await _offsets(context, node_id, topic, partitions, EARLIEST)).items():
        facts[partition].log_start_offset = offset


async def _high_watermarks(
    context: Context, node_id: NodeId, topic: str, partitions: list[int], facts: list[Facts]
) -> None:
    for partition, offset in (await _offsets(context, node_id, topic, partitions, LATEST)).items():
        facts[partition].high_watermark = offset


async def _offsets(
    context: Context, node_id: NodeId, topic: str, partitions: list[int], which: int
) -> Mapping[int, int]:
    asked = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": which} for each in partitions]
    fields: Mapping[str, object] = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": asked}],
    }
    answer = await context.broker_client.ask(
        LIST_OFFSETS, fields, node_id=node_id, timeout_s=_TIMEOUT_SECONDS, version=_LIST_OFFSETS_VERSION
    )
    return {
        each.partition_index: each.offset
        for found in answer.topics
        for each in found.partitions
        if each.error_code is ErrorCode.none
    }


async def _sizes(context: Context, node_id: NodeId, topic: str, partitions: list[int], facts: list[Facts]) -> None:
    fields: Mapping[str, object] = {"topics": [{"topic": topic, "partitions": partitions}]}
    answer = await context.broker_client.ask(
        DESCRIBE_LOG_DIRS, fields, node_id=node_id, timeout_s=_TIMEOUT_SECONDS, version=_LOG_DIRS_VERSION
    )
    for directory in answer.results:
        for found in directory.topics:
            for each in found.partitions:
                facts[each.partition_index].size_bytes = each.partition_size
