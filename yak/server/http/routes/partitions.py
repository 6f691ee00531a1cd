"""`/api/isr`: replica progress of all partitions; `/api/partitions/{topic}/{n}`: one partition in detail."""

from dataclasses import replace
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from yak.cluster.image import PartitionInfo, TopicInfo
from yak.lifecycle.liveness import is_serving
from yak.protocol.record_fields import INT32_MAX
from yak.server.http.answers import answer, large_answer
from yak.server.http.bodies import checked_integer, query_flag, query_text
from yak.server.http.context import Context
from yak.server.http.other_brokers import ask_broker
from yak.server.http.problems import Problem
from yak.server.http.replica_rows import all_rows, own_rows
from yak.server.http.route import Answer, Parameter, Routes
from yak.server.http.schemas import (
    BOOLEAN,
    ISR_ROW,
    NODE_ID,
    NODES,
    NUMBER,
    OFFSET,
    OFFSET_OR_NULL,
    PARTITION,
    TOPIC_NAME,
    flag,
    listing,
    record,
)
from yak.server.http.topic_partitions import check_partition, find_topic
from yak.view.partition_state import Conditions
from yak.views.replicas import PartitionFilter, detail

_DETAIL: Final = record(
    {
        **ISR_ROW,
        "reported_by": NODE_ID,
        "isr_members": listing(record({"node_id": NODE_ID, "broker_epoch": NUMBER})),
        "eligible_leaders": NODES,
        "adding_replicas": NODES,
        "removing_replicas": NODES,
        "log_start_offset": OFFSET_OR_NULL,
        "last_stable_offset": OFFSET_OR_NULL,
        "size_bytes": OFFSET_OR_NULL,
        "segments": OFFSET_OR_NULL,
        "recovery_point": OFFSET_OR_NULL,
        "followers": listing(
            record(
                {
                    "node_id": NODE_ID,
                    "broker_epoch": OFFSET_OR_NULL,
                    "in_sync": BOOLEAN,
                    "log_end_offset": OFFSET_OR_NULL,
                    "lag": OFFSET_OR_NULL,
                    "last_fetched_ms_ago": OFFSET,
                    "last_caught_up_ms_ago": OFFSET,
                }
            )
        ),
    }
)


def find_partition(context: Context, name: str, number: str) -> tuple[TopicInfo, PartitionInfo]:
    """A partition by name and number. Raises Problem: 404 `unknown-topic-or-partition`, 400 `bad-parameter`."""
    topic = find_topic(context, name)
    index = checked_integer("partition", number, maximum=INT32_MAX)
    check_partition(topic, index)
    return topic, topic.partitions[index]


_LOCAL: Final = flag("local", "only this broker's own state; brokers use it between themselves")

ROUTES: Final = Routes("Administration")


@ROUTES.add(
    "GET /api/isr",
    "Leader, in-sync replicas, high watermark and log ends of all partitions",
    parameters=(
        Parameter("topic", TOPIC_NAME, "only this topic"),
        flag("offline", "only partitions without a leader; with several conditions, any is enough"),
        flag("under_min_isr", "only partitions that refuse acks=all: ISR below min.insync.replicas"),
        flag("at_min_isr", "only partitions whose ISR has the size of min.insync.replicas"),
        flag("under_replicated", "only partitions with a replica that is not in the ISR"),
        _LOCAL,
    ),
    answers={200: Answer("one entry for each partition, as `yak isr -o json` shows it", listing(record(ISR_ROW)))},
    description="Log end offsets come from the leaders; they are null if a leader does not answer.",
)
async def isr(context: Context, request: Request) -> Response:
    """The partitions that match the query."""
    topic = query_text(request, "topic")
    if topic is not None:
        find_topic(context, topic)
    wanted = PartitionFilter(topic, Conditions(*(query_flag(request, name) for name in Conditions._fields)))
    if query_flag(request, "local"):
        rows = await own_rows(context, replace(wanted, leader=context.broker.node_id))
    else:
        rows = await all_rows(context, wanted)
    return await large_answer(context, lambda: rows, len(rows))


@ROUTES.add(
    "GET /api/partitions/{topic}/{partition}",
    "One partition: offsets of each replica, epochs, log start, size",
    parameters=(
        Parameter("topic", TOPIC_NAME, "the topic", where="path"),
        Parameter("partition", PARTITION, "its number, from 0", where="path"),
        _LOCAL,
    ),
    answers={
        200: Answer("the partition; `reported_by` is its leader, or this broker if the leader does not answer", _DETAIL)
    },
)
async def partition(context: Context, request: Request) -> Response:
    """One partition as its leader reports it, or as this broker knows it if the leader does not answer."""
    topic, info = find_partition(context, request.path_params["topic"], request.path_params["partition"])
    leader = context.broker.image.brokers.get(info.leader)
    is_local = query_flag(request, "local")
    if not is_local and leader is not None and leader.node_id != context.broker.node_id and is_serving(leader):
        path = f"/api/partitions/{quote(topic.name, safe='')}/{info.partition}?local=true"
        try:
            reply = await ask_broker(context, leader, "GET", path)
        except Problem:
            pass
        else:
            if reply.status == 200:
                return Response(reply.body, media_type="application/json")
        topic, info = find_partition(context, topic.name, str(info.partition))
    return answer(detail(context.broker, topic, info))
