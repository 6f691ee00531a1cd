"""DescribeConfigs (key 32, v1-4): the configs of each resource, with each value's source and meaning.

v1: sources and synonyms. v3: types and documentation. v4: flexible. A broker also shows the state of its metadata store
session as read-only configs (`yak.metadata.state` and others), so that any admin client can see it.

A topic has two more configs, described only when requested by name. `yak.partition.epochs`, "0:5,1:7", has the
partition epochs, which no Kafka API gives (from v4). `yak.damaged.offsets`, "1:4711", has the first offset known to be
damaged in this broker's own replica of a partition.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.acls.bindings import Operation
from yak.broker.call import Call, Fields, Now, Slices
from yak.broker.config_resources import (
    BrokerResource,
    GroupResource,
    Resource,
    TopicResource,
    check_resource,
    resource_of,
)
from yak.cluster.records import BrokerState
from yak.config.definitions import ConfigSource, ConfigType
from yak.config.describe import (
    ConfigRow,
    describe_broker,
    describe_default_broker,
    describe_group,
    describe_inherited,
    describe_topic,
)
from yak.errors import ErrorCode, PeerError
from yak.protocol.codec import encode_items
from yak.protocol.pace import Pace
from yak.protocol.response_encoder import EncodedItems

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 32, "DescribeConfigs", range(1, 5)
ABSENT = (
    "configs of client metrics: the defaults are described, as read-only",
    "levels of broker loggers: not supported",
    "min.insync.replicas as DYNAMIC_DEFAULT_BROKER_CONFIG, which Kafka 4.1 stores; YAK uses a broker's static value",
    "a resource that a request names more than once: INVALID_REQUEST",
)

_DOCUMENTATION_VERSION = 3
_LONG_STRINGS_VERSION = 4
"""Before v4 a string has at most 32,767 bytes, too few for the epochs of a few thousand partitions."""
_ROWS = ("results", "configs")
_Alike: TypeAlias = dict[Any, EncodedItems]
"""Encoded rows by a topic's overrides, or another resource's kind, and the requested names."""
_ROWS_OF_A_RESOURCE = 100
"""About how many elements the rows cost that no earlier resource of the request has."""
_PARTITION_EPOCHS = "yak.partition.epochs"
_DAMAGED_OFFSETS = "yak.damaged.offsets"
_VIEWS = {
    "yak.broker.epoch": ("broker_epoch", "The broker epoch: the metadata offset of this incarnation's registration."),
    "yak.broker.role": ("role", "The preferred role of this broker: leader or follower."),
    "yak.metadata.controller.epoch": ("controller_epoch", "The controller epoch."),
    "yak.metadata.offset": ("metadata_offset", "The metadata offset up to which this broker has applied the log."),
    "yak.metadata.reason": ("reason", "The reason for yak.metadata.state."),
    "yak.metadata.state": ("state", "The broker's lifecycle state; ACTIVE is normal operation."),
    "yak.metadata.store": ("store_process_id", "The process id of the metadata store."),
    "yak.metadata.stores": ("stores", "The metadata stores that this broker was started with: redis, raft, or both."),
    "yak.metadata.unsafe": ("unsafe_settings", "Settings of the metadata store that could lose acknowledged changes."),
    "yak.stopped.brokers": (
        "stopped",
        "The brokers that were stopped in order, which DescribeCluster lists as fenced.",
    ),
}


def slices(broker: Broker, call: Call) -> Slices:
    """Describe the resources in slices."""
    resources = call.request.resources
    times = Counter((requested.resource_type, requested.resource_name) for requested in resources)
    alike: _Alike = {}
    results = []
    pace, described = Pace(), 0
    for requested in resources:
        results.append(
            _describe(broker, call, requested, alike, times[requested.resource_type, requested.resource_name])
        )
        new, described = len(alike) - described, len(alike)
        if pace.is_over(1 + new * _ROWS_OF_A_RESOURCE):
            yield
    return Now({"results": results})


def _describe(broker: Broker, call: Call, requested: Any, alike: _Alike, times: int) -> Fields:
    result: Fields = {
        "error_code": ErrorCode.none,
        "error_message": "",
        "resource_type": requested.resource_type,
        "resource_name": requested.resource_name,
        "configs": [],
    }
    names = frozenset(requested.configuration_keys or ()) or None
    try:
        if times > 1:
            # A broker described 10,000 times would be an answer of 600 MB.
            raise PeerError(ErrorCode.invalid_request, "the resource is named more than once")
        check_resource(broker, call, Operation.DESCRIBE_CONFIGS, requested.resource_type, requested.resource_name)
        resource = resource_of(broker, requested.resource_type, requested.resource_name)
        if isinstance(resource, TopicResource):
            result["configs"] = _of_topic(broker, call, resource, names, alike)
        elif isinstance(resource, BrokerResource):
            result["configs"] = _of_broker(broker, call, resource, names)
        else:
            result["configs"] = _of_other(broker, call, resource, names, alike)
    except PeerError as error:
        result["error_code"], result["error_message"] = error.error_code, error.message
    return result


def _of_topic(broker: Broker, call: Call, topic: TopicResource, names: Any, alike: _Alike) -> EncodedItems:
    """A topic's encoded rows, shared by the topics of the request with the same overrides.

    Describing and encoding the rows of a topic takes 0.4 ms, and tools describe all topics at once.
    """
    key = (tuple(sorted(topic.overrides.items())), names)
    if key not in alike:
        rows = describe_topic(topic.overrides, *broker.config_levels, names=names)
        alike[key] = encode_items(KEY, call.version, _ROWS, _as_fields(call, rows))
    views: list[Fields] = []
    if names is not None and _PARTITION_EPOCHS in names and call.version >= _LONG_STRINGS_VERSION:
        views.append(_partition_epochs(broker, topic.name))
    if names is not None and _DAMAGED_OFFSETS in names:
        views.append(_damaged_offsets(broker, topic.name))
    shared = alike[key]
    if not views:
        return shared
    more = encode_items(KEY, call.version, _ROWS, views)
    return EncodedItems(shared.length + more.length, shared.data + more.data)


def _of_broker(broker: Broker, call: Call, resource: BrokerResource, names: Any) -> list[Fields]:
    if resource.is_default:
        return _as_fields(call, describe_default_broker(broker.image.default_broker_configs, names))
    rows = describe_broker(*broker.config_levels, names=names)
    return _as_fields(call, rows) + _views(broker, names, documented=_is_documented(call))


def _of_other(broker: Broker, call: Call, resource: Resource, names: Any, alike: _Alike) -> EncodedItems:
    """The encoded rows of a group, client metrics or a logger; those of a kind with the same overrides share them."""
    key = (resource.kind, tuple(sorted(resource.overrides.items())), names)
    if key not in alike:
        if isinstance(resource, GroupResource):
            rows = describe_group(resource.overrides, *broker.config_levels, names=names)
        else:
            rows = describe_inherited(resource.table, broker.config.static, names)
        alike[key] = encode_items(KEY, call.version, _ROWS, _as_fields(call, rows))
    return alike[key]


def _as_fields(call: Call, rows: list[ConfigRow]) -> list[Fields]:
    synonyms, documented = call.request.include_synonyms, _is_documented(call)
    return [row.as_fields(include_synonyms=synonyms, include_documentation=documented) for row in rows]


def _is_documented(call: Call) -> bool:
    return call.version >= _DOCUMENTATION_VERSION and call.request.include_documentation


def _views(broker: Broker, names: Any, *, documented: bool) -> list[Fields]:
    registered = broker.image.brokers.get(broker.node_id)
    role = "" if registered is None else registered.role
    state = {**broker.metadata.lifecycle.describe(), "role": role}
    state["stores"] = ",".join(broker.metadata_stores)
    brokers = broker.image.brokers
    state["stopped"] = ",".join(str(node) for node in sorted(brokers) if brokers[node].state is BrokerState.CLOSED)
    rows = []
    for name, (key, documentation) in _VIEWS.items():
        if names is not None and name not in names:
            continue
        value = state[key]
        text = "; ".join(value) if isinstance(value, list) else str(value)
        rows.append(_view(name, text, ConfigSource.STATIC_BROKER, documentation if documented else None))
    return rows


def _partition_epochs(broker: Broker, topic: str) -> Fields:
    partitions = enumerate(broker.image.topics[topic].partitions)
    text = ",".join(f"{number}:{info.partition_epoch}" for number, info in partitions)
    return _view(_PARTITION_EPOCHS, text, ConfigSource.DYNAMIC_TOPIC, None)


def _damaged_offsets(broker: Broker, topic: str) -> Fields:
    text = ",".join(f"{number}:{offset}" for number, offset in broker.damaged_replicas.offsets(topic))
    return _view(_DAMAGED_OFFSETS, text, ConfigSource.DYNAMIC_TOPIC, None)


def _view(name: str, value: str, source: ConfigSource, documentation: str | None) -> Fields:
    """A value described as a config that cannot be set."""
    return {
        "name": name,
        "value": value,
        "read_only": True,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": ConfigType.STRING,
        "documentation": documentation,
    }
