"""The metadata service: the schemas of its bodies and answers, and what its handlers check beside them."""

import uuid
from collections.abc import Mapping
from typing import Final

from yak.broker.broker import Broker
from yak.cluster.records import BrokerState
from yak.server.http.problems import Problem, bad_body
from yak.server.http.route import Schema
from yak.server.http.schemas import NODE_ID, NODES, NUMBER, OFFSET, TEXT, TEXT_OR_NULL, listing, or_null, record

_HOST_CHARACTERS_MAX: Final = 255


def identifier(name: str, value: str, *, hint: str) -> uuid.UUID:
    """A UUID other than zero. Raises Problem 400 `bad-body`."""
    try:
        found = uuid.UUID(value)
    except ValueError:
        found = uuid.UUID(int=0)
    if found.int == 0:
        raise bad_body(f"{name} is {value[:64]!r}, not a UUID other than zero", hint)
    return found


def require_store(broker: Broker) -> None:
    """Raises Problem 503 `metadata-store-unavailable` when metadata cannot be changed now; no request has been sent yet."""
    refusal = broker.metadata.lifecycle.refusal()
    if refusal is not None:
        raise Problem(
            503, "metadata-store-unavailable", refusal.message or "metadata cannot be changed now", "try again"
        )


SECONDS: Final[Schema] = {"type": "number", "minimum": 0, "description": "seconds since 1970"}
UUID: Final[Schema] = {"type": "string", "format": "uuid"}
CONFIGS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
PLACE: Final[Mapping[str, Schema]] = {
    "brokerHost": {"type": "string", "minLength": 1, "maxLength": _HOST_CHARACTERS_MAX, "pattern": "^[!-~]+$"},
    "brokerPort": {"type": "integer", "minimum": 1, "maximum": 65535},
    "securityProtocol": {"type": "string", "enum": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
    "rackId": {"type": ["string", "null"], "minLength": 1, "maxLength": _HOST_CHARACTERS_MAX},
}
BROKER: Final = record(
    {
        "brokerId": NUMBER,
        "brokerHost": TEXT,
        "brokerPort": NUMBER,
        "securityProtocol": TEXT,
        "brokerStatus": {"enum": ["ALIVE", "FENCED", "CLOSED"]},
        "state": {"enum": [each.value for each in BrokerState]},
        "rackId": TEXT_OR_NULL,
        "epoch": OFFSET,
        "internalUUID": TEXT,
        "guest": {"type": "boolean", "description": "an external broker, registered here"},
        "timestamp": SECONDS,
    }
)
TOPIC: Final = record(
    {"name": TEXT, "topicUUID": UUID, "numPartitions": OFFSET, "configs": or_null(CONFIGS), "timestamp": SECONDS}
)
PARTITION: Final = record(
    {
        "partitionId": OFFSET,
        "topicUUID": UUID,
        "topicName": TEXT,
        "replicas": NODES,
        "ISR": NODES,
        "addingReplicas": NODES,
        "removingReplicas": NODES,
        "leader": {"type": "integer", "minimum": -1},
        "leaderEpoch": OFFSET,
        "partitionEpoch": OFFSET,
        "timestamp": SECONDS,
    }
)
WHOLE_TOPIC: Final = record({**TOPIC["properties"], "partitions": listing(PARTITION)})
PRODUCER_BLOCK: Final = record(
    {"brokerId": NUMBER, "brokerEpoch": OFFSET, "producerId": OFFSET, "nextProducerId": OFFSET, "timestamp": SECONDS}
)
PRODUCER: Final = record(
    {"brokerId": NODE_ID, "brokerEpoch": OFFSET, "producerId": OFFSET, "producerEpoch": OFFSET, "timestamp": SECONDS}
)
_CONTROLLER: Final = {
    "clusterId": TEXT,
    "incarnation": OFFSET,
    "controllerId": {"type": "integer", "minimum": -1},
    "controllerEpoch": OFFSET,
}
_FOR_CLIENTS: Final = {"brokers": listing(BROKER), "topics": listing(TOPIC), "partitions": listing(PARTITION)}
_FOR_BROKERS: Final = {
    "producers": listing(PRODUCER_BLOCK),
    "brokerConfigs": {"type": "object", "additionalProperties": CONFIGS},
    "groupConfigs": {"type": "object", "additionalProperties": CONFIGS},
    "quotas": {"type": "object", "additionalProperties": CONFIGS},
    "acls": {"type": "object", "additionalProperties": listing(TEXT)},
}
_CHANGES: Final = {
    "full": {"type": "boolean", "description": "the full state instead of changes"},
    "offset": OFFSET,
    "timestamp": {**SECONDS, "description": "the time for the next request, so that no change is missed"},
    **_FOR_CLIENTS,
    "removedTopics": listing(record({"name": TEXT, "topicUUID": UUID, "timestamp": SECONDS})),
}
CLIENT_CHANGES: Final = record(_CHANGES)
BROKER_CHANGES: Final = record({**_CHANGES, **_CONTROLLER, **_FOR_BROKERS})
CLUSTER: Final = record({"offset": OFFSET, "timestamp": SECONDS, **_CONTROLLER, **_FOR_CLIENTS, **_FOR_BROKERS})
LOG: Final = record(
    {
        "begin": OFFSET,
        "end": OFFSET,
        "next": {"type": ["integer", "null"], "description": "the next offset; null at the end"},
        "source": {"enum": ["store", "copy"]},
        "records": listing(
            record({"offset": OFFSET, "timestamp": SECONDS, "kind": TEXT, "hash": TEXT, "record": {"type": "object"}})
        ),
    }
)
