"""AlterConfigs (key 33, v0-2): replace all configs set on a resource by the given ones. v2: flexible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Outcome
from yak.broker.config_changes import change_configs
from yak.broker.config_resources import BrokerLoggerResource, Resource
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 33, "AlterConfigs", range(3)
ABSENT = ("configs of client metrics: a value for one is refused",)


def handle(broker: Broker, call: Call) -> Outcome:
    """Replace each resource's configs."""
    return change_configs(broker, call, _replacement, replaces=True)


def _replacement(resource: Resource, asked: Any) -> dict[str, str]:
    if isinstance(resource, BrokerLoggerResource):
        raise PeerError(ErrorCode.invalid_request, "AlterConfigs does not take broker loggers")
    settings: dict[str, str] = {}
    for config in asked.configs:
        if config.name in settings:
            raise PeerError(ErrorCode.invalid_request, f"config {config.name} is given twice")
        if config.value is None:
            raise PeerError(ErrorCode.invalid_request, f"config {config.name} has no value")
        if resource.overrides.get(config.name) != config.value:
            resource.validate(config.name, config.value)
        settings[config.name] = config.value
    return settings
