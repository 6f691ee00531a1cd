"""`/api/events`: cluster events as server-sent events, the source of `yak ui` and the `--watch` commands."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from yak.server.http.bodies import fault_of, query_flag, query_integer, query_text
from yak.server.http.context import Context
from yak.server.http.events.listeners import CURSOR, EventFilter, Subscription
from yak.server.http.events.stream import EventStream, StreamRequest
from yak.server.http.problems import Problem, bad_parameter
from yak.server.http.route import Answer, Parameter, Routes
from yak.server.http.schemas import TOPIC_NAME, flag
from yak.views import notices

PROGRESS, RATES = "progress", "rates"
KINDS: Final = tuple(
    sorted(
        {
            *("broker-registered", "broker-unfenced", "broker-fenced", "broker-stopping", "broker-stopped"),
            *("broker-unregistered", "controller-changed", "topic-created", "topic-changed", "topic-deleted"),
            *("leader-changed", "isr-shrunk", "isr-expanded", "isr-changed", "config-changed"),
            *("reassignment-started", "reassignment-changed", "reassignment-done", PROGRESS, RATES),
            *notices.kinds(),
        }
    )
)
FAMILIES: Final = tuple(sorted({kind.partition("-")[0] for kind in KINDS}))
DURATION_MS_MAX: Final = 24 * 3600 * 1000
_RATES_DEFAULT_MS: Final = 1_000
_INTERVAL: Final = "([1-9][0-9]{2}ms|[1-9]s|[1-5][0-9]s|60s)"


def _kinds(request: Request) -> frozenset[str] | None:
    text = query_text(request, "kinds")
    if text is None:
        return None
    kinds = text.split(",")
    for each in kinds:
        if each not in KINDS and each not in FAMILIES:
            raise bad_parameter(f"{each[:64]!r} is not a kind of event", f"kinds are {', '.join(FAMILIES)}")
    return frozenset(kinds)


def _topic(request: Request) -> str | None:
    """The topic filter; the topic may not exist yet."""
    text = query_text(request, "topic")
    if text is not None and fault_of(text, TOPIC_NAME) is not None:
        raise bad_parameter(f"{text[:64]!r} is not a topic name", "GET /topics lists all topics")
    return text


def _rates_ms(request: Request) -> int:
    text = query_text(request, "rates")
    if text is None:
        return _RATES_DEFAULT_MS
    if not re.fullmatch(_INTERVAL, text, re.ASCII):
        raise bad_parameter(f"rates={text[:64]!r} must be an interval from 100ms to 60s", "try rates=1s")
    return int(text[:-2]) if text.endswith("ms") else int(text[:-1]) * 1000


ROUTES: Final = Routes("Administration")


@ROUTES.add(
    "GET /api/events",
    "Cluster events as server-sent events",
    is_about_cluster=True,
    parameters=(
        Parameter(
            "kinds",
            {"type": "string", "pattern": f"^({'|'.join((*FAMILIES, *KINDS))})(,({'|'.join((*FAMILIES, *KINDS))}))*$"},
            "only these kinds or families of kinds, with commas: leader,isr,broker-fenced",
        ),
        Parameter("topic", TOPIC_NAME, "only this topic, and events without a topic"),
        Parameter(
            "rates",
            {"type": "string", "pattern": f"^{_INTERVAL}$", "default": "1s"},
            "interval of the rates, from 100ms to 60s",
        ),
        Parameter(
            "cursor",
            {"type": "string", "pattern": f"^{CURSOR}$"},
            "the id of the last received event; the header Last-Event-ID takes precedence",
        ),
        flag("snapshot", "begin with a snapshot of the cluster and all partitions"),
        Parameter(
            "duration_ms",
            {"type": "integer", "minimum": 1, "maximum": DURATION_MS_MAX},
            "end the stream after this time; default: never",
        ),
    ),
    answers={200: Answer("events: `id`, `event` (the kind), and `data`, a line of JSON", None, "text/event-stream")},
    description="An id is `BOOT:NUMBER`. `gap` means that events are missing; `snapshot`, `progress` and `rates` are sent but not kept. "
    f"Kinds: {', '.join(KINDS)}.",
)
async def events(context: Context, request: Request) -> Response:
    """Open a stream of events."""
    if request.scope["http_version"] != "1.1":
        raise Problem(505, "http-version", "events need HTTP/1.1", "curl --http1.1 -N")
    wish = EventFilter(_kinds(request), _topic(request))
    rates_ms = _rates_ms(request)
    subscription = Subscription(
        wish, rates_ms if wish.takes(RATES, None) else None, has_progress=wish.takes(PROGRESS, None)
    )
    # a browser that reconnects sends its last event with the query that it began with
    cursor = request.headers.get("last-event-id") or query_text(request, "cursor")
    duration_ms = None
    if "duration_ms" in request.query_params:
        duration_ms = query_integer(request, "duration_ms", minimum=1, maximum=DURATION_MS_MAX)
    return EventStream(context, StreamRequest(subscription, cursor, query_flag(request, "snapshot"), duration_ms))
