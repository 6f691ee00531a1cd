"""Records of the metadata log as JSON, with the field names of KRaft's records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yak.cluster.payload import BadRecord
from yak.cluster.records import (
    TOKEN,
    USER,
    BrokerChange,
    BrokerState,
    ChangedPartition,
    Cluster,
    Config,
    ControllerChange,
    NewPartition,
    OldExternalBroker,
    PartitionChange,
    Partitions,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    Snapshot,
    Topic,
    UnregisterBroker,
    parse,
)
from yak.ports.metadata_store import TailedRecord
from yak.views.metadata_json import HIDDEN, PLAINTEXT, STATUS, Json, seconds

_SECRET = (USER, TOKEN)
"""Resource types whose configs are never disclosed."""


def payload_json(record: TailedRecord) -> Json:
    """A record's payload, without the credentials of users and of delegation tokens."""
    payload = dict(record.payload)
    if payload.get("resource_type") in _SECRET:
        configs = payload.get("configs")
        payload["configs"] = dict.fromkeys(configs, HIDDEN) if isinstance(configs, dict) else HIDDEN
    for name in ("user_credentials", "delegation_tokens"):
        if name in payload:
            payload[name] = HIDDEN
    return payload


def record_json(record: TailedRecord) -> Json:
    """A record's offset, time, kind, hash and content; an unreadable record, from a newer YAK, keeps its payload."""
    try:
        content = parse(record)
        fields = _FIELDS[type(content)](content)
    except BadRecord:
        fields = payload_json(record)
    return {
        "offset": record.offset,
        "timestamp": seconds(record.timestamp_ms),
        "kind": str(record.kind),
        "hash": record.chain_hash,
        "record": fields,
    }


def _cluster(content: Cluster) -> Json:
    return {"clusterId": content.cluster_id, "incarnation": content.incarnation, "internalUUID": content.incarnation_id}


def _register(content: RegisterBroker) -> Json:
    return {
        "brokerId": content.node_id,
        "brokerHost": content.host,
        "brokerPort": content.port,
        "securityProtocol": PLAINTEXT,
        "brokerStatus": STATUS[BrokerState.FENCED],
        "rackId": content.rack,
        "epoch": content.broker_epoch,
        "internalUUID": content.boot_id,
        "guest": False,
        "role": content.role,
        "httpPort": content.http_port,
    }


def _unregister(content: UnregisterBroker) -> Json:
    return {"brokerId": content.node_id, "epoch": content.broker_epoch, "brokerStatus": STATUS[BrokerState.CLOSED]}


def _broker_change(content: BrokerChange) -> Json:
    return {
        "brokerId": content.node_id,
        "epoch": content.broker_epoch,
        "brokerStatus": STATUS[content.state],
        "state": content.state.value,
        "guest": False,
    }


def _topic(content: Topic) -> Json:
    fields: Json = {"name": content.name, "topicUUID": str(content.topic_id), "numPartitions": content.partitions}
    return fields if content.configs is None else {**fields, "configs": dict(content.configs)}


def _state(content: NewPartition | ChangedPartition) -> Json:
    return {
        "ISR": [member.node_id for member in content.isr],
        "leader": content.leader,
        "leaderEpoch": content.leader_epoch,
        "partitionEpoch": content.partition_epoch,
    }


def _partitions(content: Partitions) -> Json:
    return {
        "partitions": [
            {
                "partitionId": new.partition,
                "topicUUID": str(content.topic_id),
                "replicas": list(new.replicas),
                "addingReplicas": [],
                "removingReplicas": [],
                **_state(new),
            }
            for new in content.partitions
        ]
    }


def _partition_change(content: PartitionChange) -> Json:
    return {
        "partitions": [
            {
                "partitionId": change.partition,
                "topicUUID": str(change.topic_id),
                "replicas": None if change.replicas is None else list(change.replicas),
                "addingReplicas": list(change.adding),
                "removingReplicas": list(change.removing),
                **_state(change),
                "unclean": change.unclean,
            }
            for change in content.changes
        ]
    }


def _config(content: Config) -> Json:
    configs = dict.fromkeys(content.configs, HIDDEN) if content.resource_type in _SECRET else dict(content.configs)
    return {"resourceType": content.resource_type, "resourceName": content.resource_name, "configs": configs}


def _producer_ids(content: ProducerIds) -> Json:
    return {
        "brokerId": content.node_id,
        "brokerEpoch": content.broker_epoch,
        "producerId": content.first,
        "nextProducerId": content.next_producer_id,
    }


def _controller(content: ControllerChange) -> Json:
    return {
        "controllerId": content.controller_id,
        "controllerEpoch": content.controller_epoch,
        "brokerEpoch": content.broker_epoch,
    }


_FIELDS: dict[type, Callable[[Any], Json]] = {
    Cluster: _cluster,
    RegisterBroker: _register,
    UnregisterBroker: _unregister,
    BrokerChange: _broker_change,
    OldExternalBroker: lambda content: {"brokerId": content.node_id, "guest": True},
    Topic: _topic,
    RemoveTopic: lambda content: {"name": content.name, "topicUUID": str(content.topic_id)},
    Partitions: _partitions,
    PartitionChange: _partition_change,
    Config: _config,
    ProducerIds: _producer_ids,
    ControllerChange: _controller,
    Snapshot: lambda content: {"clusterId": content.content.get("cluster_id")},
}
