"""The metadata service's topics, partitions and producers: Kafka's own requests, answered with the records."""

from collections.abc import Mapping
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation
from yak.broker.apis import create_partitions, init_producer_id
from yak.cluster.image import BrokerInfo, TopicInfo
from yak.errors import ErrorCode
from yak.limits import PARTITIONS_PER_TOPIC_MAX
from yak.server.http.answers import answer, large_answer
from yak.server.http.authentication import CALLER
from yak.server.http.bodies import checked, json_body
from yak.server.http.context import Context
from yak.server.http.external_brokers import ExternalBrokers
from yak.server.http.metadata_bodies import PRODUCER, TOPIC, UUID, WHOLE_TOPIC, identifier, require_store
from yak.server.http.problems import Problem, bad_body, check_error, kafka_problem
from yak.server.http.rights import visible_configs
from yak.server.http.route import Answer, Body, Parameter, Routes
from yak.server.http.routes.topics import request_topic
from yak.server.http.schemas import NODE_ID, OFFSET, TOPIC_NAME, closed, given, listing, or_null
from yak.views.metadata_json import STATUS, ExternalBroker, partition_json, seconds, topic_json

_TIMEOUT_MS: Final = 10_000
_REPLICATION_FACTOR_MAX: Final = 32_767
_TOPIC_SECONDS: Final = 0.15
"""How long to wait for a topic that another broker may have just created."""
_TOPIC_POLL_SECONDS: Final = 0.01
_TOPIC_HINT: Final = 'send {"name": "orders"}; numPartitions, replicationFactor and configs are optional'
_PARTITION_HINT: Final = 'send {"name": "orders"} for one more, or with "numPartitions": the new total'
_PRODUCER_HINT: Final = 'send {}, or {"brokerId": 1} for an id from that broker'


async def _named(context: Context, body: Mapping[str, Any]) -> TopicInfo:
    if body.get("topicUUID") is None:
        return await _await_topic(context, body.get("name") or body["topic"])
    topic = context.broker.image.topic_by_id(identifier("topicUUID", body["topicUUID"], hint=_PARTITION_HINT))
    if topic is None:
        raise _no_topic(body["topicUUID"])
    return topic


def _count(body: Mapping[str, Any], topic: TopicInfo) -> int:
    """The requested total number of partitions. Raises Problem 400, and 409 for a partition that exists."""
    present = len(topic.partitions)
    count, number = body.get("numPartitions"), body.get("partitionId")
    if number is not None:
        if number < present:
            message = f"{topic.name} has a partition {number}"
            raise Problem(409, "partition-exists", message, f"the next is {present}")
        if number > present or count not in (None, number + 1):
            message = f"{topic.name} has {present} partitions: the next is {present}, not {number}"
            raise bad_body(message, "leave out partitionId, or numPartitions")
        return int(number) + 1
    return present + 1 if count is None else int(count)


async def _await_topic(context: Context, name: str) -> TopicInfo:
    """The topic of that name; waits briefly for one that another broker just created. Raises Problem 404."""
    deadline = trio.current_time() + _TOPIC_SECONDS
    while (topic := context.broker.image.topics.get(name)) is None:
        if trio.current_time() >= deadline:
            raise _no_topic(name)
        await trio.sleep(_TOPIC_POLL_SECONDS)
    return topic


def _no_topic(name: str) -> Problem:
    return kafka_problem(ErrorCode.unknown_topic_or_partition, f"topic {name[:64]}", "it does not exist")


def _topic(context: Context, topic: TopicInfo) -> dict[str, Any]:
    """A topic without its partitions, and without configs that the caller may not see."""
    return topic_json(topic) | {"configs": visible_configs(context.broker, CALLER.get(), topic)}


_NUM_PARTITIONS: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": PARTITIONS_PER_TOPIC_MAX}
_NEW_TOPIC: Final = closed(
    {
        "name": TOPIC_NAME,
        "numPartitions": _NUM_PARTITIONS,
        "replicationFactor": {"type": ["integer", "null"], "minimum": 1, "maximum": _REPLICATION_FACTOR_MAX},
        "configs": {"type": ["object", "null"], "additionalProperties": {"type": ["string", "integer", "boolean"]}},
    },
    "name",
)
_NEW_PARTITIONS: Final = {
    **closed(
        {
            "name": or_null(TOPIC_NAME),
            "topic": or_null(TOPIC_NAME),
            "topicUUID": or_null(UUID),
            "numPartitions": _NUM_PARTITIONS,
            "partitionId": {"type": ["integer", "null"], "minimum": 0, "maximum": PARTITIONS_PER_TOPIC_MAX - 1},
            "replicas": or_null({**listing(NODE_ID), "minItems": 1}),
        }
    ),
    "oneOf": given("name", "topic", "topicUUID"),
}
_FOR_PRODUCER: Final = closed({"brokerId": or_null(NODE_ID), "brokerEpoch": or_null(OFFSET)})

ROUTES: Final = Routes("Metadata service: topics, partitions, producers")


@ROUTES.add(
    "POST /create_topic",
    "Make a topic",
    guard="change",
    body=Body(
        _NEW_TOPIC,
        {"name": "orders", "numPartitions": 3, "replicationFactor": 3, "configs": {"retention.ms": "3600000"}},
    ),
    answers={201: Answer("it is created, also for Kafka clients", TOPIC)},
    operation=Operation.CREATE,
)
async def create_topic(context: Context, request: Request) -> Response:
    """Create a topic, visible to every Kafka client."""
    async with json_body(context, request, hint=_TOPIC_HINT) as raw:
        body = checked(raw, _NEW_TOPIC, hint=_TOPIC_HINT)
    name = body["name"]
    require_store(context.broker)
    await request_topic(context, name, body.get("numPartitions"), body.get("replicationFactor"), body.get("configs"))
    made = context.broker.image.topics.get(name)
    if made is None:
        raise _no_topic(name)
    return answer(_topic(context, made), 201)


@ROUTES.add(
    "GET /get_topic_by_name/{name}",
    "A topic and its partitions",
    parameters=(Parameter("name", TOPIC_NAME, "the topic", where="path"),),
    answers={200: Answer("the topic", WHOLE_TOPIC)},
)
async def get_topic_by_name(context: Context, request: Request) -> Response:
    """A topic with its partitions."""
    topic = await _await_topic(context, request.path_params["name"])
    head = _topic(context, topic)

    def show() -> dict[str, Any]:
        return {**head, "partitions": [partition_json(topic, each) for each in topic.partitions]}

    return await large_answer(context, show, len(topic.partitions))


@ROUTES.add(
    "POST /create_partition",
    "Add one or more partitions",
    guard="change",
    body=Body(_NEW_PARTITIONS, {"name": "orders", "numPartitions": 6}),
    answers={201: Answer("the topic and its new partitions", WHOLE_TOPIC)},
    description="The topic by `name`, `topic` or `topicUUID`. `numPartitions` is the new total; without it, one partition is "
    "added. `partitionId` must be the next one; `replicas` places a single new partition.",
)
async def create_partition(context: Context, request: Request) -> Response:
    """Add partitions: one, or up to a total number."""
    async with json_body(context, request, hint=_PARTITION_HINT) as raw:
        body = checked(raw, _NEW_PARTITIONS, hint=_PARTITION_HINT)
    topic = await _named(context, body)
    present = len(topic.partitions)
    count = _count(body, topic)
    assignments = None
    if body.get("replicas") is not None:
        if count != present + 1:
            message = f"replicas are for one new partition, not for {count - present}"
            raise bad_body(message, "leave out replicas, or numPartitions")
        assignments = [{"broker_ids": [int(each) for each in body["replicas"]]}]
    require_store(context.broker)
    new_total = {"name": topic.name, "count": count, "assignments": assignments}
    fields = {"topics": [new_total], "timeout": _TIMEOUT_MS, "validate_only": False}
    result = (await context.broker_client.ask(create_partitions.KEY, fields)).results[0]
    check_error(result, f"topic {topic.name}")
    made = context.broker.image.topics.get(topic.name)
    if made is None:
        raise _no_topic(topic.name)
    new = [partition_json(made, partition) for partition in made.partitions[present:count]]
    return answer({**_topic(context, made), "partitions": new}, 201)


@ROUTES.add(
    "POST /register_producer",
    "A producer id",
    guard="change",
    body=Body(_FOR_PRODUCER, {}, required=False),
    answers={201: Answer("a unique producer id", PRODUCER)},
    description="From this broker, or from `brokerId`, which must be ALIVE. Ids come in blocks of 1,000 "
    "(`producers` of /broker_mgmt): most registrations write no record.",
)
async def register_producer(context: Context, request: Request) -> Response:
    """A unique producer id."""
    async with json_body(context, request, hint=_PRODUCER_HINT, optional=True) as raw:
        body = checked({} if raw is None else raw, _FOR_PRODUCER, hint=_PRODUCER_HINT)
    node_id = context.broker.node_id if body.get("brokerId") is None else int(body["brokerId"])
    epoch = body.get("brokerEpoch")
    image = context.broker.image
    broker: BrokerInfo | ExternalBroker | None = image.brokers.get(node_id) or image.former.get(node_id)
    if broker is None:
        broker = (await context.part(ExternalBrokers).read()).brokers.get(node_id)
    if broker is None:
        raise Problem(
            404, "unknown-broker", f"broker {node_id} is not registered", "GET /get_active_brokers lists some"
        )
    if STATUS[broker.state] != "ALIVE":
        message = f"broker {node_id} is {STATUS[broker.state]}"
        raise Problem(409, "broker-not-alive", message, "GET /get_active_brokers lists others")
    if epoch is not None and epoch != broker.broker_epoch:
        message = f"broker {node_id} is at epoch {broker.broker_epoch}, not {epoch}"
        raise Problem(409, "stale-broker-epoch", message, "leave brokerEpoch out, or send that")
    # External brokers allocate no ids: their producers get them from this broker.
    allocator = node_id if node_id in image.brokers else None
    fields = {"transactional_id": None, "transaction_timeout": 0, "producer_id": -1, "producer_epoch": -1}
    result = await context.broker_client.ask(init_producer_id.KEY, fields, node_id=allocator)
    check_error(result, "producer id")
    given: dict[str, Any] = {
        "brokerId": node_id,
        "brokerEpoch": broker.broker_epoch,
        "producerId": result.producer_id,
        "producerEpoch": result.producer_epoch,
        "timestamp": seconds(context.shell.clock.wall_ms()),
    }
    return answer(given, 201)
