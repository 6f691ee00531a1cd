"""The metadata service's history: changes since a time, the metadata log, and past cluster states."""

import datetime as dt
import re
from functools import partial
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.cluster.broker_lifecycle import LifecycleState
from yak.server.http.bodies import query_integer, query_text, refuse_unknown_query
from yak.server.http.context import Context
from yak.server.http.metadata_bodies import image_answer, thread_answer
from yak.server.http.metadata_history import History, Point
from yak.server.http.metadata_schemas import BROKER_CHANGES, CLIENT_CHANGES, CLUSTER, COUNT, LOG
from yak.server.http.problems import Problem
from yak.server.http.route import Answer, Parameter, Route
from yak.views.metadata_json import CLOCKS_MS, changes_json, cluster_json, seconds, told_up_to_ms

PAGE_RECORDS_MAX: Final = 1_000
PAGES_MAX: Final = 4
"""Log pages that are read at the same time; further ones wait."""
OFFSET_DIGITS_MAX: Final = 9
"""A number up to this long is an offset, a longer one a time in seconds, as in `yak log`."""
_PAGE_RECORDS: Final = 100
_TAG: Final = "Metadata service: changes and history"
_SECONDS: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)
_TIME_HINT: Final = "a time in seconds since 1970, as `date +%s` prints it; 0 for the full state"
_AT_HINT: Final = "at=42 is after record 42, at=1763668800 or at=2026-11-20T20:00:00Z is a time"


async def broker_mgmt(context: Context, request: Request) -> Response:
    """The whole metadata, or what changed."""
    return await _changes(context, request, for_brokers=True)


async def client_mgmt(context: Context, request: Request) -> Response:
    """Brokers, topics and partitions: all, or those that changed."""
    return await _changes(context, request, for_brokers=False)


async def _changes(context: Context, request: Request, *, for_brokers: bool) -> Response:
    refuse_unknown_query(request, ())
    broker, now_ms = context.broker, context.shell.clock.now_ms()
    since_ms = _past_ms("previous_offset", request.path_params["previous_offset"], now_ms, _TIME_HINT)
    image = broker.image
    is_current = broker.metadata.store_lost_ms is None and broker.metadata.lifecycle.state is LifecycleState.ACTIVE
    told_ms = told_up_to_ms(image, now_ms, is_current=is_current)
    show = partial(changes_json, image, since_ms, now_ms, told_ms, for_brokers=for_brokers)
    return await image_answer(context, image, show)


async def log(context: Context, request: Request) -> Response:
    """Records of the metadata log, one page at a time."""
    refuse_unknown_query(request, ("from", "limit"))
    first = query_integer(request, "from", 0)
    limit = query_integer(request, "limit", _PAGE_RECORDS, minimum=1, maximum=PAGE_RECORDS_MAX)
    async with context.parts.setdefault("metadata-pages", trio.Semaphore(PAGES_MAX)):
        page = await context.part(History).page(first, limit)
        shown: dict[str, Any] = {
            "begin": page.begin,
            "end": page.end,
            "next": page.next_offset,
            "source": page.source,
            "records": page.records,
        }
        return await thread_answer(context, lambda: shown)


async def image(context: Context, request: Request) -> Response:
    """The cluster at an offset or a time; the current one by default."""
    refuse_unknown_query(request, ("at",))
    at = query_text(request, "at")
    then = context.broker.image
    if at is not None:
        then = await context.part(History).image_at(_point(at, context.shell.clock.now_ms()))
    return await image_answer(context, then, partial(cluster_json, then))


# ------------------------------------------------------------------------------------------------------ helpers


def _past_ms(name: str, text: str, now_ms: int, hint: str) -> int:
    """A past time in seconds, converted to ms. Raises Problem 400 `bad-parameter`."""
    if not _SECONDS.fullmatch(text):
        raise Problem(400, "bad-parameter", f"{name}={text[:64]!r} is not a time in seconds", hint)
    whole, _, fraction = text.partition(".")
    time_ms = int(whole) * 1000 + int(f"{fraction:0<3}"[:3] or 0)
    _refuse_future(name, text, time_ms, now_ms)
    return time_ms


def _refuse_future(name: str, text: str, time_ms: int, now_ms: int) -> None:
    if time_ms > now_ms + CLOCKS_MS:
        words = f"{name}={text[:64]} is in the future"
        raise Problem(400, "bad-parameter", words, f"it is {seconds(now_ms):.3f} now; times are in seconds")


def _point(text: str, now_ms: int) -> Point:
    if text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX:
        return Point(offset=int(text))
    if _SECONDS.fullmatch(text):
        return Point(time_ms=_past_ms("at", text, now_ms, _AT_HINT))
    try:
        # In a URL a plus means a blank.
        moment = dt.datetime.fromisoformat(text[:11] + text[11:].replace(" ", "+"))
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        time_ms = int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Problem(400, "bad-parameter", f"at={text[:64]!r} is neither an offset nor a time", _AT_HINT) from None
    if time_ms < 0:
        raise Problem(400, "bad-parameter", f"at={text[:64]} is before 1970", _AT_HINT)
    _refuse_future("at", text, time_ms, now_ms)
    return Point(time_ms=time_ms)


_PREVIOUS: Final = Parameter(
    "previous_offset",
    {"type": "number", "minimum": 0},
    "a time in seconds since 1970: the `timestamp` of the last answer, or 0",
    required=True,
    where="path",
)
_FEED: Final = (
    "The changes since a time of the last ten minutes; for an earlier time the full state (`full`). Use the `timestamp` of a "
    "response as the time of the next request: no change is missed, but some may be repeated."
)

ROUTES: Final = (
    Route(
        "GET",
        "/broker_mgmt/{previous_offset}",
        broker_mgmt,
        "All changes since a time",
        _TAG,
        parameters=(_PREVIOUS,),
        answers={200: Answer("the full state, or the changes", BROKER_CHANGES)},
        description=_FEED,
    ),
    Route(
        "GET",
        "/client_mgmt/{previous_offset}",
        client_mgmt,
        "Brokers, topics and partitions changed since a time",
        _TAG,
        parameters=(_PREVIOUS,),
        answers={200: Answer("the full state, or the changes", CLIENT_CHANGES)},
        description=_FEED,
    ),
    Route(
        "GET",
        "/metadata/log",
        log,
        "Records of the metadata log",
        _TAG,
        parameters=(
            Parameter("from", COUNT, "the first offset; the log begins at `begin`"),
            Parameter("limit", {"type": "integer", "minimum": 1, "maximum": PAGE_RECORDS_MAX}, "the maximum number"),
        ),
        answers={200: Answer("a page; `next` is where the next one begins", LOG)},
        description="Read from the metadata store; from this broker's copy, which begins later, while the store is away.",
    ),
    Route(
        "GET",
        "/metadata/image",
        image,
        "The cluster's current or an earlier state",
        _TAG,
        parameters=(Parameter("at", {"type": "string"}, _AT_HINT),),
        answers={200: Answer("the state after all records up to then", CLUSTER)},
    ),
)
