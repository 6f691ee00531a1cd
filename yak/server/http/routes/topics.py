"""`/topics`: lists, describes, creates and deletes topics."""

from collections.abc import Mapping
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation
from yak.broker.apis import create_topics, delete_topics, describe_log_dirs
from yak.cluster.image import Image, PartitionInfo, TopicInfo
from yak.ids import NodeId, TopicPartition
from yak.limits import PARTITIONS_PER_TOPIC_MAX
from yak.protocol.topic_names import is_internal
from yak.server.http.answers import answer, large_answer
from yak.server.http.authentication import CALLER
from yak.server.http.bodies import checked, json_body, query_flag
from yak.server.http.context import Context
from yak.server.http.problems import Problem, check_error
from yak.server.http.rights import visible_configs
from yak.server.http.route import Answer, Body, Parameter, Routes
from yak.server.http.schemas import (
    BOOLEAN,
    NOT_EMPTY,
    NUMBER,
    OFFSET,
    OFFSET_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TOPIC_NAME,
    closed,
    listing,
    or_null,
    record,
)
from yak.server.http.topic_partitions import by_leader, find_topic, log_ends

_LOG_DIRS_VERSION: Final = 4
_ASK_SECONDS: Final = 5.0
_CREATE_VERSION: Final = 7
_DELETE_VERSION: Final = 5
_TIMEOUT_MS: Final = 20_000
_INT16_MAX: Final = 2**15 - 1
_HINT: Final = 'send {"name": "orders", "partitions": 3, "replication_factor": 3}; only the name is needed'


async def _read_sizes(
    context: Context, node_id: NodeId, led: list[TopicPartition], sizes_bytes: dict[int, int]
) -> None:
    topic = {"topic": led[0].topic, "partitions": [each.partition for each in led]}
    try:
        answer = await context.broker_client.ask(
            describe_log_dirs.KEY,
            {"topics": [topic]},
            node_id=node_id,
            timeout_s=_ASK_SECONDS,
            version=_LOG_DIRS_VERSION,
        )
    except Problem:
        return
    for directory in answer.results:
        for found in directory.topics:
            for each in found.partitions:
                sizes_bytes[each.partition_index] = each.partition_size


def _list(image: Image, with_internal: bool) -> dict[str, Any]:
    topics = [_summary(image.topics[name]) for name in sorted(image.topics) if with_internal or not is_internal(name)]
    return {"topics": topics}


def _summary(topic: TopicInfo) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": max(len(info.replicas) for info in topic.partitions),
        "internal": is_internal(topic.name),
    }


def _partition(info: PartitionInfo, start: int | None, end: int | None, size_bytes: int | None) -> dict[str, Any]:
    return {
        "partition": info.partition,
        "leader": None if info.leader == -1 else info.leader,
        "leader_epoch": info.leader_epoch,
        "replicas": info.replicas,
        "isr": info.isr,
        "log_start_offset": start,
        "high_watermark": end,
        "size_bytes": size_bytes,
    }


async def request_topic(
    context: Context,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, Any] | None,
    *,
    validate_only: bool = False,
) -> Any:
    """Kafka's answer for a topic to create; None stands for the broker's defaults. Raises Problem."""
    topic = {
        "name": name,
        "num_partitions": int(partitions or -1),
        "replication_factor": int(replication_factor or -1),
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in _config_texts(configs).items()],
    }
    fields: Mapping[str, object] = {"topics": [topic], "timeout": _TIMEOUT_MS, "validate_only": validate_only}
    found = (await context.broker_client.ask(create_topics.KEY, fields, version=_CREATE_VERSION)).topics[0]
    check_error(found, f"topic {name[:249]!r}")
    return found


def _config_texts(configs: Mapping[str, Any] | None) -> dict[str, str]:
    """Configs by name; numbers and booleans as Kafka writes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (configs or {}).items()
    }


NAME: Final = Parameter("name", NOT_EMPTY, "the topic's name", where="path")
_CONFIGS: Final = {"type": "object", "additionalProperties": TEXT}
_SUMMARY: Final = {
    "name": TEXT,
    "topic_id": {**TEXT_OR_NULL, "format": "uuid"},
    "partitions": OFFSET,
    "replication_factor": OFFSET,
    "internal": BOOLEAN,
}
_PARTITION: Final = {
    "partition": OFFSET,
    "leader": {"type": ["integer", "null"]},
    "leader_epoch": OFFSET,
    "replicas": listing(NUMBER),
    "isr": listing(NUMBER),
    "log_start_offset": OFFSET_OR_NULL,
    "high_watermark": OFFSET_OR_NULL,
    "size_bytes": OFFSET_OR_NULL,
}
_TOPIC: Final = record({**_SUMMARY, "partitions": listing(record(_PARTITION)), "configs": or_null(_CONFIGS)})
_CREATED: Final = record(
    {**{name: each for name, each in _SUMMARY.items() if name != "internal"}, "configs": _CONFIGS, "created": BOOLEAN}
)
_NEW: Final = closed(
    {
        "name": TOPIC_NAME,
        "partitions": {"type": ["integer", "null"], "minimum": 1, "maximum": PARTITIONS_PER_TOPIC_MAX},
        "replication_factor": {"type": ["integer", "null"], "minimum": 1, "maximum": _INT16_MAX},
        "configs": {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean"]}},
        "validate_only": or_null(BOOLEAN),
    },
    "name",
)
_DELETED: Final = record({"name": TEXT, "topic_id": TEXT, "deleted": {"const": True}})

ROUTES: Final = Routes("Data")


@ROUTES.add(
    "GET /topics",
    "All topics",
    parameters=(Parameter("internal", {"enum": ["true", "false"]}, "include internal topics"),),
    answers={200: Answer("by name", record({"topics": listing(record(_SUMMARY))}))},
)
async def list_topics(context: Context, request: Request) -> Response:
    """All topics by name; internal topics only on request."""
    image, with_internal = context.broker.image, query_flag(request, "internal")
    return await large_answer(context, lambda: _list(image, with_internal), len(image.topics))


@ROUTES.add(
    "POST /topics",
    "Make a topic",
    guard="change",
    body=Body(_NEW, {"name": "orders", "partitions": 3, "configs": {"retention.ms": 86400000}}),
    answers={201: Answer("made", _CREATED), 200: Answer("it could be created (validate_only)", _CREATED)},
    description="Defaults: the broker's num.partitions and default.replication.factor.",
    operation=Operation.CREATE,
)
async def create_topic(context: Context, request: Request) -> Response:
    """Create a topic by CreateTopics, which answers when the topic is usable."""
    async with json_body(context, request, hint=_HINT) as body:
        fields = checked(body, _NEW, hint=_HINT)
    configs = _config_texts(fields.get("configs"))
    only_checked = bool(fields.get("validate_only"))
    made = await request_topic(
        context,
        fields["name"],
        fields.get("partitions"),
        fields.get("replication_factor"),
        configs,
        validate_only=only_checked,
    )
    created = {
        "name": made.name,
        "topic_id": None if only_checked else str(made.topic_id),
        "partitions": made.num_partitions,
        "replication_factor": made.replication_factor,
        "configs": configs,
        "created": not only_checked,
    }
    headers = {} if only_checked else {"location": f"/topics/{made.name}"}
    return answer(created, 200 if only_checked else 201, headers)


@ROUTES.add(
    "GET /topics/{name}",
    "One topic with its partitions",
    parameters=(NAME,),
    answers={200: Answer("with null for offsets that a leader does not report", _TOPIC)},
    description="`configs` is null for a user without the right to describe them.",
)
async def show_topic(context: Context, request: Request) -> Response:
    """One topic, with what only its leaders know: offsets and sizes."""
    topic = find_topic(context, request.path_params["name"])
    partitions = [TopicPartition(topic.name, info.partition) for info in topic.partitions]
    configs = visible_configs(context.broker, CALLER.get(), topic)
    sizes_bytes: dict[int, int] = {}
    async with trio.open_nursery() as nursery:
        for node_id, led in by_leader(context.broker.image, partitions).items():
            nursery.start_soon(_read_sizes, context, node_id, led, sizes_bytes)
        starts, ends = await log_ends(context, partitions, _ASK_SECONDS)

    def show() -> dict[str, Any]:
        rows = [
            _partition(info, starts.get(place), ends.get(place), sizes_bytes.get(info.partition))
            for info, place in zip(topic.partitions, partitions, strict=True)
        ]
        return {**_summary(topic), "partitions": rows, "configs": configs}

    return await large_answer(context, show, len(partitions))


@ROUTES.add(
    "DELETE /topics/{name}",
    "Delete a topic with all its records",
    guard="change",
    parameters=(NAME,),
    answers={200: Answer("it is gone", _DELETED)},
    operation=Operation.DELETE,
)
async def delete_topic(context: Context, request: Request) -> Response:
    """Delete a topic with all its records."""
    topic = find_topic(context, request.path_params["name"])
    fields: Mapping[str, object] = {"topic_names": [topic.name], "timeout": _TIMEOUT_MS}
    deleted = (await context.broker_client.ask(delete_topics.KEY, fields, version=_DELETE_VERSION)).responses[0]
    check_error(deleted, f"topic {topic.name!r}")
    return answer({"name": topic.name, "topic_id": str(topic.topic_id), "deleted": True})
