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
"""Resource types whose configs are shown nowhere."""


def shown_payload(record: TailedRecord) -> Json:
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
        fields = shown_payload(record)
    return {
        "offset": record.offset,
        "timestamp": seconds(record.timestamp_ms),
        "kind": str(record.kind),
        "hash": record.chain_hash,
        "record": fields,
    }


def _cluster(said: Cluster) -> Json:
    return {"clusterId": said.cluster_id, "incarnation": said.incarnation, "internalUUID": said.incarnation_id}


def _register(said: RegisterBroker) -> Json:
    return {
        "brokerId": said.node_id,
        "brokerHost": said.host,
        "brokerPort": said.port,
        "securityProtocol": PLAINTEXT,
        "brokerStatus": STATUS[BrokerState.FENCED],
        "rackId": said.rack,
        "epoch": said.broker_epoch,
        "internalUUID": said.boot_id,
        "guest": False,
        "role": said.role,
        "httpPort": said.http_port,
    }


def _unregister(said: UnregisterBroker) -> Json:
    return {"brokerId": said.node_id, "epoch": said.broker_epoch, "brokerStatus": STATUS[BrokerState.CLOSED]}


def _broker_change(said: BrokerChange) -> Json:
    return {
        "brokerId": said.node_id,
        "epoch": said.broker_epoch,
        "brokerStatus": STATUS[said.state],
        "state": said.state.value,
        "guest": False,
    }


def _topic(said: Topic) -> Json:
    fields: Json = {"name": said.name, "topicUUID": str(said.topic_id), "numPartitions": said.partitions}
    return fields if said.configs is None else {**fields, "configs": dict(said.configs)}


def _state(said: NewPartition | ChangedPartition) -> Json:
    return {
        "ISR": [member.node_id for member in said.isr],
        "leader": said.leader,
        "leaderEpoch": said.leader_epoch,
        "partitionEpoch": said.partition_epoch,
    }


def _partitions(said: Partitions) -> Json:
    return {
        "partitions": [
            {
                "partitionId": new.partition,
                "topicUUID": str(said.topic_id),
                "replicas": list(new.replicas),
                "addingReplicas": [],
                "removingReplicas": [],
                **_state(new),
            }
            for new in said.partitions
        ]
    }


def _partition_change(said: PartitionChange) -> Json:
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
            for change in said.changes
        ]
    }


def _config(said: Config) -> Json:
    configs = dict.fromkeys(said.configs, HIDDEN) if said.resource_type in _SECRET else dict(said.configs)
    return {"resourceType": said.resource_type, "resourceName": said.resource_name, "configs": configs}


def _producer_ids(said: ProducerIds) -> Json:
    return {
        "brokerId": said.node_id,
        "brokerEpoch": said.broker_epoch,
        "producerId": said.first,
        "nextProducerId": said.next_producer_id,
    }


def _controller(said: ControllerChange) -> Json:
    return {
        "controllerId": said.controller_id,
        "controllerEpoch": said.controller_epoch,
        "brokerEpoch": said.broker_epoch,
    }


_FIELDS: dict[type, Callable[[Any], Json]] = {
    Cluster: _cluster,
    RegisterBroker: _register,
    UnregisterBroker: _unregister,
    BrokerChange: _broker_change,
    OldExternalBroker: lambda said: {"brokerId": said.node_id, "guest": True},
    Topic: _topic,
    RemoveTopic: lambda said: {"name": said.name, "topicUUID": str(said.topic_id)},
    Partitions: _partitions,
    PartitionChange: _partition_change,
    Config: _config,
    ProducerIds: _producer_ids,
    ControllerChange: _controller,
    Snapshot: lambda said: {"clusterId": said.content.get("cluster_id")},
}
