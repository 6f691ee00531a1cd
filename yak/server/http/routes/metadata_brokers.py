"""The metadata service's brokers: the registered ones, and external brokers (ADR 0015)."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from yak.broker.apis import unregister_broker as unregister_broker_api
from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode
from yak.ids import NodeId
from yak.protocol.record_fields import INT32_MAX
from yak.server.http.answers import answer
from yak.server.http.bodies import checked, checked_integer, json_body
from yak.server.http.context import Context
from yak.server.http.external_brokers import ExternalBrokers, is_yak_id
from yak.server.http.metadata_bodies import BROKER, PLACE, SECONDS, UUID, identifier, require_store
from yak.server.http.problems import Problem, bad_body, kafka_problem
from yak.server.http.route import Answer, Body, Parameter, Routes, Schema
from yak.server.http.schemas import NODE_ID, OFFSET, closed, listing, or_null, record
from yak.views.metadata_json import PLAINTEXT, STATUS, ExternalBroker, broker_json, brokers_of, known_up_to_ms, seconds

_REGISTER_HINT: Final = 'send {"brokerId": 101, "brokerHost": "10.0.0.1", "brokerPort": 9092}'
_UPDATE_HINT: Final = 'send {"brokerId": 101} and what changes: brokerHost, brokerPort, securityProtocol, rackId'
_PLACE_FIELDS: Final = {
    "brokerHost": "host",
    "brokerPort": "port",
    "securityProtocol": "security_protocol",
    "rackId": "rack",
}
"""The fields of an address, and their names in the registry."""
_ONLY_EXTERNAL: Final = "a YAK broker registers itself when it starts: yak serve --advertise, --rack"


def _given(raw: Any, schema: Schema, hint: str) -> Mapping[str, Any]:
    """The fields of a body: null counts as absent, except for a rack, which null removes. Raises Problem 400."""
    body = checked(raw, schema, hint=hint, except_for=frozenset())
    return {name: value for name, value in body.items() if value is not None or name == "rackId"}


def _place(body: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields of the address, by their names in the registry."""
    found = {ours: body[name] for name, ours in _PLACE_FIELDS.items() if name in body}
    return found | {"port": int(found["port"])} if "port" in found else found


def _closed(broker: ExternalBroker) -> ExternalBroker:
    if broker.state is BrokerState.CLOSED:
        return broker
    return replace(broker, broker_epoch=broker.broker_epoch + 1, state=BrokerState.CLOSED)


def _unknown(node_id: NodeId) -> Problem:
    return Problem(404, "unknown-broker", f"broker {node_id} is not registered", "GET /broker_mgmt/0 lists all")


def _duplicate(message: str, hint: str) -> Problem:
    return Problem(409, "duplicate-broker-registration", message, hint)


_REGISTRATION: Final = closed(
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
    **closed(
        {
            "brokerId": NODE_ID,
            **{name: or_null(schema) for name, schema in PLACE.items()},
            "brokerStatus": {"enum": ["ALIVE", "CLOSED", None]},
            "epoch": or_null(OFFSET),
        },
        "brokerId",
    ),
    "minProperties": 2,
}
_BROKERS: Final = record({"brokers": listing(BROKER), "timestamp": SECONDS})

ROUTES: Final = Routes("Metadata service: brokers")


@ROUTES.add(
    "POST /register_broker",
    "Register an external broker",
    guard="change",
    body=Body(_REGISTRATION, {"brokerId": 101, "brokerHost": "10.0.0.1", "brokerPort": 9092, "rackId": "a"}),
    answers={201: Answer("it is listed", BROKER), 200: Answer("this registration exists already", BROKER)},
    description="An external broker gets no partitions. Repeating a registration with its `internalUUID` changes "
    "nothing. The id of a present or former YAK broker is rejected.",
)
async def register_broker(context: Context, request: Request) -> Response:
    """Register an external broker."""
    async with json_body(context, request, hint=_REGISTER_HINT) as raw:
        body = _given(raw, _REGISTRATION, _REGISTER_HINT)
    node_id = int(body["brokerId"])
    place = {"rack": None, "security_protocol": PLAINTEXT} | _place(body)
    boot_id = str(uuid.uuid4())
    if "internalUUID" in body:
        boot_id = str(identifier("internalUUID", body["internalUUID"], hint="leave it out to have one generated"))
    require_store(context.broker)
    status = 201

    def register(old: ExternalBroker | None) -> ExternalBroker:
        nonlocal status
        if is_yak_id(context.broker.image, node_id):
            raise _duplicate(f"{node_id} is or was the id of a YAK broker", "take another brokerId")
        epoch = 0 if old is None else old.broker_epoch
        new = ExternalBroker(node_id, epoch + 1, boot_id, state=BrokerState.ACTIVE, **place)
        if old is None:
            return new
        if old == replace(new, broker_epoch=epoch):
            status = 200
            return old
        if old.state is BrokerState.ACTIVE:
            raise _duplicate(f"broker {node_id} is registered", "POST /update_broker changes it")
        if old.boot_id == boot_id:
            message = f"this registration of broker {node_id} was closed"
            raise _duplicate(message, "send another internalUUID, or none")
        return new

    made = await context.part(ExternalBrokers).change(node_id, register)
    return answer(broker_json(made), status)


@ROUTES.add(
    "GET /get_active_brokers", "The brokers that are ALIVE", answers={200: Answer("YAK brokers and others", _BROKERS)}
)
async def get_active_brokers(context: Context, _request: Request) -> Response:
    """The brokers that are ALIVE."""
    broker = context.broker
    external = await context.part(ExternalBrokers).read()
    brokers = brokers_of(broker.image, external.brokers.values())
    alive = [broker_json(each) for each in brokers if STATUS[each.state] == "ALIVE"]
    is_current = broker.metadata.lifecycle.state is LifecycleState.ACTIVE
    known_ms = known_up_to_ms(broker.image, context.shell.clock.wall_ms(), is_current=is_current)
    return answer({"brokers": alive, "timestamp": seconds(min(known_ms, external.at_ms))})


@ROUTES.add(
    "POST /update_broker",
    "Update an external broker",
    guard="change",
    body=Body(_UPDATE, {"brokerId": 101, "brokerPort": 9093}),
    answers={200: Answer("it is updated, and its epoch is increased", BROKER)},
    description="With `epoch`: only if it matches, otherwise 409.",
)
async def update_broker(context: Context, request: Request) -> Response:
    """Change an external broker's registration; each change gets a new epoch."""
    async with json_body(context, request, hint=_UPDATE_HINT) as raw:
        body = _given(raw, _UPDATE, _UPDATE_HINT)
    node_id, epoch, status = int(body["brokerId"]), body.get("epoch"), body.get("brokerStatus")
    changes = [name for name in _PLACE_FIELDS if name in body]
    if not changes and status is None:
        raise bad_body("the request has no change", _UPDATE_HINT)
    if changes and status == "CLOSED":
        raise bad_body(f"{changes[0]} cannot change while the broker is closed", "close it in a request of its own")
    place = _place(body)
    require_store(context.broker)

    def change(old: ExternalBroker | None) -> ExternalBroker:
        if is_yak_id(context.broker.image, node_id):
            raise Problem(409, "yak-broker", f"broker {node_id} is a YAK broker", _ONLY_EXTERNAL)
        if old is None:
            raise _unknown(node_id)
        if epoch is not None and old.broker_epoch != epoch:
            message = f"broker {node_id} was changed by another request"
            hint = f"its epoch is {old.broker_epoch}: check the broker, then send this epoch"
            raise Problem(409, "stale-broker-epoch", message, hint)
        if status == "CLOSED":
            return _closed(old)
        if old.state is BrokerState.CLOSED and status is None:
            raise Problem(
                409, "closed", f"broker {node_id} is closed", 'add "brokerStatus": "ALIVE", or register it again'
            )
        return replace(old, broker_epoch=old.broker_epoch + 1, state=BrokerState.ACTIVE, **place)

    return answer(broker_json(await context.part(ExternalBrokers).change(node_id, change)))


@ROUTES.add(
    "DELETE /unregister_broker/{id}",
    "Close a broker; its record stays readable",
    guard="change",
    parameters=(Parameter("id", NODE_ID, "the broker", where="path"),),
    answers={200: Answer("it is CLOSED", BROKER)},
    description="An external broker, or a dead YAK broker that will not return.",
)
async def unregister_broker(context: Context, request: Request) -> Response:
    """Close an external broker, or unregister a YAK broker that is gone for good; its record stays readable."""
    node_id = checked_integer("id", request.path_params["id"], maximum=INT32_MAX)
    image = context.broker.image
    former = image.former.get(node_id)
    if former is not None and node_id not in image.brokers:
        return answer(broker_json(former))
    broker = image.brokers.get(node_id)
    if broker is None:
        require_store(context.broker)

        def close(old: ExternalBroker | None) -> ExternalBroker:
            if old is None or is_yak_id(context.broker.image, node_id):
                raise _unknown(node_id)
            return _closed(old)

        return answer(broker_json(await context.part(ExternalBrokers).change(node_id, close)))
    if STATUS[broker.state] == "ALIVE":
        raise Problem(
            409, "broker-alive", f"broker {node_id} is alive", "stop it first: POST /api/brokers/{id}/shutdown"
        )
    require_store(context.broker)
    result = await context.broker_client.ask(unregister_broker_api.KEY, {"broker_id": node_id})
    code = ErrorCode(result.error_code)
    closed = context.broker.image.former.get(node_id)
    if code is ErrorCode.none and closed is not None:
        return answer(broker_json(closed))
    if code is ErrorCode.invalid_request:
        raise Problem(409, "broker-alive", f"broker {node_id} is alive again", "stop it first")
    raise kafka_problem(code, f"broker {node_id}")
