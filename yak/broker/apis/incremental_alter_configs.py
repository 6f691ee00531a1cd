"""IncrementalAlterConfigs (key 44, v0-1): set, delete, append, subtract single configs (KIP-339). v1: flexible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Outcome
from yak.broker.config_changes import change_configs
from yak.broker.config_resources import BrokerLoggerResource, Resource
from yak.config.incremental import Change, apply_incremental

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 44, "IncrementalAlterConfigs", range(2)
ABSENT = ("configs of client metrics and broker loggers: a value for one is refused",)


def handle(broker: Broker, call: Call) -> Outcome:
    """Change each resource's configs. A list is changed from its newest value, which another broker may have set."""
    return change_configs(broker, call, _changed, replaces=False)


def _changed(resource: Resource, asked: Any) -> dict[str, str]:
    if isinstance(resource, BrokerLoggerResource):
        for config in asked.configs:
            resource.validate(config.name, "")
    changes = [Change(config.name, config.config_operation, config.value) for config in asked.configs]
    return apply_incremental(resource.table, resource.overrides, changes, resource.validate, resource.inherited)
