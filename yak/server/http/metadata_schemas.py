"""JSON schemas of the metadata service: KRaft's names, times in seconds."""

from collections.abc import Mapping
from typing import Any, Final

from yak.server.http.metadata_bodies import HOST_CHARACTERS_MAX, NODE_ID_MAX, SECURITY_PROTOCOLS
from yak.server.http.route import Schema


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
