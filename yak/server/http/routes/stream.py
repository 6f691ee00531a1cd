"""Streams records of topics as server-sent events while the client listens: `/topics/{name}/stream` and `/stream`.

The id of each event is the client's position in all partitions, `orders@TOPIC_ID:0=15,1=20;payments@TOPIC_ID:0=3`. Sent
back as `Last-Event-ID`, it resumes the stream without duplicates or omissions; a topic that was deleted and created again
is read from its start. Nothing is queued for a slow client: what it does not accept is not read from the log. A client
that accepts nothing is disconnected (`HttpLimits.send_deadline_ms`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation, ResourceType
from yak.cluster.image import Image
from yak.errors import ErrorCode
from yak.ids import NodeId, TopicPartition
from yak.protocol.versions import FETCH
from yak.server.http.answers import RunUntilDisconnect, Write
from yak.server.http.authentication import CALLER
from yak.server.http.bodies import INT64_MAX, in_thread, query_choice, query_text
from yak.server.http.context import Context
from yak.server.http.problems import Problem, bad_parameter, json_bytes, kafka_problem
from yak.server.http.record_json import Form, record_json
from yak.server.http.record_reader import FETCH_VERSION, Read, fetch_request, is_quick, list_offset, walk_from
from yak.server.http.rights import check_names
from yak.server.http.route import Answer, Parameter, Routes
from yak.server.http.routes.consume import FORM_PARAMETER, read_form
from yak.server.http.routes.topics import NAME
from yak.server.http.topic_partitions import EARLIEST, LATEST, by_leader, find_topic, list_offsets
from yak.storage.checkpoints import id_to_text

TOPICS_MAX: Final = 16
"""Of one stream: the ids of its events must fit into a header."""
_MEDIA_TYPE: Final = "text/event-stream"
CHUNK_BYTES: Final = 60 * 1024
"""Of one fetch: small, since each stream may hold one for each broker. A broker sends this little in one piece."""
EVENTS_MAX: Final = 500
IDS_BYTES_MAX: Final = 256 * 1024
"""Of one write: its events, and their ids. Rendering takes about a millisecond of the loop."""
_WAIT_MS: Final = 5_000
_OFFSETS_SECONDS: Final = 5.0
_TROUBLE_SECONDS: Final = 0.2
_IMAGE_POLL_SECONDS: Final = 1.0
RETRY_MS: Final = 2_000
_MARK: Final = -1
"""Stands for the offset that differs between the ids of a write; no position is negative."""
_OFFSET: Final = "[0-9]{1,10}=[0-9]{1,19}"
_POSITION: Final = re.compile(f"([a-zA-Z0-9._-]{{1,249}})@([a-zA-Z0-9_-]{{22}}):({_OFFSET}(?:,{_OFFSET})*)", re.ASCII)
"""With an optional comma a run of digits could be split in many ways, and a refusal would try all of them."""


def _names(request: Request) -> list[str]:
    more = query_text(request, "topics")
    names = [request.path_params["name"]] if "name" in request.path_params else []
    names += [] if more is None else more.split(",")
    if not any(names):
        raise bad_parameter("topics is missing", "add ?topics=orders,payments")
    names = list(dict.fromkeys(names))
    if len(names) > TOPICS_MAX:
        raise bad_parameter(f"{len(names)} topics in one stream, at most {TOPICS_MAX}", "open several")
    return names


class ResumePoint(NamedTuple):
    """What an event id says."""

    positions: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    """By topic, as Kafka prints them (its Uuid, in base64)."""


class _Chunk(NamedTuple):
    place: TopicPartition
    events: list[tuple[int, str]]
    """(offset after the record, its text)."""
    next_offset: int
    name: str = ""


async def first_positions(
    context: Context, names: Sequence[str], resumed: ResumePoint, from_start: bool
) -> dict[TopicPartition, int]:
    """The start offset in each partition. Raises Problem: 404, 400 `too-many-partitions`, 503."""
    topics = [find_topic(context, name) for name in names]
    count = sum(len(topic.partitions) for topic in topics)
    _check_count(context, count)
    positions: dict[TopicPartition, int] = {}
    for topic in topics:
        partitions = [TopicPartition(topic.name, info.partition) for info in topic.partitions]
        own_id = id_to_text(topic.topic_id)
        is_another = resumed.topic_ids.get(topic.name, own_id) != own_id
        known = {} if is_another else resumed.positions
        # the event id lacks partitions that were added after the event, and all of a topic that was created again: the
        # client has none of their records
        missing = [place for place in partitions if place not in known]
        is_earliest = from_start or is_another or len(missing) < len(partitions)
        which = EARLIEST if is_earliest else LATEST
        found = await list_offsets(context, missing, which, _OFFSETS_SECONDS)
        for place in partitions:
            at = known.get(place, found.get(place))
            positions[place] = at if at is not None else await list_offset(context, place, which)
    return positions


def _check_count(context: Context, count: int) -> None:
    if count > context.limits.stream_partitions_max:
        raise Problem(
            400,
            "too-many-partitions",
            f"{count} partitions in one stream, at most {context.limits.stream_partitions_max}",
            "use fewer topics per stream",
        )


def read_event_id(text: str) -> ResumePoint:
    """The positions in an event id. Raises Problem 400 `bad-event-id`."""
    positions: dict[TopicPartition, int] = {}
    topic_ids: dict[str, str] = {}
    for part in text.split(";"):
        found = _POSITION.fullmatch(part)
        if found is None:
            raise Problem(
                400, "bad-event-id", "Last-Event-ID is not valid for this stream", "leave it out to start again"
            )
        topic_ids[found[1]] = found[2]
        for pair in found[3].split(","):
            number, _, offset = pair.partition("=")
            positions[TopicPartition(found[1], int(number))] = min(int(offset), INT64_MAX)
    return ResumePoint(positions, topic_ids)


def event_id(positions: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID]) -> str:
    """Positions as the id of an event; `read_event_id` parses it."""
    topics: dict[str, list[str]] = {}
    for (topic, partition), offset in positions.items():
        topics.setdefault(topic, []).append(f"{partition}={offset}")
    return ";".join([f"{topic}@{id_to_text(topic_ids[topic])}:{','.join(pairs)}" for topic, pairs in topics.items()])


def ids_of(context: Context, names: Iterable[str]) -> dict[str, UUID]:
    """The ids of these topics. Raises Problem 404."""
    return {name: find_topic(context, name).topic_id for name in names}


class RecordStream:
    """The stream of one client; `run` writes its events."""

    def __init__(
        self,
        context: Context,
        positions: dict[TopicPartition, int],
        form: Form,
        topic_ids: Mapping[str, UUID],
    ) -> None:
        """`topic_ids` are those of the topics from which the positions are."""
        self._context = context
        self._form = form
        self._sent = positions
        self._fetch_at = dict(positions)
        self._topic_ids = topic_ids
        self._image: Image | None = None
        self._pumps: set[NodeId] = set()
        self._pump_ended = trio.Event()
        self._giving = trio.Lock()
        """While a leader moves, the tasks of both leaders have records of the partition. The second one gives what is left."""
        self._to_listener, self._chunks = trio.open_memory_channel[_Chunk](0)

    async def run(self, write: Write) -> None:
        """Write events, and a comment after `heartbeat_ms` without any, until the stream ends by itself."""
        await write(f"retry: {RETRY_MS}\nid: {self._event_id()}\n\n".encode())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._supervise, nursery)
                while True:
                    chunk: _Chunk | None = None
                    with trio.move_on_after(self._context.limits.heartbeat_ms / 1000):
                        chunk = await self._chunks.receive()
                    await write(b": still here\n\n" if chunk is None else self._render(chunk))
        except* Problem as problems:
            problem = problems.exceptions[0]
            assert isinstance(problem, Problem)
            await write(b"event: end\ndata: %b\n" % json_bytes(problem.as_json()))

    def _event_id(self) -> str:
        return event_id(self._sent, self._topic_ids)

    def _render(self, chunk: _Chunk) -> bytes:
        self._sent[chunk.place] = _MARK
        before, _, after = self._event_id().partition(f"={_MARK}")
        head = f"event: {chunk.name}\nid: {before}" if chunk.name else f"id: {before}"
        lines = [f"{head}={offset}{after}\ndata: {text}\n\n" for offset, text in chunk.events]
        self._sent[chunk.place] = chunk.next_offset
        return "".join(lines).encode()

    # ---------------------------------------------------------------------------------------- one task for each leader

    async def _supervise(self, nursery: trio.Nursery) -> None:
        """Run one task for each broker that leads some of the partitions; new partitions are read from offset 0."""
        while True:
            image = self._context.broker.image
            if image is not self._image:
                self._image = image
                self._check_topics(image)
            for leader in by_leader(image, self._fetch_at):
                if leader not in self._pumps:
                    self._pumps.add(leader)
                    nursery.start_soon(self._pump, leader)
            self._pump_ended = trio.Event()
            with trio.move_on_after(_IMAGE_POLL_SECONDS):
                await self._pump_ended.wait()

    def _check_topics(self, image: Image) -> None:
        for name, topic_id in self._topic_ids.items():
            topic = image.topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                what = f"topic {name!r}"
                raise kafka_problem(ErrorCode.unknown_topic_or_partition, what, "it was deleted")
            for info in topic.partitions:
                self._fetch_at.setdefault(TopicPartition(name, info.partition), 0)
        _check_count(self._context, len(self._fetch_at))

    async def _pump(self, leader: NodeId) -> None:
        try:
            while True:
                mine = by_leader(self._context.broker.image, self._fetch_at).get(leader)
                if mine is None:
                    return
                if not await self._fetch(leader, mine):
                    await trio.sleep(_TROUBLE_SECONDS)
        finally:
            self._pumps.discard(leader)
            self._pump_ended.set()

    async def _fetch(self, leader: NodeId, partitions: Iterable[TopicPartition]) -> bool:
        """Fetch once; False after an error that may be transient. Raises Problem for a client that may not read."""
        offsets = {place: self._fetch_at[place] for place in partitions}
        fields = fetch_request(offsets, bytes_max=CHUNK_BYTES, wait_ms=_WAIT_MS)
        try:
            answer = await self._context.broker_client.ask(
                FETCH, fields, node_id=leader, version=FETCH_VERSION, timeout_s=10 + _WAIT_MS / 1000
            )
        except Problem as problem:
            if problem.status == 403:
                raise
            return False
        is_well = answer.error_code is ErrorCode.none
        for topic in answer.responses:
            for found in topic.partitions:
                place = TopicPartition(topic.topic, found.partition_index)
                if found.error_code is ErrorCode.none:
                    if found.records:
                        async with self._giving:
                            await self._give(place, found.records)
                elif found.error_code is ErrorCode.offset_out_of_range:
                    is_well = await self._skip_to_what_there_is(place) and is_well
                elif found.error_code is ErrorCode.topic_authorization_failed:
                    raise kafka_problem(found.error_code, f"topic {place.topic!r}")
                else:
                    is_well = False
        return is_well

    async def _give(self, place: TopicPartition, data: bytes) -> None:
        offset = self._fetch_at[place]
        show = partial(self._show, place, data, offset)
        try:
            chunk = show() if is_quick(data) else await in_thread(self._context, show)
        except Problem as problem:  # an unreadable batch
            chunk = self._gap(place, int(problem.more["next_offset"]), problem.message)
        # to the end of the order: the leader fills its next answer with the first partitions of the request (KIP-74)
        del self._fetch_at[place]
        self._fetch_at[place] = chunk.next_offset
        count = max(1, min(EVENTS_MAX, IDS_BYTES_MAX // len(self._event_id())))
        for start in range(0, len(chunk.events), count):
            events = chunk.events[start : start + count]
            is_last = start + count >= len(chunk.events)
            await self._to_listener.send(
                chunk._replace(events=events, next_offset=chunk.next_offset if is_last else events[-1][0])
            )
        if not chunk.events:  # holes and control batches
            await self._to_listener.send(chunk)

    def _show(self, place: TopicPartition, data: bytes, offset: int) -> _Chunk:
        limits = self._context.limits
        read: Read = walk_from(
            data,
            offset,
            records_max=limits.records_per_request_max,
            bytes_max=limits.answer_bytes_max,
            decompressed_bytes_max=limits.decompressed_bytes_max,
        )
        fields = f'"topic":"{place.topic}","partition":{place.partition},'
        events = [(record.offset + 1, record_json(record, self._form, fields)) for record in read.records]
        return _Chunk(place, events, read.next_offset)

    async def _skip_to_what_there_is(self, place: TopicPartition) -> bool:
        """Resume at the log's start or end when the position was deleted or truncated, with an event for the gap."""
        try:
            start = await list_offset(self._context, place, EARLIEST)
            end = await list_offset(self._context, place, LATEST)
        except Problem:
            return False
        async with self._giving:
            at = self._fetch_at[place]
            if start <= at <= end:
                return False
            chunk = self._gap(place, start if at < start else end, "these offsets are no longer in the log")
            self._fetch_at[place] = chunk.next_offset
            await self._to_listener.send(chunk)
            return True

    def _gap(self, place: TopicPartition, to: int, why: str) -> _Chunk:
        topic, partition = place
        gap = {"topic": topic, "partition": partition, "from": self._fetch_at[place], "to": to, "why": why}
        return _Chunk(place, [(to, json_bytes(gap).decode().rstrip("\n"))], to, "gap")


_BEGIN: Final = Parameter(
    "from", {"enum": ["latest", "earliest"], "default": "latest"}, "the start without a Last-Event-ID"
)
_ANSWERS: Final = {200: Answer("events until the client disconnects", {"type": "string"}, _MEDIA_TYPE)}
_DESCRIPTION: Final = (
    "Each event is a record as in GET /consume, with topic and partition. Its id has the offsets of all partitions: "
    "sent as Last-Event-ID, it continues there. `event: gap` reports offsets that were deleted, `event: end` the reason of the end."
)

ROUTES: Final = Routes("Data")


@ROUTES.add(
    "GET /stream",
    "Follow several topics as server-sent events",
    parameters=(
        Parameter("topics", {"type": "string", "minLength": 1}, "the topics, separated by commas", required=True),
        _BEGIN,
        FORM_PARAMETER,
    ),
    answers=_ANSWERS,
    description=_DESCRIPTION,
    operation=Operation.READ,
)
@ROUTES.add(
    "GET /topics/{name}/stream",
    "Follow a topic as server-sent events",
    parameters=(
        NAME,
        Parameter("topics", {"type": "string"}, "more topics, separated by commas"),
        _BEGIN,
        FORM_PARAMETER,
    ),
    answers=_ANSWERS,
    description=_DESCRIPTION,
    operation=Operation.READ,
)
async def stream(context: Context, request: Request) -> Response:
    """Stream records. The start positions are found first, so that a missing topic is an error and no empty stream."""
    form = read_form(request)
    names = _names(request)
    # before they are looked for: the caller must not learn which topics exist
    access = Operation.READ, ResourceType.TOPIC, names
    check_names(context.broker, context.shell.rate_limit, CALLER.get(), "Fetch", *access)
    begin = query_choice(request, "from", ("earliest", "latest"), "latest")
    last_event_id = request.headers.get("last-event-id")
    resumed = read_event_id(last_event_id) if last_event_id else ResumePoint({}, {})
    topic_ids = ids_of(context, names)  # before the positions: a topic that is created again meanwhile has others
    positions = await first_positions(context, names, resumed, begin == "earliest")

    async def run(write: Write) -> None:
        streams = context.parts.get("record_streams", 0)
        context.parts["record_streams"] = streams + 1
        try:
            await RecordStream(context, positions, form, topic_ids).run(write)
        finally:
            context.parts["record_streams"] -= 1

    if context.parts.get("record_streams", 0) >= context.limits.streams_max:
        limit = context.limits.streams_max
        raise Problem(503, "too-many-streams", f"this broker has the maximum of {limit} streams", "use another broker")
    return RunUntilDisconnect(run, _MEDIA_TYPE)
