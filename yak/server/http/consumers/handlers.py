"""The handlers of the routes under `/consumers` (kafka-rest's ConsumersResource.java), listed in `routes.consumers`."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from yak.ids import TopicPartition
from yak.server.http.answers import answer
from yak.server.http.bodies import (
    INT64_MAX,
    body_pieces,
    json_body,
    query_integer,
    query_text,
    refuse_unknown_query,
)
from yak.server.http.consumers import requested_offsets
from yak.server.http.consumers.content_types import V2, answer_type, check_body_type, records_type
from yak.server.http.consumers.failures import illegal_state, with_code
from yak.server.http.consumers.instance_read import read
from yak.server.http.consumers.instances import Instance, Instances
from yak.server.http.consumers.settings import HINT as SETTINGS_HINT
from yak.server.http.consumers.settings import check_group, settings_of
from yak.server.http.context import Context, HttpLimits
from yak.server.http.problems import Problem
from yak.server.options import bracketed

_WAIT_MS: Final = 1_000
"""The proxy's `consumer.request.timeout.ms`."""
_Work = Callable[[Context, Request, str], Awaitable[Response]]


def _as_the_proxy(work: _Work) -> Callable[[Context, Request], Awaitable[Response]]:
    """A handler whose answers and errors have an accepted content type, and whose errors have the proxy's code."""

    @wraps(work)
    async def handler(context: Context, request: Request) -> Response:
        media_type = V2
        try:
            media_type = answer_type(request)
            return await work(context, request, media_type)
        except Problem as problem:
            raise with_code(problem, media_type) from None

    return handler


def _key(request: Request) -> tuple[str, str]:
    return request.path_params["group"], request.path_params["instance"]


async def _body(context: Context, request: Request, hint: str, *, optional: bool = False) -> Any:
    check_body_type(request)
    async with json_body(context, request, hint=hint, optional=optional) as body:
        return body


def _done() -> Response:
    return Response(status_code=204)


# ----------------------------------------------------------------------------------------------- create and delete


@_as_the_proxy
async def create(context: Context, request: Request, media_type: str) -> Response:
    """Create an instance."""
    refuse_unknown_query(request, ())
    group = request.path_params["group"]
    check_group(group)
    body = await _body(context, request, SETTINGS_HINT, optional=True)
    instance = await context.part(Instances).create(group, settings_of(body, context.limits.consumer_wait_ms_max))
    host = request.headers.get("host") or f"{bracketed(context.advertised_host)}:{context.http_port}"
    path = f"/consumers/{quote(group, safe='')}/instances/{quote(instance.name, safe='')}"
    made = {"instance_id": instance.name, "base_uri": f"{request.scope['scheme']}://{host}{path}"}
    return answer(made, media_type=media_type)


@_as_the_proxy
async def delete(context: Context, request: Request, _media_type: str) -> Response:
    """Close an instance: it leaves its group at once."""
    refuse_unknown_query(request, ())
    await context.part(Instances).delete(*_key(request))
    return _done()


# ------------------------------------------------------------------------------------ subscription and assignment


@_as_the_proxy
async def subscribe(context: Context, request: Request, _media_type: str) -> Response:
    """Subscribe to topics, shared with the other members of the group."""
    refuse_unknown_query(request, ())
    instances = context.part(Instances)
    instances.find(*_key(request))
    wanted = requested_offsets.subscription_of(await _body(context, request, requested_offsets.SUBSCRIPTION_HINT))
    source = "topics" if wanted.pattern is None else "pattern"
    async with instances.exclusively(*_key(request)) as instance:
        if instance.source not in ("nothing", source):
            raise _exclusive(instance)
        instance.pattern, instance.topics_seen = wanted.pattern, None
        if wanted.pattern is not None:
            instance.source = "pattern"
            await instances.move(instances.follow_pattern, instance)
        else:
            await instances.move(instance.consumer.subscribe, wanted.topics)
            instance.topics, instance.source = wanted.topics, "topics" if wanted.topics else "nothing"
    return _done()


@_as_the_proxy
async def subscription(context: Context, request: Request, media_type: str) -> Response:
    """The subscribed topics; for a pattern, the topics that it matches now."""
    refuse_unknown_query(request, ())
    return answer({"topics": list(context.part(Instances).find(*_key(request)).topics)}, media_type=media_type)


@_as_the_proxy
async def unsubscribe(context: Context, request: Request, _media_type: str) -> Response:
    """Leave the group, or drop the assignment; the instance remains."""
    refuse_unknown_query(request, ())
    instances = context.part(Instances)
    async with instances.exclusively(*_key(request)) as instance:
        await instances.move(instance.consumer.unsubscribe)
        _reads_nothing(instance)
    return _done()


@_as_the_proxy
async def assign(context: Context, request: Request, _media_type: str) -> Response:
    """Assign partitions directly, without the group."""
    refuse_unknown_query(request, ())
    instances = context.part(Instances)
    instances.find(*_key(request))
    wanted = requested_offsets.partitions_of(await _body(context, request, requested_offsets.PARTITIONS_HINT))
    async with instances.exclusively(*_key(request)) as instance:
        if instance.source not in ("nothing", "partitions"):
            raise _exclusive(instance)
        requested_offsets.require_known(wanted, partition_counts(context))
        if wanted:
            await instances.move(instance.consumer.assign, wanted)
            instance.source = "partitions"
        else:
            await instances.move(instance.consumer.unsubscribe)
            _reads_nothing(instance)
    return _done()


@_as_the_proxy
async def assignments(context: Context, request: Request, media_type: str) -> Response:
    """The current partitions: assigned by the group or directly."""
    refuse_unknown_query(request, ())
    instances = context.part(Instances)
    found = instances.find(*_key(request)).consumer.assignment()
    return answer(
        {"partitions": [{"topic": topic, "partition": number} for topic, number in found]}, media_type=media_type
    )


def _reads_nothing(instance: Instance) -> None:
    instance.source, instance.topics, instance.pattern = "nothing", (), None


def _exclusive(instance: Instance) -> Problem:
    return illegal_state(
        "an instance reads topics by name, topics by pattern, or partitions: one of these at a time",
        f"this instance has {instance.source}: DELETE .../subscription first",
    )


def partition_counts(context: Context) -> Callable[[str], int | None]:
    """A function for the number of partitions of a topic in the current image."""
    topics = context.broker.image.topics

    def count(topic: str) -> int | None:
        info = topics.get(topic)
        return None if info is None else len(info.partitions)

    return count


# ------------------------------------------------------------------------------------------------------- records


@_as_the_proxy
async def records(context: Context, request: Request, _media_type: str) -> Response:
    """Records that the client did not receive yet; an empty list after a timeout."""
    if request.method == "HEAD":  # Starlette serves HEAD for every GET, but a HEAD must not consume records
        raise Problem(405, "method-not-allowed", "HEAD would consume records without returning them", "use GET")
    refuse_unknown_query(request, ("timeout", "max_bytes"))
    asked_ms = query_integer(request, "timeout", -1, minimum=-INT64_MAX - 1)
    asked_bytes = query_integer(request, "max_bytes", -1, minimum=-INT64_MAX - 1)
    instances = context.part(Instances)
    data_format = instances.find(*_key(request)).settings.data_format
    media_type = records_type(request, data_format)
    async for _ in body_pieces(context, request, bytes_max=0):
        pass  # no body is allowed: the next message is the disconnect
    async with instances.exclusively(*_key(request)) as instance:
        if instance.source == "nothing":
            raise illegal_state("this instance has no subscription or assignment", "POST .../subscription first")
        wait_s = _wait_ms(asked_ms, instance.settings.wait_ms, context.limits) / 1000
        bytes_max = context.limits.consumer_answer_bytes_max
        if 0 < asked_bytes < bytes_max:
            bytes_max = asked_bytes
        body = await read(instances, instance, request, wait_s, bytes_max)
    return Response(body, media_type=media_type)


def _wait_ms(asked_ms: int, own_ms: int | None, limits: HttpLimits) -> int:
    """The wait in ms. `timeout` can only shorten the instance's own setting, if any (KafkaConsumerReadTask.java)."""
    if asked_ms <= 0:
        return own_ms or _WAIT_MS
    return min(asked_ms, own_ms or limits.consumer_wait_ms_max)


# ------------------------------------------------------------------------------------------- offsets and positions


@_as_the_proxy
async def commit(context: Context, request: Request, media_type: str) -> Response:
    """Commit the given last processed offsets, or without a body all positions."""
    refuse_unknown_query(request, ("async",))
    waits = query_text(request, "async") or "false"
    if waits not in ("true", "false"):
        raise Problem(
            400,
            "bad-parameter",
            f"async={waits[:64]!r} is neither true nor false",
            "leave it out to wait for the commit",
        )
    instances = context.part(Instances)
    instances.find(*_key(request))
    marks = requested_offsets.offsets_of(await _body(context, request, requested_offsets.OFFSETS_HINT, optional=True))
    if marks is not None:
        requested_offsets.require_known(marks, partition_counts(context))
        marks = {each: requested_offsets.Mark(mark.offset + 1, mark.metadata) for each, mark in marks.items()}
    async with instances.exclusively(*_key(request)) as instance:
        await instances.move(lambda: instance.consumer.commit(marks, waits=waits == "false"))
    return answer([], media_type=media_type)


@_as_the_proxy
async def committed(context: Context, request: Request, media_type: str) -> Response:
    """The committed offsets of the group, whichever member committed them."""
    refuse_unknown_query(request, ())
    instances = context.part(Instances)
    instance = instances.find(*_key(request))
    body = await _body(context, request, requested_offsets.PARTITIONS_HINT, optional=True)
    wanted = None if body is None else requested_offsets.partitions_of(body)
    if wanted is not None:
        requested_offsets.require_known(wanted, partition_counts(context))
    found = await instances.look(instance, instance.consumer.committed, wanted)
    offsets = [
        {"topic": each.topic, "partition": each.partition, "offset": mark.offset, "metadata": mark.metadata}
        for each, mark in sorted(found.items())
    ]
    return answer({"offsets": offsets}, media_type=media_type)


@_as_the_proxy
async def seek(context: Context, request: Request, _media_type: str) -> Response:
    """Continue at offsets, or at the first records of a time."""
    refuse_unknown_query(request, ())
    instances = context.part(Instances)
    instances.find(*_key(request))
    wanted = requested_offsets.positions_of(await _body(context, request, requested_offsets.POSITIONS_HINT))
    async with instances.exclusively(*_key(request)) as instance:
        consumer = instance.consumer
        # Like in the proxy, a time takes precedence over an offset of the same partition.
        await instances.move(lambda: consumer.seek(wanted.offsets | consumer.offsets_at(wanted.times_ms)))
    return _done()


async def _seek_to(context: Context, request: Request, name: str) -> Response:
    refuse_unknown_query(request, ())
    instances = context.part(Instances)
    instances.find(*_key(request))
    wanted: list[TopicPartition] = requested_offsets.partitions_of(
        await _body(context, request, requested_offsets.PARTITIONS_HINT)
    )
    async with instances.exclusively(*_key(request)) as instance:
        await instances.move(getattr(instance.consumer, name), wanted)
    return _done()


@_as_the_proxy
async def seek_to_beginning(context: Context, request: Request, _media_type: str) -> Response:
    """Continue at the first available records."""
    return await _seek_to(context, request, "seek_to_beginning")


@_as_the_proxy
async def seek_to_end(context: Context, request: Request, _media_type: str) -> Response:
    """Continue after the last records."""
    return await _seek_to(context, request, "seek_to_end")
