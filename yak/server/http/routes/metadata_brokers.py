"""The metadata service's brokers: the registered ones, and external brokers (ADR 0011)."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.external_brokers import SECURITY_PROTOCOLS, Address, address_of
from yak.cluster.image import ExternalBrokerInfo
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode
from yak.ids import BrokerEpoch, NodeId
from yak.server.http import metadata_bodies as read
from yak.server.http.bodies import INT64_MAX, checked_integer, fields_of, json_body, refuse_unknown_query
from yak.server.http.context import Context
from yak.server.http.metadata_bodies import NODE_ID_MAX, json_answer, require_store
from yak.server.http.metadata_schemas import BROKER, COUNT, NODE_ID, PLACE, SECONDS, UUID, a_body, a_list, an_object
from yak.server.http.problems import Problem, kafka_problem
from yak.server.http.route import Answer, Body, Parameter, Route
from yak.server.http.schemas import or_null
from yak.views.metadata_json import STATUS, broker_json, brokers_of, seconds, told_up_to_ms

_BROKER_REGISTRATION: Final = 62
_REGISTRATION_VERSION: Final = 4
_UNREGISTER_BROKER: Final = 64
_TAG: Final = "Metadata service: brokers"
_TRY_SECONDS: Final = 3.0
"""How long a change without an epoch is retried when other changes to the broker conflict."""
_AGAIN_SECONDS: Final = 0.05
_REGISTER_HINT: Final = 'send {"brokerId": 101, "brokerHost": "10.0.0.1", "brokerPort": 9092}'
_UPDATE_HINT: Final = 'send {"brokerId": 101} and what changes: brokerHost, brokerPort, securityProtocol, rackId'
_WHERE: Final = ("brokerHost", "brokerPort", "securityProtocol", "rackId")
_ONLY_GUESTS: Final = "a YAK broker registers itself when it starts: yak serve --advertise, --rack"


async def register_broker(context: Context, request: Request) -> Response:
    """Register an external broker."""
    refuse_unknown_query(request, ())
    async with json_body(context, request, hint=_REGISTER_HINT) as raw:
        body = _given(fields_of(raw, ("brokerId", *_WHERE, "brokerStatus", "internalUUID"), hint=_REGISTER_HINT))
    node_id = _node_id(body, _REGISTER_HINT)
    for name in ("brokerHost", "brokerPort"):
        if name not in body:
            raise Problem(400, "bad-body", f"{name} is missing", _REGISTER_HINT)
    place = _place(body, Address("", 0), _REGISTER_HINT)
    if body.get("brokerStatus", "ALIVE") != "ALIVE":
        raise read.wrong("brokerStatus", body["brokerStatus"], "ALIVE", "DELETE /unregister_broker/{id} closes one")
    boot_id = uuid.uuid4()
    if "internalUUID" in body:
        boot_id = read.identifier(body, "internalUUID", hint="leave it out to have one generated")
    require_store(context.broker)
    before = context.broker.image.external_brokers.get(node_id)
    code = await _ask_registration(context, node_id, boot_id, place)
    if code is not ErrorCode.none:
        raise _not_registered(context, node_id, boot_id, code)
    guest = context.broker.image.external_brokers[node_id]
    is_repeat = before is not None and before.state is BrokerState.ACTIVE
    return json_answer(broker_json(guest), 200 if is_repeat else 201)


async def update_broker(context: Context, request: Request) -> Response:
    """Change an external broker's registration; each change gets a new epoch."""
    refuse_unknown_query(request, ())
    async with json_body(context, request, hint=_UPDATE_HINT) as raw:
        body = _given(fields_of(raw, ("brokerId", *_WHERE, "brokerStatus", "epoch"), hint=_UPDATE_HINT))
    node_id = _node_id(body, _UPDATE_HINT)
    epoch = read.optional_integer(body, "epoch", minimum=0, maximum=INT64_MAX, hint="the known one, or none")
    status = body.get("brokerStatus")
    if status not in (None, "ALIVE", "CLOSED"):
        raise read.wrong("brokerStatus", status, "ALIVE or CLOSED", _UPDATE_HINT)
    changes = [name for name in _WHERE if name in body]
    if not changes and status is None:
        raise Problem(400, "bad-body", "the request has no change", _UPDATE_HINT)
    if changes and status == "CLOSED":
        raise Problem(
            400,
            "bad-body",
            f"{changes[0]} cannot change while the broker is closed",
            "close it in a request of its own",
        )
    _place(body, Address("", 0), _UPDATE_HINT)
    require_store(context.broker)

    async def change(guest: ExternalBrokerInfo) -> ErrorCode:
        if status == "CLOSED":
            return await _ask_close(context, node_id)
        if guest.state is BrokerState.CLOSED and status is None:
            raise Problem(
                409, "closed", f"broker {node_id} is closed", 'add "brokerStatus": "ALIVE", or register it again'
            )
        place = _place(body, address_of(guest), _UPDATE_HINT)
        return await _ask_registration(context, node_id, uuid.UUID(guest.boot_id), place, guest.broker_epoch)

    return json_answer(broker_json(await _changed(context, node_id, epoch, change)))


async def unregister_broker(context: Context, request: Request) -> Response:
    """Close an external broker, or unregister a YAK broker that is gone for good; its record stays readable."""
    refuse_unknown_query(request, ())
    node_id = checked_integer("id", request.path_params["id"], maximum=NODE_ID_MAX)
    image = context.broker.image
    former = image.former.get(node_id)
    if former is not None and node_id not in image.brokers:
        return json_answer(broker_json(former))
    broker = image.brokers.get(node_id)
    if broker is None and node_id not in image.external_brokers:
        raise _unknown(node_id)
    if broker is not None and STATUS[broker.state] == "ALIVE":
        raise Problem(
            409, "broker-alive", f"broker {node_id} is alive", "stop it first: POST /api/brokers/{id}/shutdown"
        )
    require_store(context.broker)
    if broker is None:

        async def close(_guest: ExternalBrokerInfo) -> ErrorCode:
            return await _ask_close(context, node_id)

        return json_answer(broker_json(await _changed(context, node_id, None, close)))
    code = await _ask_close(context, node_id)
    closed = context.broker.image.former.get(node_id)
    if code is ErrorCode.none and closed is not None:
        return json_answer(broker_json(closed))
    if code is ErrorCode.invalid_request:
        raise Problem(409, "broker-alive", f"broker {node_id} is alive again", "stop it first")
    raise kafka_problem(code, f"broker {node_id}")


async def get_active_brokers(context: Context, request: Request) -> Response:
    """The brokers that are ALIVE."""
    refuse_unknown_query(request, ())
    broker = context.broker
    shown = [broker_json(each) for each in brokers_of(broker.image) if STATUS[each.state] == "ALIVE"]
    is_current = broker.metadata.lifecycle.state is LifecycleState.ACTIVE
    told_ms = told_up_to_ms(broker.image, context.shell.clock.now_ms(), is_current=is_current)
    return json_answer({"brokers": shown, "timestamp": seconds(told_ms)})


# ------------------------------------------------------------------------------------------------------ helpers


def _given(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that are present: null counts as absent, except for a rack, which null removes."""
    return {name: value for name, value in body.items() if value is not None or name == "rackId"}


def _node_id(body: Mapping[str, Any], hint: str) -> NodeId:
    return read.integer(body, "brokerId", minimum=0, maximum=NODE_ID_MAX, hint=hint)


def _place(body: Mapping[str, Any], known: Address, hint: str) -> Address:
    """The address: the body's fields, otherwise the known ones. Raises Problem 400."""
    return Address(
        host=read.host(body, "brokerHost", hint=hint) if "brokerHost" in body else known.host,
        port=read.integer(body, "brokerPort", minimum=1, maximum=65535, hint=hint)
        if "brokerPort" in body
        else known.port,
        rack=read.rack(body, "rackId", hint=hint) if "rackId" in body else known.rack,
        security_protocol=read.security_protocol(body, "securityProtocol", hint=hint)
        if "securityProtocol" in body
        else known.security_protocol,
    )


async def _ask_registration(
    context: Context, node_id: NodeId, boot_id: uuid.UUID, place: Address, epoch: BrokerEpoch = -1
) -> ErrorCode:
    listener = {
        "name": place.security_protocol,
        "host": place.host,
        "port": place.port,
        "security_protocol": SECURITY_PROTOCOLS.index(place.security_protocol),
    }
    fields = {
        "broker_id": node_id,
        "cluster_id": context.broker.image.cluster_id,
        "incarnation_id": boot_id,
        "listeners": [listener],
        "features": [],
        "rack": place.rack,
        "is_migrating_zk_broker": False,
        "log_dirs": [],
        "previous_broker_epoch": epoch,
    }
    answer = await context.broker_client.ask(_BROKER_REGISTRATION, fields, version=_REGISTRATION_VERSION)
    return ErrorCode(answer.error_code)


async def _ask_close(context: Context, node_id: NodeId) -> ErrorCode:
    answer = await context.broker_client.ask(_UNREGISTER_BROKER, {"broker_id": node_id})
    return ErrorCode(answer.error_code)


async def _changed(context: Context, node_id: NodeId, epoch: BrokerEpoch | None, change: Any) -> ExternalBrokerInfo:
    """The external broker after a compare-and-set on its epoch; retried unless the client named the epoch."""
    deadline = trio.current_time() + _TRY_SECONDS
    while True:
        image = context.broker.image
        guest = image.external_brokers.get(node_id)
        if guest is None:
            raise (
                Problem(409, "yak-broker", f"broker {node_id} is a YAK broker", _ONLY_GUESTS)
                if (node_id in image.brokers or node_id in image.former)
                else _unknown(node_id)
            )
        if epoch is not None and guest.broker_epoch != epoch:
            raise _stale(node_id, guest.broker_epoch)
        code: ErrorCode = await change(guest)
        if code is ErrorCode.none:
            now = context.broker.image.external_brokers.get(node_id)
            return guest if now is None else now
        if code is not ErrorCode.stale_broker_epoch:
            raise kafka_problem(code, f"broker {node_id}")
        if epoch is not None or trio.current_time() >= deadline:
            raise _stale(node_id, context.broker.image.external_brokers.get(node_id, guest).broker_epoch)
        await trio.sleep(_AGAIN_SECONDS)


def _unknown(node_id: NodeId) -> Problem:
    return Problem(404, "unknown-broker", f"broker {node_id} is not registered", "GET /broker_mgmt/0 lists all")


def _stale(node_id: NodeId, epoch: BrokerEpoch) -> Problem:
    words = f"broker {node_id} was changed by another request"
    return Problem(409, "stale-broker-epoch", words, f"its epoch is {epoch}: check the broker, then send this epoch")


def _not_registered(context: Context, node_id: NodeId, boot_id: uuid.UUID, code: ErrorCode) -> Problem:
    if code is ErrorCode.policy_violation:
        return Problem(
            409, "too-many-brokers", "the maximum number of external brokers is registered", "unregister unused ones"
        )
    if code is not ErrorCode.duplicate_broker_registration:
        return kafka_problem(code, f"broker {node_id}")
    guest = context.broker.image.external_brokers.get(node_id)
    slug = "duplicate-broker-registration"
    if guest is None:
        return Problem(409, slug, f"{node_id} is or was the id of a YAK broker", "take another brokerId")
    if guest.boot_id == str(boot_id) and guest.state is BrokerState.CLOSED:
        return Problem(
            409, slug, f"this registration of broker {node_id} was closed", "send another internalUUID, or none"
        )
    return Problem(409, slug, f"broker {node_id} is registered", "POST /update_broker changes it")


_REGISTRATION: Final = a_body(
    {
        "brokerId": NODE_ID,
        **PLACE,
        "securityProtocol": or_null(PLACE["securityProtocol"]),
        "brokerStatus": {"enum": ["ALIVE", None]},
        "internalUUID": or_null(UUID),
    },
    "brokerId",
    "brokerHost",
    "brokerPort",
)
_UPDATE: Final = {
    **a_body(
        {
            "brokerId": NODE_ID,
            **{name: or_null(schema) for name, schema in PLACE.items()},
            "brokerStatus": {"enum": ["ALIVE", "CLOSED", None]},
            "epoch": or_null(COUNT),
        },
        "brokerId",
    ),
    "minProperties": 2,
}
_BROKERS: Final = an_object({"brokers": a_list(BROKER), "timestamp": SECONDS})

ROUTES: Final = (
    Route(
        "POST",
        "/register_broker",
        register_broker,
        "Register an external broker",
        _TAG,
        guard="change",
        body=Body(_REGISTRATION, {"brokerId": 101, "brokerHost": "10.0.0.1", "brokerPort": 9092, "rackId": "a"}),
        answers={201: Answer("it is listed", BROKER), 200: Answer("this registration exists already", BROKER)},
        description="An external broker gets no partitions. Repeating a registration with its `internalUUID` changes "
        "nothing. The id of a present or former YAK broker is rejected.",
    ),
    Route(
        "GET",
        "/get_active_brokers",
        get_active_brokers,
        "The brokers that are ALIVE",
        _TAG,
        answers={200: Answer("YAK brokers and others", _BROKERS)},
    ),
    Route(
        "POST",
        "/update_broker",
        update_broker,
        "Update an external broker",
        _TAG,
        guard="change",
        body=Body(_UPDATE, {"brokerId": 101, "brokerPort": 9093}),
        answers={200: Answer("it is updated, and its epoch is increased", BROKER)},
        description="With `epoch`: only if it matches, otherwise 409.",
    ),
    Route(
        "DELETE",
        "/unregister_broker/{id}",
        unregister_broker,
        "Close a broker; its record stays readable",
        _TAG,
        guard="change",
        parameters=(Parameter("id", NODE_ID, "the broker", required=True, where="path"),),
        answers={200: Answer("it is CLOSED", BROKER)},
        description="An external broker, or a dead YAK broker that will not return.",
    ),
)
