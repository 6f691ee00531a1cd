"""DescribeConfigs (key 32, v1-4): every config of a topic or broker, where its value comes from, and what it means.

v1: sources and synonyms. v3: types and documentation. v4: flexible. A broker also shows, read-only, where it stands with
the metadata store (`yak.metadata.state` and its kin), so that any admin client can see it. A topic shows its partition
epochs, which no API of Kafka has, to who asks for them by name: `yak.partition.epochs` is "0:5,1:7". Likewise
`yak.damaged.offsets`, "1:4711": the first offset that this broker's own replica of a partition is known not to have whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Fields, Now, Outcome
from yak.broker.config_resources import BrokerResource, TopicResource, resource_of
from yak.config.definitions import ConfigSource, ConfigType
from yak.config.describe import describe_broker, describe_default_broker, describe_topic
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 32, "DescribeConfigs", range(1, 5)
ABSENT = (
    "broker loggers, client metrics and groups as resources",
    "min.insync.replicas as DYNAMIC_DEFAULT_BROKER_CONFIG, which Kafka 4.1 stores; a broker's static value counts here",
)

_DOCUMENTATION_VERSION = 3
_LONG_STRINGS_VERSION = 4
"""Before, a string ends at 32,767 bytes, which the epochs of a few thousand partitions would not fit in."""
_PARTITION_EPOCHS = "yak.partition.epochs"
_DAMAGED_OFFSETS = "yak.damaged.offsets"
_VIEWS = {
    "yak.broker.epoch": ("broker_epoch", "The metadata offset of this broker's registration: one boot of it."),
    "yak.broker.role": ("role", "What this broker prefers to be: leader or follower."),
    "yak.metadata.controller.epoch": ("controller_epoch", "The controller's term."),
    "yak.metadata.offset": ("metadata_offset", "The newest record of the metadata log that this broker acts on."),
    "yak.metadata.reason": ("reason", "Why the broker stands with the metadata store as it does."),
    "yak.metadata.state": ("state", "How the broker stands with the metadata store: ACTIVE is good."),
    "yak.metadata.store": ("store_process_id", "The metadata store's process."),
    "yak.metadata.unsafe": ("unsafe_settings", "Settings of the metadata store that could lose what it confirmed."),
}


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe each resource."""
    return Now({"results": [_describe(broker, call, asked) for asked in call.request.resources]})


def _describe(broker: Broker, call: Call, asked: Any) -> Fields:
    result: Fields = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
        "configs": [],
    }
    names = asked.configuration_keys or None
    views: list[Fields] = []
    try:
        resource = resource_of(broker, asked.resource_type, asked.resource_name)
        image = broker.image
        own = image.broker_configs.get(broker.node_id, {})
        if isinstance(resource, TopicResource):
            rows = describe_topic(resource.overrides, own, image.default_broker_configs, broker.config.static, names)
            if names is not None and _PARTITION_EPOCHS in names and call.version >= _LONG_STRINGS_VERSION:
                views.append(_partition_epochs(broker, resource.name))
            if names is not None and _DAMAGED_OFFSETS in names:
                views.append(_damaged_offsets(broker, resource.name))
        elif resource.is_default:
            rows = describe_default_broker(image.default_broker_configs, names)
        else:
            rows = describe_broker(own, image.default_broker_configs, broker.config.static, names)
        request = call.request
        documented = call.version >= _DOCUMENTATION_VERSION and request.include_documentation
        result["configs"] = [
            row.as_fields(include_synonyms=request.include_synonyms, include_documentation=documented) for row in rows
        ]
        if isinstance(resource, BrokerResource) and not resource.is_default:
            views = _views(broker, names, documented=documented)
        result["configs"] += views
    except PeerError as error:
        result["error_code"], result["error_message"] = error.error_code, error.message
    return result


def _views(broker: Broker, names: Any, *, documented: bool) -> list[Fields]:
    registered = broker.image.brokers.get(broker.node_id)
    role = "" if registered is None else registered.role
    state = {**broker.metadata.membership.describe(), "role": role}
    rows = []
    for name, (key, words) in _VIEWS.items():
        if names is not None and name not in names:
            continue
        value = state[key]
        text = "; ".join(value) if isinstance(value, list) else str(value)
        rows.append(_view(name, text, ConfigSource.STATIC_BROKER, words if documented else None))
    return rows


def _partition_epochs(broker: Broker, topic: str) -> Fields:
    partitions = enumerate(broker.image.topics[topic].partitions)
    text = ",".join(f"{number}:{info.partition_epoch}" for number, info in partitions)
    return _view(_PARTITION_EPOCHS, text, ConfigSource.DYNAMIC_TOPIC, None)


def _damaged_offsets(broker: Broker, topic: str) -> Fields:
    text = ",".join(f"{number}:{offset}" for number, offset in broker.damaged_replicas.offsets(topic))
    return _view(_DAMAGED_OFFSETS, text, ConfigSource.DYNAMIC_TOPIC, None)


def _view(name: str, value: str, source: ConfigSource, documentation: str | None) -> Fields:
    """What is shown as a config and cannot be set."""
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
