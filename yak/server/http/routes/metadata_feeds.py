"""The metadata service's history: changes since a time, the metadata log, and past cluster states.

The store has the log, except for trimmed records (it keeps at least 100,000): Redis, or this broker's node of the
metadata quorum. This broker's copy has the newest records and a snapshot of the earlier state, and is available while
Redis is not. Threads read files, decode JSON and replay records, a hundred at a time: the event loop does nothing large.
"""

import datetime as dt
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.broker.broker import Broker
from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.image import ChainBroken, Image
from yak.cluster.image_log import read_entries
from yak.cluster.payload import BadRecord
from yak.cluster.records import Kind
from yak.ids import MetadataOffset
from yak.ports.metadata_store import TailedRecord
from yak.server.boot import METADATA_FOLDER
from yak.server.http.answers import large_answer
from yak.server.http.bodies import query_integer, query_text
from yak.server.http.context import Context
from yak.server.http.external_brokers import ExternalBrokers, RegistrySnapshot
from yak.server.http.metadata_bodies import BROKER_CHANGES, CLIENT_CHANGES, CLUSTER, LOG
from yak.server.http.problems import Problem, bad_parameter
from yak.server.http.route import Answer, Parameter, Routes
from yak.server.http.schemas import OFFSET
from yak.server.redis_client import ConnectionLost, ReplyError
from yak.server.redis_store import LogPage, RedisStore
from yak.views.metadata_json import CLOCKS_MS, changes_json, cluster_json, known_up_to_ms, seconds
from yak.views.metadata_records_json import record_json

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState

PAGE_RECORDS_MAX: Final = 1_000
PAGES_MAX: Final = 4
"""Log pages that are read at the same time; further ones wait."""
OFFSET_DIGITS_MAX: Final = 9
"""A number up to this long is an offset, a longer one a time in seconds, as in `yak metadata log`."""
_PAGE_RECORDS: Final = 100
_RECORD_ITEMS: Final = 10
"""A record of the log may name many partitions."""
_SECONDS: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)
_TIME_HINT: Final = "a time in seconds since 1970, as `date +%s` prints it; 0 for the full state"
_AT_HINT: Final = "at=42 is after record 42, at=1763668800 or at=2026-11-20T20:00:00Z is a time"
RECORDS_PER_READ: Final = 100
"""Records read from the store, and replayed, in one piece: a few ms of a thread."""
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A page of the log ends when its records together exceed this size."""
REPLAY_SECONDS_MAX: Final = 30.0
_REST_SECONDS: Final = 0.001
"""The pause between two pieces, for the event loop: a computing thread holds the GIL."""
_SNAPSHOT: Final = "snapshot"


def _size(image: Image) -> int:
    return len(image.brokers) + sum(len(topic.partitions) for topic in image.topics.values())


def _now_ms(context: Context, store_ms: int = 0) -> int:
    """The time by the clock that is ahead: this broker's may have been set since it started, or since the last record."""
    return max(context.shell.clock.wall_ms(), context.broker.image.timestamp_ms, store_ms)


def _past_ms(name: str, text: str, now_ms: int, hint: str) -> int:
    """A past time in seconds, converted to ms. Raises Problem 400 `bad-parameter`."""
    if not _SECONDS.fullmatch(text):
        raise bad_parameter(f"{name}={text[:64]!r} is not a time in seconds", hint)
    whole, _, fraction = text.partition(".")
    time_ms = int(whole) * 1000 + int(f"{fraction:0<3}"[:3] or 0)
    _refuse_future(name, text, time_ms, now_ms)
    return time_ms


def _refuse_future(name: str, text: str, time_ms: int, now_ms: int) -> None:
    if time_ms > now_ms + CLOCKS_MS:
        message = f"{name}={text[:64]} is in the future"
        raise bad_parameter(message, f"it is {seconds(now_ms):.3f} now; times are in seconds")


def _point(text: str, now_ms: int) -> "Point":
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
        raise bad_parameter(f"at={text[:64]!r} is neither an offset nor a time", _AT_HINT) from None
    if time_ms < 0:
        raise bad_parameter(f"at={text[:64]} is before 1970", _AT_HINT)
    _refuse_future("at", text, time_ms, now_ms)
    return Point(time_ms=time_ms)


@dataclass(slots=True, frozen=True)
class Point:
    """The meaning of `at`: an offset or a time."""

    offset: MetadataOffset | None = None
    time_ms: int | None = None

    def is_before(self, record: TailedRecord | Image) -> bool:
        """Whether a record, or the last one of an image, is later than this point."""
        if self.offset is not None:
            return record.offset > self.offset
        assert self.time_ms is not None
        return record.timestamp_ms > self.time_ms


@dataclass(slots=True, frozen=True)
class Copy:
    """The metadata on this broker's disk: the snapshot, if there is one, and the records after it."""

    base: TailedRecord | None
    records: list[TailedRecord]

    def reaches(self, point: Point) -> bool:
        """Whether the copy suffices to rebuild the state at a point."""
        if self.base is not None:
            return not point.is_before(self.base)
        if not self.records:
            return False
        first = self.records[0]
        return first.offset == 1 or (first.kind == Kind.SNAPSHOT and not point.is_before(first))


class History:
    """Reads the history for one broker. One replay runs at a time; the next may continue from its image."""

    def __init__(self, context: Context) -> None:
        self._broker: Broker = context.broker
        store = context.shell.store
        self._store = store if isinstance(store, RedisStore) else None
        self._replaying = trio.Lock()
        self._last: Image | None = None

    # ---------------------------------------------------------------------------------------------------- pages

    async def page(self, first: MetadataOffset, limit: int) -> dict[str, Any]:
        """Up to `limit` records from `first` on, or from the log's beginning if that is later."""
        try:
            return await self._page_of_store(first, limit)
        except (ConnectionLost, ReplyError):
            return await trio.to_thread.run_sync(partial(_page_of_copy, self._folder, first, limit))

    async def _page_of_store(self, first: MetadataOffset, limit: int) -> dict[str, Any]:
        records: list[dict[str, Any]] = []
        size = 0
        while True:
            wanted = min(RECORDS_PER_READ, limit - len(records))
            found = await self._read(first, wanted)
            page, bytes_read = await trio.to_thread.run_sync(_as_json, found.records)
            records += page
            size += bytes_read
            if page:
                first = page[-1]["offset"] + 1
            if len(page) < wanted or len(records) >= limit or size >= PAGE_BYTES_MAX:
                return _page(records, found.begin, found.end, "store")

    async def _read(self, first: MetadataOffset, count: int, *, with_snapshot: bool = False) -> LogPage:
        """Raises ConnectionLost or ReplyError."""
        if self._broker.metadata_in_quorum:
            assert self._broker.quorum is not None
            return _records_of_quorum(self._broker.quorum.quorum.machine.state, first, count)
        if self._store is None:
            raise ConnectionLost("this broker has no metadata store")
        return await self._store.read_log(first, count, with_snapshot=with_snapshot)

    @property
    def _folder(self) -> str:
        return f"{self._broker.log_store.directories[0].path}/{METADATA_FOLDER}"

    # --------------------------------------------------------------------------------------------------- images

    async def image_at(self, point: Point) -> Image:
        """The cluster's image at a point.

        Raises Problem: 404 `not-yet`, 410 `gone` for a trimmed state, 504 `too-slow`, and 503 `metadata-store-unavailable`,
        `log-unreadable` or `log-broken`.
        """
        now = self._broker.image
        if point.offset is not None and point.offset > now.offset:
            raise Problem(404, "not-yet", f"record {point.offset} does not exist yet", f"the newest is {now.offset}")
        if point.offset == now.offset or (point.time_ms is not None and point.time_ms >= now.timestamp_ms):
            return now
        with trio.move_on_after(REPLAY_SECONDS_MAX):
            async with self._replaying:
                image = await self._replayed(point)
                self._last = image
                return image
        raise Problem(
            504,
            "too-slow",
            f"it took more than {REPLAY_SECONDS_MAX:g} s",
            "use a later offset, or yak metadata snapshot --at",
        )

    async def _replayed(self, point: Point) -> Image:
        copy = await trio.to_thread.run_sync(_read_copy, self._folder)
        if copy.reaches(point):
            try:
                return await self._replay_copy(copy, point)
            except ChainBroken:
                pass  # compacted while it was read
        try:
            return await self._replay_store(point)
        except (ConnectionLost, ReplyError) as error:
            begin = 1 if copy.base is None else copy.base.offset
            raise Problem(
                503,
                "metadata-store-unavailable",
                f"records before {begin} are only in the metadata store, which does not answer: {error}",
                "retry when it is back",
            ) from None
        except (ChainBroken, BadRecord) as error:
            raise Problem(
                503, "log-broken", f"the metadata records are inconsistent: {error}", "see: yak cluster"
            ) from None

    async def _replay_copy(self, copy: Copy, point: Point) -> Image:
        image = Image() if copy.base is None else Image().apply(copy.base)
        for start in range(0, len(copy.records), RECORDS_PER_READ):
            image, is_there = await self._apply(image, copy.records[start : start + RECORDS_PER_READ], point)
            if is_there:
                break
        return image

    async def _replay_store(self, point: Point) -> Image:
        found = await self._read(1, RECORDS_PER_READ, with_snapshot=True)
        image = Image()
        if self._is_on_the_way(point) and self._last is not None:
            image = self._last
        elif found.begin != 1:
            base = found.snapshot
            if base is None or point.is_before(base):
                raise _gone(found.begin if base is None else base.offset)
            image = await trio.to_thread.run_sync(image.apply, base)
        while True:
            found = await self._read(image.offset + 1, RECORDS_PER_READ)
            image, is_there = await self._apply(image, found.records, point)
            if is_there or len(found.records) < RECORDS_PER_READ:
                return image

    def _is_on_the_way(self, point: Point) -> bool:
        """Whether the last replay's image belongs to this history and is not later than the point."""
        last = self._last
        return (
            last is not None and last.incarnation_id == self._broker.image.incarnation_id and not point.is_before(last)
        )

    async def _apply(self, image: Image, records: Sequence[TailedRecord], point: Point) -> tuple[Image, bool]:
        """The image after the records up to the point, and whether the records go beyond it."""
        late = next((number for number, record in enumerate(records) if point.is_before(record)), None)
        taken = records[:late]
        if taken:
            image = await trio.to_thread.run_sync(lambda: image.apply_all(taken)[0])
            await trio.sleep(_REST_SECONDS)
        return image, late is not None


def _gone(begin: MetadataOffset) -> Problem:
    return Problem(
        410,
        "gone",
        f"the metadata log begins at record {begin}; earlier states are not available",
        f"GET /metadata/image?at={begin} is the earliest state",
    )


def _page(records: list[dict[str, Any]], begin: MetadataOffset, end: MetadataOffset, source: str) -> dict[str, Any]:
    """A page of a log that spans `begin` to `end`, as JSON; `next` is None at its end."""
    following = records[-1]["offset"] + 1 if records and records[-1]["offset"] < end else None
    return {"begin": begin, "end": end, "next": following, "source": source, "records": records}


def _records_of_quorum(state: "StoreState", first: MetadataOffset, count: int) -> LogPage:
    """Records of this node's applied log: the lists change between turns, the records never."""
    log = state.log
    if not log:
        return LogPage([], 0, 0, state.snapshot)
    begin = log[0].offset
    start = max(0, first - begin)
    return LogPage(log[start : start + count], begin, log[-1].offset, state.snapshot)


# ----------------------------------------------------------------------------------------------------- in threads


def _as_json(records: Sequence[TailedRecord]) -> tuple[list[dict[str, Any]], int]:
    return [record_json(record) for record in records], sum(sys.getsizeof(str(record.payload)) for record in records)


def _page_of_copy(folder: str, first: MetadataOffset, limit: int) -> dict[str, Any]:
    copy = _read_copy(folder)
    records: list[dict[str, Any]] = []
    size = 0
    for record in copy.records:
        if record.offset >= first and len(records) < limit and size < PAGE_BYTES_MAX:
            records.append(record_json(record))
            size += sys.getsizeof(str(record.payload))
    begin = copy.records[0].offset if copy.records else 0
    end = copy.records[-1].offset if copy.records else 0
    return _page(records, begin, end, "copy")


def _read_copy(folder: str) -> Copy:
    """The files as they are now, even while the broker writes them; an incomplete tail is ignored.

    Raises Problem 503 `log-unreadable`.
    """
    try:
        records: dict[MetadataOffset, TailedRecord] = {}
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".log")):
            records |= {record.offset: record for record in _entries(f"{folder}/{name}")}
        # read last: a snapshot from a compaction meanwhile covers the records of the files that the compaction deleted
        base = next(iter(_entries(f"{folder}/{_SNAPSHOT}")), None)
    except OSError as error:
        raise Problem(
            503, "log-unreadable", f"this broker's copy cannot be read: {error.strerror}", "use another broker"
        ) from None
    least = 0 if base is None else base.offset
    return Copy(base, [record for offset, record in sorted(records.items()) if offset > least])


def _entries(path: str) -> list[TailedRecord]:
    try:
        with open(path, "rb") as file:
            return read_entries(file.read())
    except FileNotFoundError:
        return []


_PREVIOUS: Final = Parameter(
    "previous_offset",
    {"type": "number", "minimum": 0},
    "a time in seconds since 1970: the `timestamp` of the last answer, or 0",
    where="path",
)
_FEED: Final = (
    "The changes since a time of the last ten minutes; for an earlier time the full state (`full`). Use the `timestamp` of a "
    "response as the time of the next request: no change is missed, but some may be repeated."
)

ROUTES: Final = Routes("Metadata service: changes and history")


@ROUTES.add(
    "GET /client_mgmt/{previous_offset}",
    "Brokers, topics and partitions changed since a time",
    parameters=(_PREVIOUS,),
    answers={200: Answer("the full state, or the changes", CLIENT_CHANGES)},
    description=_FEED,
)
@ROUTES.add(
    "GET /broker_mgmt/{previous_offset}",
    "All changes since a time",
    parameters=(_PREVIOUS,),
    answers={200: Answer("the full state, or the changes", BROKER_CHANGES)},
    description=_FEED,
)
async def changes(context: Context, request: Request) -> Response:
    """The whole metadata, or what changed since a time; for clients only brokers, topics and partitions."""
    broker, external = context.broker, await context.part(ExternalBrokers).read()
    image, now_ms = broker.image, _now_ms(context, external.at_ms)
    since_ms = _past_ms("previous_offset", request.path_params["previous_offset"], now_ms, _TIME_HINT)
    is_current = broker.metadata.lifecycle.state is LifecycleState.ACTIVE
    known_ms = min(known_up_to_ms(image, now_ms, is_current=is_current), external.at_ms)
    brokers = external.brokers.values()
    for_brokers = request.url.path.startswith("/broker_mgmt/")
    show = partial(changes_json, image, brokers, since_ms, now_ms, known_ms, for_brokers=for_brokers)
    return await large_answer(context, show, len(brokers) + _size(image))


@ROUTES.add(
    "GET /metadata/log",
    "Records of the metadata log",
    parameters=(
        Parameter("from", OFFSET, "the first offset; the log begins at `begin`"),
        Parameter("limit", {"type": "integer", "minimum": 1, "maximum": PAGE_RECORDS_MAX}, "the maximum number"),
    ),
    answers={200: Answer("a page; `next` is where the next one begins", LOG)},
    description="Read from the metadata store; from this broker's copy, which begins later, while the store is down.",
)
async def log(context: Context, request: Request) -> Response:
    """Records of the metadata log, one page at a time."""
    first = query_integer(request, "from", 0)
    limit = query_integer(request, "limit", _PAGE_RECORDS, minimum=1, maximum=PAGE_RECORDS_MAX)
    async with context.parts.setdefault("metadata-pages", trio.Semaphore(PAGES_MAX)):
        page = await context.part(History).page(first, limit)
        return await large_answer(context, lambda: page, limit * _RECORD_ITEMS)


@ROUTES.add(
    "GET /metadata/image",
    "The cluster's current or an earlier state",
    parameters=(Parameter("at", {"type": "string"}, _AT_HINT),),
    answers={200: Answer("the state after all records up to then", CLUSTER)},
)
async def image(context: Context, request: Request) -> Response:
    """The cluster at an offset or a time; the current one by default."""
    at = query_text(request, "at")
    if at is None:
        external, then = await context.part(ExternalBrokers).read(), context.broker.image
    else:
        # The registry has no history.
        external, then = (
            RegistrySnapshot(),
            await context.part(History).image_at(_point(at, _now_ms(context))),
        )
    brokers = external.brokers.values()
    return await large_answer(context, partial(cluster_json, then, brokers), len(brokers) + _size(then))
