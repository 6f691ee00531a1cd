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
        "Make an instance: one consumer of the group",
        _json("the instance, and where it is asked", schemas.CREATED),
        body=schemas.settings_body(HttpLimits().consumer_wait_ms_max),
        description="It lives in this broker until it is deleted, is not used for 5 minutes, or the broker ends.",
    ),
    _route("DELETE", _INSTANCE, handlers.delete, "Close an instance: it leaves its group at once", _DONE),
    _route(
        "POST",
        f"{_INSTANCE}/subscription",
        handlers.subscribe,
        "Share topics with the other members of the group",
        _DONE,
        body=schemas.SUBSCRIPTION_BODY,
    ),
    _route(
        "GET",
        f"{_INSTANCE}/subscription",
        handlers.subscription,
        "The topics that are subscribed to",
        _json("the topics", schemas.TOPICS),
    ),
    _route("DELETE", f"{_INSTANCE}/subscription", handlers.unsubscribe, "End the subscription or assignment", _DONE),
    _route(
        "POST",
        f"{_INSTANCE}/assignments",
        handlers.assign,
        "Read partitions without sharing them",
        _DONE,
        body=schemas.PARTITIONS_BODY,
    ),
    _route(
        "GET",
        f"{_INSTANCE}/assignments",
        handlers.assignments,
        "The partitions that are read now",
        _json("the partitions", schemas.PARTITIONS),
    ),
    _route(
        "GET",
        f"{_INSTANCE}/records",
        handlers.records,
        "Records that the instance did not give yet",
        _json("records, none when the time was over", schemas.RECORDS),
        parameters=(schemas.TIMEOUT, schemas.MAX_BYTES),
        description="Keys and values are base64, or JSON for an instance of format json.",
    ),
    _route(
        "POST",
        f"{_INSTANCE}/offsets",
        handlers.commit,
        "Commit what was processed",
        _json("committed", schemas.NOTHING),
        body=schemas.COMMIT_BODY,
        parameters=(schemas.ASYNC,),
        description="An offset is that of the last record that was processed. Without a body: all records that were given.",
    ),
    _route(
        "GET",
        f"{_INSTANCE}/offsets",
        handlers.committed,
        "What the group has committed",
        _json("for each partition the offset to go on at", schemas.COMMITTED),
        body=schemas.LOOK_BODY,
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions",
        handlers.seek,
        "Go on at offsets, or at times",
        _DONE,
        body=schemas.POSITIONS_BODY,
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions/beginning",
        handlers.seek_to_beginning,
        "Go on at the first records",
        _DONE,
        body=schemas.PARTITIONS_BODY,
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions/end",
        handlers.seek_to_end,
        "Go on behind the last records",
        _DONE,
        body=schemas.PARTITIONS_BODY,
    ),
)
