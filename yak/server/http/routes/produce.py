"""`POST /produce`: records as JSON, to any broker, which forwards them to the leaders or redirects the client."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from yak.acls.bindings import Operation
from yak.server.http.answers import answer
from yak.server.http.bodies import (
    INT64_MAX,
    fields_of,
    in_thread,
    is_small,
    json_body,
    kind_of,
    query_flag,
    query_text,
)
from yak.server.http.context import Context
from yak.server.http.problems import Problem, bad_body, bad_parameter
from yak.server.http.record_json import HEADERS_MAX, ROW_FIELDS, Row, read_rows
from yak.server.http.record_producer import (
    ACKS_ALL,
    PLACED_AT_ONCE_MAX,
    PartitionQueue,
    RowDistribution,
    refuse,
    topics_of,
    write,
)
from yak.server.http.route import Answer, Body, Parameter, Routes
from yak.server.http.schemas import NUMBER, PARTITION, TEXT, TEXT_OR_NULL, TOPIC_NAME, listing, or_null, record
from yak.server.http.topic_partitions import leader_of
from yak.views.cluster import http_address

_HINT: Final = 'send {"topic": "orders", "key": "k1", "payload": {"any": "JSON"}}, or a list of such objects'
_ACKS: Final[Mapping[Any, int]] = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1, "0": 0, -1: ACKS_ALL, 1: 1, 0: 0}
_UNKNOWN_FATE: Final = "the result is unknown: check the topic before a retry"


class _ProduceRequest(NamedTuple):
    rows: list[Row]
    is_single: bool
    acks: int


def _length(body: Any) -> int:
    records = body.get("records") if isinstance(body, dict) else body
    return len(records) if isinstance(records, list) else 0


def _read(context: Context, body: Any, query_acks: str | None) -> _ProduceRequest:
    """The rows of a body in one of its three shapes. Raises Problem, naming the first invalid rows."""
    limits = context.limits
    acks: Any = None
    topic: str | None = None
    is_single = False
    if isinstance(body, list):
        rows: Any = body
    elif isinstance(body, dict) and "records" in body:
        fields = fields_of(body, ("topic", "records", "acks"), hint=_HINT)
        rows, acks, topic = fields["records"], fields.get("acks"), _topic(fields.get("topic"))
        if not isinstance(rows, list):
            raise bad_body(f"records is {kind_of(rows)}, not a list", _HINT)
    else:
        fields = fields_of(body, ("topic", "acks", *ROW_FIELDS), hint=_HINT)
        is_single, acks = True, fields.get("acks")
        rows = [{name: value for name, value in fields.items() if name != "acks"}]
    if not rows:
        raise bad_body("the list has no records", _HINT)
    if len(rows) > limits.records_per_request_max:
        raise Problem(
            413,
            "too-many-records",
            f"{len(rows)} records in one request, at most {limits.records_per_request_max}",
            "send them in several requests, or as CSV to /topics/{name}/csv",
        )
    read, failed, faults = read_rows(rows, topic, limits.failed_rows_named_max)
    if failed:
        raise refuse(failed, len(rows), faults)
    return _ProduceRequest(read, is_single, _acks(acks, query_acks))


def _topic(topic: Any) -> str:
    if type(topic) is not str:
        raise bad_body(f"beside records, topic is {kind_of(topic)}, not a text", _HINT)
    return topic


def _acks(in_body: Any, in_query: str | None) -> int:
    if in_body is not None and in_query is not None:
        raise bad_parameter("acks is in the query and in the body", "send it once")
    acks = in_query if in_body is None else in_body
    if acks is None:
        return ACKS_ALL
    if type(acks) not in (str, int) or acks not in _ACKS:
        raise bad_parameter(
            f"acks is {str(acks)[:16]!r}", '"all" waits for the ISR, 1 for the leader, 0 for no acknowledgement'
        )
    return _ACKS[acks]


def _elsewhere(
    context: Context, request: Request, queues: Sequence[PartitionQueue], topics: Collection[str]
) -> Response | None:
    """307 to the broker that leads all partitions; None if there is none, it has no HTTP port, or it is this one.

    `topics` are those that the caller may write.
    """
    image = context.broker.image
    leaders = {leader_of(image, queue.place) for queue in queues if queue.place.topic in topics}
    if len(leaders) > 1:
        raise Problem(
            400,
            "several-leaders",
            f"{len(leaders)} brokers lead the partitions of these records",
            "without redirect=true, this broker forwards the records to the leaders",
        )
    leader = next(iter(leaders), None)
    if leader is None or leader == context.broker.node_id:
        return None
    address = http_address(image.brokers.get(leader), context.scheme)
    if address is None:
        return None
    location = f"{address}/produce?{urlencode(request.query_params.multi_items())}"
    return answer({"leader": leader, "location": location}, 307, {"location": location})


def _answer(queues: Sequence[PartitionQueue], produced: _ProduceRequest) -> Response:
    answers: list[Any] = [None] * len(produced.rows)
    written = 0
    for queue in queues:
        topic, partition = queue.place
        written += queue.written
        for row, offset in zip(queue.rows, queue.offsets(), strict=False):
            answers[row] = {"topic": topic, "partition": partition, "offset": offset}
        if queue.problem is not None:
            hint = _UNKNOWN_FATE if queue.is_unknown else queue.problem.hint
            error = {**queue.problem.as_json(), "hint": hint}
            for row in queue.rows[queue.written :]:
                answers[row] = {"topic": topic, "partition": partition, **error}
    failed = len(answers) - written
    first = next((queue.problem for queue in queues if queue.problem is not None), None)
    if first is not None and not written:
        hint = _UNKNOWN_FATE if any(queue.is_unknown for queue in queues) else first.hint
        more = {} if produced.is_single else {"written": 0, "failed": failed, "records": answers}
        raise Problem(first.status, first.error, first.message, hint, headers=first.headers, more=more)
    if produced.is_single:
        return answer(answers[0])
    return answer({"written": written, "failed": failed, "records": answers}, 207 if failed else 200)


_ROW_PROPERTIES: Final = {
    "key": {"type": ["string", "null"], "description": "chooses the partition, as Java's producers do"},
    "key_base64": {"type": "string", "contentEncoding": "base64", "description": "a binary key"},
    "payload": {"description": "any JSON, stored as compact UTF-8; null is a null value (a tombstone)"},
    "payload_text": {"type": "string", "description": "stored unchanged, instead of payload"},
    "payload_base64": {
        "type": "string",
        "contentEncoding": "base64",
        "description": "binary value, instead of payload",
    },
    "partition": or_null(PARTITION),
    "headers": {
        "oneOf": [
            {"type": "object", "additionalProperties": TEXT_OR_NULL, "maxProperties": HEADERS_MAX},
            {
                "type": "array",
                "maxItems": HEADERS_MAX,
                "items": {
                    **record(
                        {"key": TEXT},
                        optional={
                            "value": TEXT_OR_NULL,
                            "value_base64": {"type": "string", "contentEncoding": "base64"},
                        },
                    ),
                    "additionalProperties": False,
                },
            },
            {"type": "null"},
        ]
    },
}
_ACKS_SCHEMA: Final = {"enum": ["all", "-1", "1", "0", -1, 1, 0, None], "description": '"all" when it is left out'}


def _row(*, with_topic: bool, with_acks: bool = False) -> dict[str, Any]:
    more = {**({"topic": TOPIC_NAME} if with_topic else {}), **({"acks": _ACKS_SCHEMA} if with_acks else {})}
    return {
        "type": "object",
        "required": ["topic"] if with_topic else [],
        "properties": {**more, **_ROW_PROPERTIES},
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in ("payload", "payload_text", "payload_base64")],
    }


_BODY: Final = {
    "oneOf": [
        _row(with_topic=True, with_acks=True),
        {"type": "array", "minItems": 1, "maxItems": 10_000, "items": _row(with_topic=True)},
        {
            "type": "object",
            "required": ["topic", "records"],
            "properties": {
                "topic": TOPIC_NAME,
                "acks": _ACKS_SCHEMA,
                "records": {"type": "array", "minItems": 1, "maxItems": 10_000, "items": _row(with_topic=False)},
            },
            "additionalProperties": False,
        },
    ]
}
_WRITTEN: Final = record(
    {
        "topic": TEXT,
        "partition": NUMBER,
        "offset": {"type": ["integer", "null"], "minimum": 0, "maximum": INT64_MAX},
    }
)
_FAILED: Final = record({"topic": TEXT, "partition": NUMBER, "error": TEXT, "message": TEXT, "hint": TEXT})
_BATCH: Final = record({"written": NUMBER, "failed": NUMBER, "records": listing({"anyOf": [_WRITTEN, _FAILED]})})

ROUTES: Final = Routes("Data")


@ROUTES.add(
    "POST /produce",
    "Produce one record or several",
    guard="change",
    parameters=(
        Parameter("acks", {"enum": ["all", "-1", "1", "0"]}, "acknowledgement by the ISR, the leader, or none"),
        Parameter(
            "redirect",
            {"enum": ["true", "false"]},
            "respond with 307 and the leader's address instead of forwarding",
        ),
    ),
    body=Body(_BODY, {"topic": "orders", "key": "k1", "payload": {"item": "tea", "count": 2}}),
    answers={
        200: Answer("all records are written", {"anyOf": [_WRITTEN, _BATCH]}),
        207: Answer("some records are written: each has its own result", _BATCH),
        307: Answer("another broker is the leader", {"type": "object", "required": ["leader", "location"]}),
    },
    description="All records are checked before any is written. auto.create.topics.enable decides whether a "
    "missing topic is created.",
    operation=Operation.WRITE,
)
async def produce(context: Context, request: Request) -> Response:
    """Check all records, choose their partitions, then write."""
    redirect = query_flag(request, "redirect")
    query_acks = query_text(request, "acks")
    async with json_body(context, request, hint=_HINT, is_exact=True) as body:
        if is_small(request) and _length(body) <= PLACED_AT_ONCE_MAX:
            produced = _read(context, body, query_acks)
        else:
            produced = await in_thread(context, _read, context, body, query_acks)
        topics = await topics_of(context, produced.rows)
        placing = RowDistribution(context, topics, context.broker.node_id if redirect else None)
        if len(produced.rows) <= PLACED_AT_ONCE_MAX:
            placing.put(produced.rows)
        else:
            await in_thread(context, placing.put, produced.rows)
        if placing.failed:
            raise refuse(placing.failed, len(produced.rows), placing.faults)
        queues = list(placing.queues.values())
        if redirect:
            elsewhere = _elsewhere(context, request, queues, topics)
            if elsewhere is not None:
                return elsewhere
        await write(context, queues, produced.acks)
        if len(produced.rows) <= PLACED_AT_ONCE_MAX:
            return _answer(queues, produced)
        return await in_thread(context, _answer, queues, produced)
