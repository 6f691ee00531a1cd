"""The resources whose configs can be read and changed: topics, this broker, and the default of all brokers.

DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share them: each finds a resource, has its overrides and
inherited values, and validates new values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from yak.config.broker_configs import BROKER_CONFIGS, validate_broker_config
from yak.config.definitions import ConfigDef
from yak.config.topic_configs import TOPIC_CONFIGS, topic_config_value, validate_topic_config
from yak.errors import ErrorCode, PeerError
from yak.protocol.topic_names import validate_topic_name

if TYPE_CHECKING:
    from yak.broker.broker import Broker

TOPIC, BROKER = 2, 4
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

    def inherited(self, name: str) -> str | None:
        """The value that applies when the topic sets none."""
        image, broker = self._broker.image, self._broker
        merged = {
            **broker.config.static,
            **image.default_broker_configs,
            **image.broker_configs.get(broker.node_id, {}),
        }
        return topic_config_value(TOPIC_CONFIGS[name], merged)


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
        if not name.isdecimal():
            raise PeerError(ErrorCode.invalid_request, f"broker {name!r} is not a node id")
        if int(name) != broker.node_id:
            raise PeerError(
                ErrorCode.invalid_request, f"this is broker {broker.node_id}; send the request to broker {name}"
            )
        self.overrides = broker.image.broker_configs.get(broker.node_id, {})

    def validate(self, name: str, value: str) -> None:
        """Raise PeerError if a running broker cannot take this value."""
        validate_broker_config(name, value, per_broker=not self.is_default)

    def inherited(self, name: str) -> str | None:
        """The value that applies when this resource sets none."""
        below: Mapping[str, str] = {} if self.is_default else self._broker.image.default_broker_configs
        return below.get(name, self._broker.config.static.get(name, BROKER_CONFIGS[name].default))


def resource_of(broker: Broker, resource_type: int, name: str) -> TopicResource | BrokerResource:
    """The resource of a request. Raises PeerError when it does not exist."""
    if resource_type == TOPIC:
        return TopicResource(broker, name)
    if resource_type == BROKER:
        return BrokerResource(broker, name)
    raise PeerError(ErrorCode.invalid_request, f"configs of resource type {resource_type} are not supported")
