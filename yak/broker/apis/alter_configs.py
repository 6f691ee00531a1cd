"""AlterConfigs (key 33, v0-2) and IncrementalAlterConfigs (key 44, v0-1). v2 and v1: flexible.

The first replaces all configs set on a resource by the given ones; the second sets, deletes, appends to and subtracts from
single configs (KIP-339).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.api_table import Api
from yak.broker.call import Call, Outcome
from yak.broker.config_changes import change_configs
from yak.broker.config_resources import BrokerLoggerResource, Resource
from yak.config.incremental import Change, apply_incremental
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker


def alter_configs(broker: Broker, call: Call) -> Outcome:
    """Replace each resource's configs."""
    return change_configs(broker, call, _replacement, replaces=True)


def _replacement(resource: Resource, requested: Any) -> dict[str, str]:
    if isinstance(resource, BrokerLoggerResource):
        raise PeerError(ErrorCode.invalid_request, "AlterConfigs does not take broker loggers")
    settings: dict[str, str] = {}
    for config in requested.configs:  # before any value, as in Kafka's ConfigAdminManager
        if config.value is None or config.name in settings:
            raise PeerError(ErrorCode.invalid_request, f"config {config.name} has no value, or is given twice")
        settings[config.name] = config.value
    for name, value in settings.items():
        if resource.overrides.get(name) != value:
            resource.validate(name, value)
    return settings


def incremental_alter_configs(broker: Broker, call: Call) -> Outcome:
    """Change each resource's configs. A list is changed from its newest value, which another broker may have set."""
    return change_configs(broker, call, _changed, replaces=False)


def _changed(resource: Resource, requested: Any) -> dict[str, str]:
    if isinstance(resource, BrokerLoggerResource):
        for config in requested.configs:
            resource.validate(config.name, "")
    changes = [Change(config.name, config.config_operation, config.value) for config in requested.configs]
    return apply_incremental(resource.table, resource.overrides, changes, resource.validate, resource.inherited)


APIS = (
    Api(33, "AlterConfigs", range(3), alter_configs, ("configs of client metrics: changes are refused",)),
    Api(
        44,
        "IncrementalAlterConfigs",
        range(2),
        incremental_alter_configs,
        (
            "configs of client metrics and broker loggers: changes are refused",
            "dynamic broker configs of Kafka that have no effect in YAK, such as num.io.threads: they are read-only",
            "unclean.leader.election.enable of one broker: refused, it is set for all brokers",
        ),
    ),
)
