"""The resources with configs: topics, brokers, their default, broker loggers, client metrics, groups.

DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share them: each finds a resource, has its overrides and
inherited values, and validates new values. Only topics, brokers and groups can have overrides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from yak.acls.bindings import Operation, ResourceType
from yak.cluster.controller import UNCLEAN_CONFIG
from yak.config.broker_config_table import METADATA_STORE_TARGET
from yak.config.broker_configs import BROKER_CONFIGS, check_bounds, validate_broker_config
from yak.config.definitions import ConfigDef
from yak.config.group_configs import (
    BROKER_PREFIX,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    check_group_configs,
    validate_group_config,
)
from yak.config.topic_configs import TOPIC_CONFIGS, check_topic_configs, topic_config_value, validate_topic_config
from yak.errors import ErrorCode, PeerError
from yak.protocol.topic_names import validate_topic_name

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.call import Call

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Kafka's ConfigResource.Type."""


class TopicResource:
    """A topic's configs."""

    table: Mapping[str, ConfigDef] = TOPIC_CONFIGS
    kind = "topic"

    def __init__(self, broker: Broker, name: str) -> None:
        validate_topic_name(name)
        topic = broker.image.topics.get(name)
        if topic is None:
            raise PeerError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
        self.name = name
        self.overrides = topic.configs
        self._broker = broker

    def validate(self, name: str, value: str) -> None:
        """Raise PeerError if the topic may not have this value."""
        validate_topic_config(name, value)

    def check(self, settings: Mapping[str, str]) -> None:
        """Raise PeerError if the topic may not have these values together."""
        check_topic_configs(settings, *self._broker.config_levels)

    def inherited(self, name: str) -> str | None:
        """The value that applies when the topic sets none."""
        own, default, static = self._broker.config_levels
        return topic_config_value(TOPIC_CONFIGS[name], {**static, **default, **own})


class BrokerResource:
    """This broker's configs; with an empty name, those set for all brokers."""

    table: Mapping[str, ConfigDef] = BROKER_CONFIGS
    kind = "broker"

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.is_default = name == ""
        self._broker = broker
        if self.is_default:
            self.overrides = broker.image.default_broker_configs
            return
        if name != str(broker.node_id):  # the metadata store knows no other spelling
            message = f"this is broker {broker.node_id}; send the request to broker {name[:20]!r}, if that is a node id"
            raise PeerError(ErrorCode.invalid_request, message)
        self.overrides = broker.image.broker_configs.get(broker.node_id, {})

    def validate(self, name: str, value: str) -> None:
        """Raise PeerError(INVALID_REQUEST) if a running broker cannot take this value.

        For a bad value too (Kafka's ConfigAdminManager.validateBrokerConfigChange).
        """
        try:
            validate_broker_config(name, value, per_broker=not self.is_default)
            check_bounds(name, value, self._broker.config.static)
        except PeerError as error:
            raise PeerError(ErrorCode.invalid_request, error.message) from None
        if name == METADATA_STORE_TARGET and (not self.is_default or value not in self._broker.metadata_stores):
            message = "it counts for all brokers, and each of them must be started with --metadata both first"
            raise PeerError(ErrorCode.invalid_request, f"Cannot set {name} to {value}: {message}")
        if name == UNCLEAN_CONFIG and not self.is_default:
            message = "the controller takes the value of the topic, or that of all brokers"
            raise PeerError(ErrorCode.invalid_request, f"Cannot set {name} for one broker: {message}")

    def inherited(self, name: str) -> str | None:
        """The value that applies when this resource sets none."""
        below: Mapping[str, str] = {} if self.is_default else self._broker.image.default_broker_configs
        return below.get(name, self._broker.config.static.get(name, BROKER_CONFIGS[name].default))


class BrokerLoggerResource:
    """This broker's loggers: none of them has a level that can be read or changed here."""

    table: Mapping[str, ConfigDef] = {}
    kind = "broker logger"
    overrides: Mapping[str, str] = {}

    def __init__(self, broker: Broker, name: str) -> None:
        if name != str(broker.node_id):
            raise PeerError(ErrorCode.invalid_request, f"the loggers here are those of broker {broker.node_id}")
        self.name = name

    def validate(self, name: str, value: str) -> None:
        """Refuse the level of any logger."""
        del value
        raise PeerError(ErrorCode.invalid_config, f"Logger {name} does not exist!")

    def inherited(self, name: str) -> str | None:
        """Nothing."""
        del name
        return None


class ClientMetricsResource:
    """A subscription to clients' metrics: any name has Kafka's defaults, which subscribe to nothing."""

    table: Mapping[str, ConfigDef] = CLIENT_METRICS_CONFIGS
    kind = "client metrics"
    overrides: Mapping[str, str] = {}

    def __init__(self, broker: Broker, name: str) -> None:
        del broker
        if not name:
            raise PeerError(ErrorCode.invalid_request, "Client metrics subscription name must not be empty")
        self.name = name

    def validate(self, name: str, value: str) -> None:
        """Refuse any value."""
        del value
        known = "this version of YAK does not collect client metrics"
        raise PeerError(ErrorCode.invalid_request, known if name in self.table else f"unknown config {name}")

    def inherited(self, name: str) -> str | None:
        """The default."""
        return self.table[name].default


class GroupResource:
    """A group's configs: it has the brokers' values unless it sets its own. The group need not exist."""

    table: Mapping[str, ConfigDef] = GROUP_CONFIGS
    kind = "group"

    def __init__(self, broker: Broker, name: str) -> None:
        if not name:
            raise PeerError(ErrorCode.invalid_request, "Group name must not be empty")
        self.name = name
        self.overrides = broker.image.group_configs.get(name, {})
        self._static = broker.config.static

    def validate(self, name: str, value: str) -> None:
        """Raise PeerError if the group may not have this value."""
        validate_group_config(name, value)

    def check(self, settings: Mapping[str, str]) -> None:
        """Raise PeerError if the group may not have these values together."""
        check_group_configs(settings, self._static)

    def inherited(self, name: str) -> str | None:
        """The value that applies when the group sets none."""
        return self._static.get(BROKER_PREFIX + name, self.table[name].default)


Resource: TypeAlias = TopicResource | BrokerResource | BrokerLoggerResource | ClientMetricsResource | GroupResource
_RESOURCES: Mapping[int, Callable[[Broker, str], Resource]] = {
    TOPIC: TopicResource,
    BROKER: BrokerResource,
    BROKER_LOGGER: BrokerLoggerResource,
    CLIENT_METRICS: ClientMetricsResource,
    GROUP: GroupResource,
}


def check_resource(broker: Broker, call: Call, operation: Operation, resource_type: int, name: str) -> None:
    """Raise PeerError unless a client may do something with the configs of a resource.

    Those of brokers and of client metrics are the cluster's (KafkaApis, ControllerApis.authorizeAlterResource).
    """
    if resource_type == TOPIC:
        broker.authorization.check(call, operation, ResourceType.TOPIC, name)
    elif resource_type == GROUP:
        broker.authorization.check(call, operation, ResourceType.GROUP, name)
    elif resource_type in _RESOURCES:
        broker.authorization.check_cluster(call, operation)


def resource_of(broker: Broker, resource_type: int, name: str) -> Resource:
    """The resource of a request. Raises PeerError when it does not exist."""
    resource = _RESOURCES.get(resource_type)
    if resource is None:
        raise PeerError(ErrorCode.invalid_request, f"there are no configs of resource type {resource_type}")
    return resource(broker, name)
