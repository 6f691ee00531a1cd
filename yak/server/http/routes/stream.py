"""`GET /topics/{name}/stream` and `GET /stream?topics=`: committed records as server-sent events."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from yak.server.http.answers import UntilGone, Write
from yak.server.http.bodies import query_text, refuse_unknown_query
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.record_stream import RecordStream, first_positions, read_event_id
from yak.server.http.route import Answer, Parameter, Route
from yak.server.http.routes.consume import FORM_PARAMETER, read_form
from yak.server.http.routes.topics import NAME

TOPICS_MAX: Final = 16
"""Of one stream: the ids of its events must fit into a header."""
_MEDIA_TYPE: Final = "text/event-stream"


async def stream(context: Context, request: Request) -> Response:
    """Stream records. The start positions are found first, so that a missing topic is an error and no empty stream."""
    refuse_unknown_query(request, ("topics", "from", "as"))
    form = read_form(request)
    names = _names(request)
    begin = query_text(request, "from")
    begin = "latest" if begin is None else begin
    if begin not in ("earliest", "latest"):
        raise Problem(400, "bad-parameter", f"from={begin[:64]!r} is not known", "one of earliest, latest")
    last_event_id = request.headers.get("last-event-id")
    resumed = read_event_id(last_event_id) if last_event_id else {}
    positions = await first_positions(context, names, resumed, begin == "earliest")

    async def run(write: Write) -> None:
        streams = context.parts.get("record_streams", 0)
        context.parts["record_streams"] = streams + 1
        try:
            await RecordStream(context, positions, form).run(write)
        finally:
            context.parts["record_streams"] -= 1

    if context.parts.get("record_streams", 0) >= context.limits.streams_max:
        limit = context.limits.streams_max
        raise Problem(503, "too-many-streams", f"this broker has the maximum of {limit} streams", "use another broker")
    return UntilGone(run, _MEDIA_TYPE)


def _names(request: Request) -> list[str]:
    more = query_text(request, "topics")
    names = [request.path_params["name"]] if "name" in request.path_params else []
    names += [] if more is None else more.split(",")
    if not any(names):
        raise Problem(400, "bad-parameter", "topics is missing", "add ?topics=orders,payments")
    names = list(dict.fromkeys(names))
    if len(names) > TOPICS_MAX:
        raise Problem(400, "bad-parameter", f"{len(names)} topics in one stream, at most {TOPICS_MAX}", "open several")
    return names


_BEGIN: Final = Parameter(
    "from", {"enum": ["latest", "earliest"], "default": "latest"}, "the start without a Last-Event-ID"
)
_ANSWERS: Final = {200: Answer("events until the client disconnects", {"type": "string"}, _MEDIA_TYPE)}
_DESCRIPTION: Final = (
    "Each event is a record as in GET /consume, with topic and partition. Its id has the offsets of all partitions: "
    "sent as Last-Event-ID, it continues there. `event: gap` reports offsets that were deleted, `event: end` the reason of the end."
)

ROUTES: Final = (
    Route(
        "GET",
        "/topics/{name}/stream",
        stream,
        "Follow a topic as server-sent events",
        "Data",
        parameters=(
            NAME,
            Parameter("topics", {"type": "string"}, "more topics, separated by commas"),
            _BEGIN,
            FORM_PARAMETER,
        ),
        answers=_ANSWERS,
        description=_DESCRIPTION,
    ),
    Route(
        "GET",
        "/stream",
        stream,
        "Follow several topics as server-sent events",
        "Data",
        parameters=(
            Parameter("topics", {"type": "string", "minLength": 1}, "the topics, separated by commas", required=True),
            _BEGIN,
            FORM_PARAMETER,
        ),
        answers=_ANSWERS,
        description=_DESCRIPTION,
    ),
)
