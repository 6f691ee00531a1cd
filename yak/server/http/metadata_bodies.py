"""Checks of the fields in the metadata service's bodies, and its JSON answers."""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from yak.broker.broker import Broker
from yak.cluster.records import BrokerState
from yak.server.http.answers import answer
from yak.server.http.bodies import kind_of
from yak.server.http.problems import Problem
from yak.server.http.route import Schema

NODE_ID_MAX: Final = 2**31 - 1
HOST_CHARACTERS_MAX: Final = 255
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's."""
_HOST: Final = re.compile(r"[!-~]+", re.ASCII)

Body = Mapping[str, Any]


def wrong(name: str, value: Any, wanted: str, hint: str) -> Problem:
    """The problem for a field with an invalid value."""
    shown = f"is {kind_of(value)}" if not isinstance(value, str | int | float) else f"is {str(value)[:64]!r}"
    return Problem(400, "bad-body", f"{name} {shown}, not {wanted}", hint)


def integer(body: Body, name: str, *, minimum: int, maximum: int, hint: str) -> int:
    """A required whole number. Raises Problem 400 `bad-body`."""
    if name not in body:
        raise Problem(400, "bad-body", f"{name} is missing", hint)
    value = body[name]
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise wrong(name, value, f"a whole number from {minimum} to {maximum}", hint)
    return value


def optional_integer(body: Body, name: str, *, minimum: int, maximum: int, hint: str) -> int | None:
    """A whole number that may be absent or null. Raises Problem 400 `bad-body`."""
    return None if body.get(name) is None else integer(body, name, minimum=minimum, maximum=maximum, hint=hint)


def text(body: Body, name: str, *, hint: str) -> str:
    """A required string that is not empty. Raises Problem 400 `bad-body`."""
    if name not in body:
        raise Problem(400, "bad-body", f"{name} is missing", hint)
    value = body[name]
    if not isinstance(value, str) or not value:
        raise wrong(name, value, "a string that is not empty", hint)
    return value


def host(body: Body, name: str, *, hint: str) -> str:
    """A host name or address, without blanks. Raises Problem 400 `bad-body`."""
    value = text(body, name, hint=hint)
    if len(value) > HOST_CHARACTERS_MAX or not _HOST.fullmatch(value):
        raise wrong(name, value, f"a host name of at most {HOST_CHARACTERS_MAX} characters", hint)
    return value


def rack(body: Body, name: str, *, hint: str) -> str | None:
    """A rack, or None when it is absent or null. Raises Problem 400 `bad-body`."""
    if body.get(name) is None:
        return None
    value = text(body, name, hint=hint)
    if len(value) > HOST_CHARACTERS_MAX:
        raise wrong(name, value, f"a string of at most {HOST_CHARACTERS_MAX} characters", hint)
    return value


def security_protocol(body: Body, name: str, *, hint: str) -> str:
    """One of Kafka's four security protocols. Raises Problem 400 `bad-body`."""
    value = body[name]
    if not isinstance(value, str) or value not in SECURITY_PROTOCOLS:
        raise wrong(name, value, f"one of {', '.join(SECURITY_PROTOCOLS)}", hint)
    return value


def identifier(body: Body, name: str, *, hint: str) -> uuid.UUID:
    """A UUID other than zero. Raises Problem 400 `bad-body`."""
    value = text(body, name, hint=hint)
    try:
        found = uuid.UUID(value)
    except ValueError:
        raise wrong(name, value, "a UUID", hint) from None
    if found.int == 0:
        raise wrong(name, value, "a UUID other than zero", hint)
    return found


def require_store(broker: Broker) -> None:
    """Raises Problem 503 `metadata-store-unavailable` when metadata cannot be changed now; no request has been sent yet."""
    refusal = broker.metadata.lifecycle.refusal()
    if refusal is not None:
        raise Problem(
            503, "metadata-store-unavailable", refusal.message or "metadata cannot be changed now", "try again"
        )


def json_answer(content: Any, status: int = 200) -> Response:
    """A small JSON answer, rendered on the event loop."""
    return answer(content, status)


def an_object(properties: Mapping[str, Any], *optional: str) -> Schema:
    """An object with these properties, all required but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": dict(properties)}


def a_body(properties: Mapping[str, Any], *required: str) -> Schema:
    """A body with these properties and no others, some of them required."""
    return {"type": "object", "required": list(required), "properties": dict(properties), "additionalProperties": False}


def a_list(items: Schema) -> Schema:
    """A list of these items."""
    return {"type": "array", "items": items}


COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
SECONDS: Final[Schema] = {"type": "number", "minimum": 0, "description": "seconds since 1970"}
NODE_ID: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": NODE_ID_MAX}
NODES: Final[Schema] = a_list({"type": "integer"})
UUID: Final[Schema] = {"type": "string", "format": "uuid"}
CONFIGS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
PLACE: Final[Mapping[str, Schema]] = {
    "brokerHost": {"type": "string", "minLength": 1, "maxLength": HOST_CHARACTERS_MAX, "pattern": "^[!-~]+$"},
    "brokerPort": {"type": "integer", "minimum": 1, "maximum": 65535},
    "securityProtocol": {"type": "string", "enum": list(SECURITY_PROTOCOLS)},
    "rackId": {"type": ["string", "null"], "minLength": 1, "maxLength": HOST_CHARACTERS_MAX},
}
BROKER: Final = an_object(
    {
        "brokerId": {"type": "integer"},
        "brokerHost": {"type": "string"},
        "brokerPort": {"type": "integer"},
        "securityProtocol": {"type": "string"},
        "brokerStatus": {"enum": ["ALIVE", "FENCED", "CLOSED"]},
        "state": {"enum": [each.value for each in BrokerState]},
        "rackId": {"type": ["string", "null"]},
        "epoch": COUNT,
        "internalUUID": {"type": "string"},
        "guest": {"type": "boolean", "description": "an external broker, registered here"},
        "timestamp": SECONDS,
    }
)
TOPIC: Final = an_object(
    {"name": {"type": "string"}, "topicUUID": UUID, "numPartitions": COUNT, "configs": CONFIGS, "timestamp": SECONDS}
)
PARTITION: Final = an_object(
    {
        "partitionId": COUNT,
        "topicUUID": UUID,
        "topicName": {"type": "string"},
        "replicas": NODES,
        "ISR": NODES,
        "addingReplicas": NODES,
        "removingReplicas": NODES,
        "leader": {"type": "integer", "minimum": -1},
        "leaderEpoch": COUNT,
        "partitionEpoch": COUNT,
        "timestamp": SECONDS,
    }
)
WHOLE_TOPIC: Final = an_object({**TOPIC["properties"], "partitions": a_list(PARTITION)})
PRODUCER_BLOCK: Final = an_object(
    {
        "brokerId": {"type": "integer"},
        "brokerEpoch": COUNT,
        "producerId": COUNT,
        "nextProducerId": COUNT,
        "timestamp": SECONDS,
    }
)
PRODUCER: Final = an_object(
    {"brokerId": NODE_ID, "brokerEpoch": COUNT, "producerId": COUNT, "producerEpoch": COUNT, "timestamp": SECONDS}
)
_OFFICE: Final = {
    "clusterId": {"type": "string"},
    "incarnation": COUNT,
    "controllerId": {"type": "integer", "minimum": -1},
    "controllerEpoch": COUNT,
}
_FOR_CLIENTS: Final = {"brokers": a_list(BROKER), "topics": a_list(TOPIC), "partitions": a_list(PARTITION)}
_FOR_BROKERS: Final = {
    "producers": a_list(PRODUCER_BLOCK),
    "brokerConfigs": {"type": "object", "additionalProperties": CONFIGS},
    "groupConfigs": {"type": "object", "additionalProperties": CONFIGS},
    "quotas": {"type": "object", "additionalProperties": CONFIGS},
    "acls": {"type": "object", "additionalProperties": a_list({"type": "string"})},
}
_CHANGES: Final = {
    "full": {"type": "boolean", "description": "the full state instead of changes"},
    "offset": COUNT,
    "timestamp": {**SECONDS, "description": "the time for the next request, so that no change is missed"},
    **_FOR_CLIENTS,
    "removedTopics": a_list(an_object({"name": {"type": "string"}, "topicUUID": UUID, "timestamp": SECONDS})),
}
CLIENT_CHANGES: Final = an_object(_CHANGES)
BROKER_CHANGES: Final = an_object({**_CHANGES, **_OFFICE, **_FOR_BROKERS})
CLUSTER: Final = an_object({"offset": COUNT, "timestamp": SECONDS, **_OFFICE, **_FOR_CLIENTS, **_FOR_BROKERS})
LOG: Final = an_object(
    {
        "begin": COUNT,
        "end": COUNT,
        "next": {"type": ["integer", "null"], "description": "the next offset; null at the end"},
        "source": {"enum": ["store", "copy"]},
        "records": a_list(
            an_object(
                {
                    "offset": COUNT,
                    "timestamp": SECONDS,
                    "kind": {"type": "string"},
                    "hash": {"type": "string"},
                    "record": {"type": "object"},
                }
            )
        ),
    }
)
