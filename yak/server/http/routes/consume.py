"""`GET /consume`: committed records of one partition from an offset on, with an optional wait for the first ones."""

from typing import Any, Final, NamedTuple, cast

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation
from yak.ids import TopicPartition
from yak.protocol.record_fields import INT32_MAX
from yak.server.http.bodies import INT64_MAX, checked_integer, in_thread, query_choice, query_integer, query_text
from yak.server.http.context import Context, HttpLimits
from yak.server.http.problems import bad_parameter
from yak.server.http.record_json import FORMS, RECORD_SCHEMA, Form, record_json
from yak.server.http.record_reader import fetch, held, is_quick, list_offset, walk_from
from yak.server.http.route import Answer, Parameter, Routes
from yak.server.http.schemas import NOT_EMPTY, NUMBER, PARTITION, TEXT, listing, record
from yak.server.http.topic_partitions import EARLIEST, LATEST, check_partition, find_topic

MESSAGES: Final = 100
BYTES: Final = 1024 * 1024
TIMEOUT_MS_MAX: Final = 30_000
_EMPTY_FETCHES_MAX: Final = 64
"""Fetches in one request that find only holes and control batches."""
ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}


class _Query(NamedTuple):
    place: TopicPartition
    offset: int
    """The first offset, or EARLIEST or LATEST."""
    messages_max: int
    bytes_max: int
    timeout_ms: int
    isolation_level: int
    form: Form


def _aborted(found: Any) -> dict[int, list[int]]:
    """The first offsets of each producer's aborted transactions; the answer names them with read_committed only."""
    aborted: dict[int, list[int]] = {}
    for each in found.aborted_transactions or ():
        aborted.setdefault(int(each.producer_id), []).append(int(each.first_offset))
    return aborted


async def _show(
    context: Context, query: _Query, data: bytes, offset: int, aborted: dict[int, list[int]]
) -> tuple[list[str], int]:
    def show() -> tuple[list[str], int]:
        read = walk_from(
            data,
            offset,
            records_max=query.messages_max,
            bytes_max=query.bytes_max,
            decompressed_bytes_max=context.limits.decompressed_bytes_max,
            aborted=aborted,
        )
        return [record_json(record, query.form) for record in read.records], read.next_offset

    return show() if is_quick(data) else await in_thread(context, show)


def _answer(place: TopicPartition, lines: list[str], next_offset: int, found: Any) -> Response:
    body = (
        f'{{"topic":"{place.topic}","partition":{place.partition},"next_offset":{next_offset},'
        f'"high_watermark":{found.high_watermark},"log_start_offset":{found.log_start_offset},'
        f'"records":[{",".join(lines)}]}}\n'
    )
    return Response(body.encode(), media_type="application/json")


def _read(limits: HttpLimits, request: Request) -> _Query:
    topic = query_text(request, "topic")
    if not topic:
        raise bad_parameter("topic is missing", "add ?topic=NAME; GET /topics lists all topics")
    partition = query_integer(request, "partition", maximum=INT32_MAX)
    return _Query(
        TopicPartition(topic, partition),
        _offset(query_text(request, "offset")),
        query_integer(request, "max_messages", MESSAGES, minimum=1, maximum=limits.records_per_request_max),
        query_integer(request, "max_bytes", BYTES, minimum=1, maximum=limits.answer_bytes_max),
        query_integer(request, "timeout_ms", 0, maximum=TIMEOUT_MS_MAX),
        ISOLATION[query_choice(request, "isolation", ISOLATION, "read_uncommitted")],
        read_form(request),
    )


def _offset(text: str | None) -> int:
    if text in (None, "earliest"):
        return EARLIEST
    if text == "latest":
        return LATEST
    if not text.isascii() or not text.lstrip("-").isdigit():
        message = f"offset={text[:64]!r} is neither a number nor earliest nor latest"
        raise bad_parameter(message, "offset=0, offset=earliest or offset=latest")
    return checked_integer("offset", text)


def read_form(request: Request) -> Form:
    """`as=json`, `text` or `base64`. Raises Problem 400 `bad-parameter`."""
    return cast("Form", query_choice(request, "as", FORMS, "json"))


FORM_PARAMETER: Final = Parameter(
    "as",
    {"enum": list(FORMS), "default": "json"},
    "json: values that are JSON as JSON; text: as text; base64: all bytes",
)
_OFFSET: Final = {"type": "integer", "minimum": 0, "maximum": INT64_MAX}

ROUTES: Final = Routes("Data")


@ROUTES.add(
    "GET /consume",
    "Read committed records of one partition",
    parameters=(
        Parameter("topic", NOT_EMPTY, "the topic's name", required=True),
        Parameter("partition", PARTITION, "its partition", required=True),
        Parameter(
            "offset",
            {"oneOf": [{"enum": ["earliest", "latest"]}, _OFFSET], "default": "earliest"},
            "the first offset wanted",
        ),
        Parameter(
            "max_messages",
            {"type": "integer", "minimum": 1, "maximum": HttpLimits().records_per_request_max, "default": MESSAGES},
            "maximum number of records",
        ),
        Parameter(
            "max_bytes",
            {"type": "integer", "minimum": 1, "maximum": HttpLimits().answer_bytes_max, "default": BYTES},
            "maximum bytes of keys, values and headers; at least one record is returned",
        ),
        Parameter(
            "timeout_ms",
            {"type": "integer", "minimum": 0, "maximum": TIMEOUT_MS_MAX, "default": 0},
            "how long to wait for a first record",
        ),
        Parameter("isolation", {"enum": list(ISOLATION), "default": "read_uncommitted"}, "as for Kafka's consumers"),
        FORM_PARAMETER,
    ),
    answers={
        200: Answer(
            "the records, possibly none, and the next offset",
            record(
                {
                    "topic": TEXT,
                    "partition": NUMBER,
                    "next_offset": _OFFSET,
                    "high_watermark": _OFFSET,
                    "log_start_offset": _OFFSET,
                    "records": listing(RECORD_SCHEMA),
                }
            ),
        )
    },
    operation=Operation.READ,
)
async def consume(context: Context, request: Request) -> Response:
    """Fetch until there are records or the time is over; the answer may have no records."""
    query = _read(context.limits, request)
    check_partition(find_topic(context, query.place.topic), query.place.partition)
    offset = query.offset
    if offset < 0:  # at the high watermark, the records of open transactions would be skipped
        offset = await list_offset(context, query.place, offset, query.isolation_level)
    deadline = trio.current_time() + query.timeout_ms / 1000
    for fetches_left in range(_EMPTY_FETCHES_MAX, 0, -1):
        wait_ms = max(0, int((deadline - trio.current_time()) * 1000))
        found = await fetch(
            context,
            query.place,
            offset,
            bytes_max=query.bytes_max,
            wait_ms=wait_ms,
            isolation_level=query.isolation_level,
        )
        data = found.records or b""
        with held(context, len(data)):
            lines, next_offset = await _show(context, query, data, offset, _aborted(found))
            if lines or fetches_left == 1 or (next_offset == offset and trio.current_time() >= deadline):
                return _answer(query.place, lines, next_offset, found)
        offset = next_offset
    raise AssertionError("the last read decides")
