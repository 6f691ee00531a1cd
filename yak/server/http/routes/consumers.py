"""`/consumers/{group}`: consumer groups for HTTP clients, like Confluent's REST proxy v2."""

from collections.abc import Mapping
from typing import Final

from yak.server.http.consumers import handlers, schemas
from yak.server.http.consumers.content_types import ANSWER_TYPES, V2
from yak.server.http.context import HttpLimits
from yak.server.http.route import Answer, Body, Handler, Parameter, Route, Schema

_TAG: Final = "Consumer groups"
_GROUP: Final = "/consumers/{group}"
_INSTANCE: Final = "/consumers/{group}/instances/{instance}"
_EVERYWHERE: Final = tuple(each for each in ANSWER_TYPES if each != V2)
"""Types that every route serves, besides V2; records come only in the types of their format."""
_DONE: Final = {204: Answer("done", also=ANSWER_TYPES)}


def _json(summary: str, schema: Schema) -> Mapping[int, Answer]:
    return {200: Answer(summary, schema, V2, also=_EVERYWHERE)}


def _route(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    answers: Mapping[int, Answer],
    *,
    body: Body | None = None,
    parameters: tuple[Parameter, ...] = (),
    description: str = "",
) -> Route:
    """One route. Reading records counts as a change, because it moves the instance; other GETs only keep it alive."""
    only_looks = method == "GET" and not path.endswith("/records")
    places = (schemas.GROUP,) if path == _GROUP else (schemas.GROUP, schemas.INSTANCE)
    return Route(
        method,
        path,
        handler,
        summary,
        _TAG,
        guard="read" if only_looks else "change",
        parameters=(*places, *parameters),
        body=body,
        answers=answers,
        description=description,
    )


ROUTES: Final = (
    _route(
        "POST",
        _GROUP,
        handlers.create,
        "Create an instance: one consumer of the group",
        _json("the instance and its address", schemas.CREATED),
        body=schemas.settings_body(HttpLimits().consumer_wait_ms_max),
        description="This broker keeps it until it is deleted, is idle for 5 minutes, or the broker stops.",
    ),
    _route("DELETE", _INSTANCE, handlers.delete, "Close an instance: it leaves its group at once", _DONE),
    _route(
        "POST",
        f"{_INSTANCE}/subscription",
        handlers.subscribe,
        "Subscribe to topics as a member of the group",
        _DONE,
        body=schemas.SUBSCRIPTION_BODY,
    ),
    _route(
        "GET",
        f"{_INSTANCE}/subscription",
        handlers.subscription,
        "The subscription",
        _json("the topics", schemas.TOPICS),
    ),
    _route("DELETE", f"{_INSTANCE}/subscription", handlers.unsubscribe, "End the subscription or assignment", _DONE),
    _route(
        "POST",
        f"{_INSTANCE}/assignments",
        handlers.assign,
        "Assign partitions without a subscription",
        _DONE,
        body=schemas.PARTITIONS_BODY,
    ),
    _route(
        "GET",
        f"{_INSTANCE}/assignments",
        handlers.assignments,
        "The assigned partitions",
        _json("the partitions", schemas.PARTITIONS),
    ),
    _route(
        "GET",
        f"{_INSTANCE}/records",
        handlers.records,
        "Consume the next records",
        _json("records; none after the timeout", schemas.RECORDS),
        parameters=(schemas.TIMEOUT, schemas.MAX_BYTES),
        description="Keys and values are base64, or JSON for an instance of format json.",
    ),
    _route(
        "POST",
        f"{_INSTANCE}/offsets",
        handlers.commit,
        "Commit offsets",
        _json("committed", schemas.NOTHING),
        body=schemas.COMMIT_BODY,
        parameters=(schemas.ASYNC,),
        description="An offset is that of the last processed record. Without a body: all returned records.",
    ),
    _route(
        "GET",
        f"{_INSTANCE}/offsets",
        handlers.committed,
        "The group's committed offsets",
        _json("the next offset of each partition", schemas.COMMITTED),
        body=schemas.LOOK_BODY,
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions",
        handlers.seek,
        "Seek to offsets or timestamps",
        _DONE,
        body=schemas.POSITIONS_BODY,
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions/beginning",
        handlers.seek_to_beginning,
        "Seek to the beginning",
        _DONE,
        body=schemas.PARTITIONS_BODY,
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions/end",
        handlers.seek_to_end,
        "Seek to the end",
        _DONE,
        body=schemas.PARTITIONS_BODY,
    ),
)
