"""`/api/faults`: the fault rules of all brokers, for tests of Kafka clients in any language.

Each broker keeps its own rules; a request is carried out on all live brokers, or on one, by the request of `yak faults`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from yak.errors import ErrorCode
from yak.faults import COMMAND
from yak.faults.rule import DELAY_MS_MAX, TEXT_LENGTH_MAX, FaultKind
from yak.ids import NodeId
from yak.lifecycle.liveness import serving_brokers
from yak.protocol.record_fields import INT32_MAX
from yak.quorum.transport import ENVELOPE
from yak.server.http.answers import answer
from yak.server.http.bodies import checked, json_body, query_integer, query_text
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.route import Answer, Body, Parameter, Routes, Schema
from yak.server.http.schemas import BOOLEAN, NODE_ID, NODES, OFFSET, PARTITION, TEXT, closed, listing, or_null, record

_ID_BYTES: Final = 4
_ASK_SECONDS: Final = 10.0
_TAKE_BACK_SECONDS: Final = 2.0
_SERVER_ERROR: Final = 500
_HINT: Final = 'try {"fault":"inject_error","api":"Produce","error":"NOT_LEADER_OR_FOLLOWER","times":1}'
_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": TEXT_LENGTH_MAX}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": INT32_MAX}
_RULE: Final[dict[str, Schema]] = {
    "fault": {"enum": list(FaultKind)},
    "api": _NAME,
    "error": _NAME,
    "delay_ms": {"type": "integer", "minimum": 1, "maximum": DELAY_MS_MAX},
    "client_id": _NAME,
    "topic": _NAME,
    "partition": PARTITION,
    "broker": NODE_ID,
    "times": _COUNT,
    "on_call": _COUNT,
    "after": BOOLEAN,
}
_BODY: Final = closed({name: schema if name == "fault" else or_null(schema) for name, schema in _RULE.items()}, "fault")
_LISTED: Final = record(
    {"node_id": NODE_ID, "id": TEXT, "fault": _RULE["fault"]},
    optional={**{name: _RULE[name] for name in _RULE if name != "fault"}, "calls": OFFSET, "hits": OFFSET},
)
_BROKER: Final = Parameter("broker", NODE_ID, "this broker alone; without it, all live brokers")
_STATUS: Final = {"faults-off": 409, "faults-refused": 403}


async def add_to_all(context: Context, rule: Mapping[str, object], brokers: Sequence[NodeId]) -> None:
    """Add a rule to all of these brokers, or to none.

    Raises Problem. Its hint names the brokers that may have the rule all the same: each did not answer, and may still
    carry out what it received.
    """
    sent_to: list[NodeId] = []
    try:
        for node_id in brokers:
            sent_to.append(node_id)
            await _command(context, node_id, {"do": "add", "rule": rule})
    except Problem as problem:
        unsure = [sent_to[-1]] if problem.status >= _SERVER_ERROR else []
        for node_id in sent_to:
            try:
                await _command(context, node_id, {"do": "clear", "id": rule["id"]}, timeout_s=_TAKE_BACK_SECONDS)
            except Problem as failure:
                if failure.status >= _SERVER_ERROR and node_id not in unsure:
                    unsure.append(node_id)
        if unsure:
            named = ", ".join(map(str, unsure))
            problem.hint = f"broker {named} may have it: DELETE /api/faults/{rule['id']} once all brokers answer"
        raise


async def _clear(context: Context, request: Request, rule_id: str | None) -> list[str]:
    gone: dict[str, None] = {}
    for node_id in _chosen(context, request):
        gone |= dict.fromkeys(await _command(context, node_id, {"do": "clear", "id": rule_id}))
    return list(gone)


def _chosen(context: Context, request: Request) -> list[NodeId]:
    """The brokers that the request is about. Raises Problem 404 `broker-id-not-registered`."""
    if query_text(request, "broker") is None:
        return [info.node_id for info in serving_brokers(context.broker.image)]
    return [_alive(context, query_integer(request, "broker", maximum=INT32_MAX))]


def _alive(context: Context, node_id: int) -> NodeId:
    alive = [info.node_id for info in serving_brokers(context.broker.image)]
    if node_id not in alive:
        known = ", ".join(map(str, alive))
        raise Problem(404, "broker-id-not-registered", f"broker {node_id} is not alive", f"brokers are {known}")
    return node_id


async def _command(
    context: Context, node_id: NodeId, wanted: Mapping[str, object], *, timeout_s: float = _ASK_SECONDS
) -> Any:
    """Ask one broker. Raises Problem with the slug and message of its refusal."""
    fields: dict[str, object] = {
        "request_data": COMMAND + json.dumps(wanted).encode(),
        "request_principal": None,
        "client_host_address": b"",
    }
    found = await context.broker_client.ask(ENVELOPE, fields, node_id=node_id, timeout_s=timeout_s)
    said = json.loads(found.response_data or b"{}")
    if found.error_code == ErrorCode.none:
        return said["result"]
    error = said["error"]
    raise Problem(_STATUS.get(error["code"], 400), error["code"], error["message"], error["why"])


_CLEARED: Final = record({"cleared": listing(TEXT)})

ROUTES: Final = Routes("Administration")


@ROUTES.add(
    "GET /api/faults",
    "The faults that tests injected into brokers, with their counts",
    guard="admin",
    parameters=(_BROKER,),
    answers={200: Answer("each broker's faults, oldest first", record({"faults": listing(_LISTED)}))},
    description="`calls` are the requests that matched, `hits` those that the fault acted on; each broker counts alone.",
)
async def list_faults(context: Context, request: Request) -> Response:
    """The rules of each broker with their counts."""
    found = [
        {"node_id": node_id, **rule}
        for node_id in _chosen(context, request)
        for rule in await _command(context, node_id, {"do": "list"})
    ]
    return answer({"faults": found})


@ROUTES.add(
    "POST /api/faults",
    "Inject a fault, for tests of Kafka clients",
    guard="admin",
    parameters=(_BROKER,),
    body=Body(_BODY, {"fault": "inject_error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}),
    answers={201: Answer("the fault's id, and the brokers that have it", record({"id": TEXT, "brokers": NODES}))},
    description="The brokers need `yak.fault.injection.enable=true`; others answer 409 `faults-off`. A fault stays until it is "
    "cleared or its broker restarts. docs/testing.md describes the fields.",
)
async def add_fault(context: Context, request: Request) -> Response:
    """Add a rule to all brokers, or to none."""
    async with json_body(context, request, hint=_HINT) as body:
        fields = checked(body, _BODY, hint=_HINT)
    rule = {"id": os.urandom(_ID_BYTES).hex(), **fields}
    named = fields.get("broker")
    brokers = _chosen(context, request) if named is None else [_alive(context, named)]
    await add_to_all(context, rule, brokers)
    return answer({"id": rule["id"], "brokers": brokers}, 201)


@ROUTES.add(
    "DELETE /api/faults",
    "Clear all faults",
    guard="admin",
    parameters=(_BROKER,),
    answers={200: Answer("the ids of the cleared faults", _CLEARED)},
)
async def clear_faults(context: Context, request: Request) -> Response:
    """Remove all rules."""
    return answer({"cleared": await _clear(context, request, None)})


@ROUTES.add(
    "DELETE /api/faults/{id}",
    "Clear one fault",
    guard="admin",
    parameters=(Parameter("id", _NAME, "the fault's id", where="path"), _BROKER),
    answers={200: Answer("the id of the cleared fault", _CLEARED)},
)
async def clear_fault(context: Context, request: Request) -> Response:
    """Remove one rule."""
    rule_id = request.path_params["id"]
    gone = await _clear(context, request, rule_id)
    if not gone:
        raise Problem(404, "no-fault", f"there is no fault {rule_id[:TEXT_LENGTH_MAX]!r}", "GET /api/faults lists them")
    return answer({"cleared": gone})
