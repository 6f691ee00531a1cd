"""`/consumers/{group}`: consumer groups for HTTP clients, like Confluent's REST proxy v2 (ConsumersResource.java)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation
from yak.config.listeners import bracketed
from yak.ids import TopicPartition
from yak.server.http.answers import answer
from yak.server.http.bodies import (
    INT64_MAX,
    body_pieces,
    in_thread,
    is_small,
    json_body,
    query_flag,
    query_integer,
    refuse_unknown_query,
)
from yak.server.http.consumers import bodies
from yak.server.http.consumers.bodies import ANSWER_TYPES, V2, answer_type, check_body_type, records_type
from yak.server.http.consumers.failures import illegal_state, with_code
from yak.server.http.consumers.instances import Instance, Instances
from yak.server.http.consumers.records import read_records
from yak.server.http.context import Context, HttpLimits
from yak.server.http.problems import Problem
from yak.server.http.route import Answer, Body, Parameter, Routes, Schema
from yak.server.http.topic_partitions import EARLIEST, LATEST

_WAIT_MS: Final = 1_000
"""The proxy's `consumer.request.timeout.ms`."""
_T = TypeVar("_T")
_Work = Callable[[Context, Request], Awaitable[Any]]
"""Returns a response, or the JSON of one; None: 204."""
_GROUP: Final = "/consumers/{group}"
_INSTANCE: Final = "/consumers/{group}/instances/{instance}"
_EVERYWHERE: Final = tuple(each for each in ANSWER_TYPES if each != V2)
"""Types that every route serves, besides V2; records come only in the types of their format."""
_DONE: Final = {204: Answer("done", also=ANSWER_TYPES)}
_GROUP_PARAMETER: Final = Parameter("group", bodies.NAME, "The consumer group", where="path")
_INSTANCE_PARAMETER: Final = Parameter("instance", bodies.NAME, "The instance's name, its `instance_id`", where="path")
_ANY_INT64: Final[Schema] = {"type": "integer", "minimum": -INT64_MAX - 1, "maximum": INT64_MAX}
ROUTES: Final = Routes("Consumer groups")


def _route(
    endpoint: str,
    summary: str,
    answers: Mapping[int, Answer],
    *,
    parameters: tuple[Parameter, ...] = (),
    **description: Any,
) -> Callable[[_Work], _Work]:
    """A route whose answers and errors have an accepted content type, and whose errors have the proxy's code.

    A GET counts as a change too: it keeps the instance alive, and a read of records moves it.
    """
    common = (_GROUP_PARAMETER,) if endpoint.endswith(_GROUP) else (_GROUP_PARAMETER, _INSTANCE_PARAMETER)
    query_names = [each.name for each in parameters]

    def decorate(work: _Work) -> _Work:
        @ROUTES.add(
            endpoint,
            summary,
            guard="change",
            operation=Operation.READ,
            parameters=(*common, *parameters),
            answers=answers,
            any_query=True,
            **description,
        )
        async def handler(context: Context, request: Request) -> Response:
            media_type = V2
            try:
                media_type = answer_type(request)
                refuse_unknown_query(request, query_names)
                found = await work(context, request)
            except Problem as problem:
                raise with_code(problem, media_type) from None
            if isinstance(found, Response):
                return found
            return Response(status_code=204) if found is None else answer(found, media_type=media_type)

        return work

    return decorate


def _json(summary: str, schema: Schema) -> Mapping[int, Answer]:
    return {200: Answer(summary, schema, V2, also=_EVERYWHERE)}


def _key(request: Request) -> tuple[str, str]:
    return request.path_params["group"], request.path_params["instance"]


async def _body(context: Context, request: Request, expected: Body, convert: Callable[[Any], _T]) -> _T:
    """What `convert` makes of the body, in a thread if it is large. Raises Problem."""
    check_body_type(request)
    async with json_body(context, request, hint=bodies.hint_of(expected), optional=not expected.required) as body:
        if body is None or is_small(request):
            return convert(body)
        return await in_thread(context, convert, body)


@asynccontextmanager
async def _exclusively(
    context: Context, request: Request, expected: Body, convert: Callable[[Any], _T]
) -> AsyncIterator[tuple[Instance, _T]]:
    """The instance, for an exclusive request, and what `convert` makes of the body. Raises Problem."""
    instances = context.part(Instances)
    instances.find(*_key(request))
    wanted = await _body(context, request, expected, convert)
    async with instances.exclusively(*_key(request)) as instance:
        yield instance, wanted


# ----------------------------------------------------------------------------------------------- create and delete


@_route(
    f"POST {_GROUP}",
    "Create an instance: one consumer of the group",
    _json("the instance and its address", bodies.CREATED),
    body=bodies.SETTINGS_BODY,
    description="This broker keeps it until it is deleted, is idle for 5 minutes, or the broker stops.",
)
async def create(context: Context, request: Request) -> Any:
    """Create an instance."""
    group = request.path_params["group"]
    bodies.check_group(group)
    wait_ms_max = context.limits.consumer_wait_ms_max
    settings = await _body(context, request, bodies.SETTINGS_BODY, lambda body: bodies.settings_of(body, wait_ms_max))
    instance = await context.part(Instances).create(group, settings)
    host = request.headers.get("host") or f"{bracketed(context.advertised_host)}:{context.http_port}"
    path = f"/consumers/{quote(group, safe='')}/instances/{quote(instance.name, safe='')}"
    return {"instance_id": instance.name, "base_uri": f"{request.scope['scheme']}://{host}{path}"}


@_route(f"DELETE {_INSTANCE}", "Close an instance: it leaves its group at once", _DONE)
async def delete(context: Context, request: Request) -> None:
    """Close an instance: it leaves its group at once."""
    await context.part(Instances).delete(*_key(request))


# ------------------------------------------------------------------------------------ subscription and assignment


@_route(
    f"POST {_INSTANCE}/subscription",
    "Subscribe to topics as a member of the group",
    _DONE,
    body=bodies.SUBSCRIPTION_BODY,
)
async def subscribe(context: Context, request: Request) -> None:
    """Subscribe to topics, shared with the other members of the group."""
    instances = context.part(Instances)
    async with _exclusively(context, request, bodies.SUBSCRIPTION_BODY, bodies.subscription_of) as (instance, wanted):
        instances.check_topics(wanted.topics)
        _require_source(instance, "topics" if wanted.pattern is None else "pattern")
        if wanted.pattern is not None:
            earlier = instance.source, instance.pattern, instance.matched
            instance.source, instance.pattern, instance.matched = "pattern", wanted.pattern, None
            try:
                await instances.move(instances.follow_pattern, instance, await instances.matchable(instance))
            except Problem:
                instance.source, instance.pattern, instance.matched = earlier
                raise
        else:
            await instances.move(instance.consumer.subscribe, wanted.topics)
            instance.topics, instance.source = wanted.topics, "topics" if wanted.topics else "nothing"


@_route(f"GET {_INSTANCE}/subscription", "The subscription", _json("the topics", bodies.TOPICS))
async def subscription(context: Context, request: Request) -> Any:
    """The subscribed topics; for a pattern, the topics that it matches now."""
    return {"topics": list(context.part(Instances).find(*_key(request)).topics)}


@_route(f"DELETE {_INSTANCE}/subscription", "End the subscription or assignment", _DONE)
async def unsubscribe(context: Context, request: Request) -> None:
    """Leave the group, or drop the assignment; the instance remains."""
    instances = context.part(Instances)
    async with instances.exclusively(*_key(request)) as instance:
        await instances.move(instance.consumer.unsubscribe)
        instance.source, instance.topics, instance.pattern = "nothing", (), None


@_route(f"POST {_INSTANCE}/assignments", "Assign partitions without a subscription", _DONE, body=bodies.PARTITIONS_BODY)
async def assign(context: Context, request: Request) -> None:
    """Assign partitions directly, without the group."""
    instances = context.part(Instances)
    async with _exclusively(context, request, bodies.PARTITIONS_BODY, bodies.partitions_of) as (instance, wanted):
        _require_source(instance, "partitions")
        instances.check_topics(_topics(wanted))
        bodies.require_known(wanted, context.broker.image)
        if wanted:
            await instances.move(instance.consumer.assign, wanted)
            instance.source = "partitions"
        else:
            await instances.move(instance.consumer.unsubscribe)
            instance.source, instance.topics, instance.pattern = "nothing", (), None


@_route(f"GET {_INSTANCE}/assignments", "The assigned partitions", _json("the partitions", bodies.PARTITIONS))
async def assignments(context: Context, request: Request) -> Any:
    """The current partitions: assigned by the group or directly."""
    found = context.part(Instances).find(*_key(request)).consumer.assignment()
    return {"partitions": [each._asdict() for each in found]}


def _topics(partitions: Iterable[TopicPartition]) -> dict[str, None]:
    return {each.topic: None for each in partitions}


def _require_source(instance: Instance, source: str) -> None:
    if instance.source not in ("nothing", source):
        raise illegal_state(
            "an instance reads topics by name, topics by pattern, or partitions: one of these at a time",
            f"this instance has {instance.source}: DELETE .../subscription first",
        )


# ------------------------------------------------------------------------------------------------------- records


@_route(
    f"GET {_INSTANCE}/records",
    "Consume the next records",
    _json("records; none after the timeout", bodies.RECORDS),
    parameters=(
        Parameter("timeout", _ANY_INT64, "Longest wait in ms; missing or below 1: `consumer.request.timeout.ms`"),
        Parameter(
            "max_bytes",
            _ANY_INT64,
            "Largest size of keys and values in the response; missing or below 1: no limit of its own",
        ),
    ),
    description="Keys and values are base64, or JSON for an instance of format json.",
)
async def records(context: Context, request: Request) -> Response:
    """Records that the client did not receive yet; an empty list after a timeout."""
    if request.method == "HEAD":  # Starlette serves HEAD for every GET, but a HEAD must not consume records
        raise Problem(405, "method-not-allowed", "HEAD would consume records without returning them", "use GET")
    timeout_ms = query_integer(request, "timeout", -1, minimum=-INT64_MAX - 1)
    max_bytes = query_integer(request, "max_bytes", -1, minimum=-INT64_MAX - 1)
    instances = context.part(Instances)
    data_format = instances.find(*_key(request)).settings.data_format
    media_type = records_type(request, data_format)
    async for _ in body_pieces(context, request, bytes_max=0):
        pass  # no body is allowed: the next message is the disconnect
    async with instances.exclusively(*_key(request)) as instance:
        if instance.source == "nothing":
            raise illegal_state("this instance has no subscription or assignment", "POST .../subscription first")
        wait_s = _wait_ms(timeout_ms, instance.settings.wait_ms, context.limits) / 1000
        bytes_max = context.limits.consumer_answer_bytes_max
        if max_bytes > 0:
            bytes_max = min(bytes_max, max_bytes)
        body = await read_records(context, instances, instance, request, wait_s, bytes_max)
    return Response(body, media_type=media_type)


def _wait_ms(timeout_ms: int, own_ms: int | None, limits: HttpLimits) -> int:
    """The wait in ms. `timeout` can only shorten the instance's own setting, if any (KafkaConsumerReadTask.java)."""
    if timeout_ms <= 0:
        return own_ms or _WAIT_MS
    return min(timeout_ms, own_ms or limits.consumer_wait_ms_max)


# ------------------------------------------------------------------------------------------- offsets and positions


@_route(
    f"POST {_INSTANCE}/offsets",
    "Commit offsets",
    _json("committed", bodies.NOTHING),
    body=bodies.COMMIT_BODY,
    parameters=(Parameter("async", {"enum": ["true", "false"]}, "Whether to answer before the commit is done"),),
    description="An offset is that of the last processed record. Without a body: all returned records.",
)
async def commit(context: Context, request: Request) -> Any:
    """Commit the given last processed offsets, or without a body all positions."""
    waits = not query_flag(request, "async")
    instances = context.part(Instances)
    async with _exclusively(context, request, bodies.COMMIT_BODY, bodies.offsets_of) as (instance, marks):
        instances.check_topics(_topics(instance.consumer.assignment() if marks is None else marks))
        if marks is not None:
            bodies.require_known(marks, context.broker.image)
            marks = {each: bodies.Mark(mark.offset + 1, mark.metadata) for each, mark in marks.items()}
        await instances.move(lambda: instance.consumer.commit(marks, waits=waits))
    return []


@_route(
    f"GET {_INSTANCE}/offsets",
    "The group's committed offsets",
    _json("the next offset of each partition", bodies.COMMITTED),
    body=bodies.COMMITTED_BODY,
)
async def committed(context: Context, request: Request) -> Any:
    """The committed offsets of the group, whichever member committed them."""
    instances = context.part(Instances)
    instance = instances.find(*_key(request))
    wanted = await _body(
        context, request, bodies.COMMITTED_BODY, lambda body: None if body is None else bodies.partitions_of(body)
    )
    assigned = instance.consumer.assignment()
    instances.check_topics(_topics(assigned if wanted is None else wanted), Operation.DESCRIBE)
    if wanted is not None:
        bodies.require_known(wanted, context.broker.image)
    found = await instances.read_only(instance, instance.consumer.committed, wanted)
    return {"offsets": [{**each._asdict(), **mark._asdict()} for each, mark in sorted(found.items())]}


@_route(f"POST {_INSTANCE}/positions", "Seek to offsets or timestamps", _DONE, body=bodies.POSITIONS_BODY)
async def seek(context: Context, request: Request) -> None:
    """Continue at offsets, or at the first records of a time."""
    async with _exclusively(context, request, bodies.POSITIONS_BODY, bodies.positions_of) as (instance, wanted):
        consumer = instance.consumer
        # Like in the proxy, a time takes precedence over an offset of the same partition.
        await context.part(Instances).move(lambda: consumer.seek(wanted.offsets | consumer.offsets_at(wanted.times_ms)))


@_route(f"POST {_INSTANCE}/positions/end", "Seek to the end", _DONE, body=bodies.PARTITIONS_BODY)
@_route(f"POST {_INSTANCE}/positions/beginning", "Seek to the beginning", _DONE, body=bodies.PARTITIONS_BODY)
async def seek_to_edge(context: Context, request: Request) -> None:
    """Continue at the first available records, or after the last ones."""
    async with _exclusively(context, request, bodies.PARTITIONS_BODY, bodies.partitions_of) as (instance, wanted):
        consumer = instance.consumer
        edges = dict.fromkeys(wanted, LATEST if request.url.path.endswith("/end") else EARLIEST)
        await context.part(Instances).move(lambda: consumer.seek(consumer.offsets_at(edges)))
