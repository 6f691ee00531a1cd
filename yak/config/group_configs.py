"""The configs of groups (Kafka's GroupConfig.java), and those of client metrics subscriptions (ClientMetricsConfigs.java).

A group has the brokers' values unless it sets its own. Nothing can be set for a subscription. The limits of configs of share
and streams groups are the defaults of Kafka's broker configs for them.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from yak.config.broker_config_table import BROKER_CONFIGS
from yak.config.definitions import (
    Check,
    ConfigDef,
    ConfigType,
    Synonym,
    Value,
    at_least,
    between,
    one_of,
    table_of,
    validate,
)
from yak.errors import ErrorCode, PeerError

BROKER_PREFIX: Final = "group."
"""A consumer group's config has the name of the broker's config without this."""
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


def _of_consumer_group(name: str) -> ConfigDef:
    broker_name = BROKER_PREFIX + name
    return replace(BROKER_CONFIGS[broker_name], name=name, synonyms=(Synonym(broker_name),))


def _unused(
    name: str, kind: ConfigType, default: str, check: Check | None = None, broker_name: str | None = None
) -> ConfigDef:
    protocol = "share" if name.startswith("errors.") else name.partition(".")[0]
    documentation = f"Kept for {protocol} groups, which YAK does not have: other groups do not use it."
    broker_name = broker_name or (name if name in _OF_GROUPS_ONLY else BROKER_PREFIX + name)
    return ConfigDef(name, kind, default, documentation, check, (Synonym(broker_name),))


_OF_GROUPS_ONLY: Final = (
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
)
"""The configs that brokers do not have (GroupConfig.ALL_GROUP_CONFIG_SYNONYMS)."""


def _offset_reset(_name: str, value: Value) -> None:
    assert isinstance(value, str)
    if value not in ("earliest", "latest") and not _DURATION.fullmatch(value):
        raise ValueError("use earliest, latest, or by_duration: and an ISO 8601 duration, such as by_duration:PT1H")


_DURATION: Final = re.compile(
    r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?", re.IGNORECASE
)
_INT, _STRING, _BOOLEAN = ConfigType.INT, ConfigType.STRING, ConfigType.BOOLEAN

GROUP_CONFIGS: Final[Mapping[str, ConfigDef]] = table_of(
    (
        _of_consumer_group(ASSIGNMENT_INTERVAL),
        _of_consumer_group(HEARTBEAT_INTERVAL),
        _of_consumer_group(SESSION_TIMEOUT),
        _unused("errors.deadletterqueue.copy.record.enable", _BOOLEAN, "false"),
        _unused("errors.deadletterqueue.topic.name", _STRING, ""),
        _unused("share.assignment.interval.ms", _INT, "1000", between(0, 15_000)),
        _unused("share.auto.offset.reset", _STRING, "latest", _offset_reset),
        _unused("share.delivery.count.limit", _INT, "5", between(2, 10)),
        _unused("share.heartbeat.interval.ms", _INT, "5000", between(5000, 15_000)),
        _unused("share.isolation.level", _STRING, "read_uncommitted", one_of("read_uncommitted", "read_committed")),
        _unused("share.partition.max.record.locks", _INT, "2000", between(100, 4000)),
        _unused("share.record.lock.duration.ms", _INT, "30000", between(15_000, 60_000)),
        _unused("share.renew.acknowledge.enable", _BOOLEAN, "true"),
        _unused("share.session.timeout.ms", _INT, "45000", between(45_000, 60_000)),
        _unused("streams.assignment.interval.ms", _INT, "1000", between(0, 15_000)),
        _unused("streams.assignor.name", _STRING, "sticky", broker_name="group.streams.assignors"),
        _unused("streams.heartbeat.interval.ms", _INT, "5000", between(5000, 15_000)),
        _unused("streams.initial.rebalance.delay.ms", _INT, "3000", at_least(0)),
        _unused("streams.num.standby.replicas", _INT, "0", between(0, 2)),
        _unused("streams.rack.aware.assignment.tags", ConfigType.LIST, ""),
        _unused("streams.session.timeout.ms", _INT, "45000", between(45_000, 60_000)),
    )
)
CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigDef]] = {
    definition.name: definition
    for definition in (
        ConfigDef("interval.ms", ConfigType.INT, "300000", "How often clients push the metrics."),
        ConfigDef("match", ConfigType.LIST, "", "Patterns of the clients that push the metrics."),
        ConfigDef("metrics", ConfigType.LIST, "", "Prefixes of the names of the metrics."),
    )
}


def validate_group_config(name: str, value: str) -> None:
    """Raise PeerError(INVALID_CONFIG) unless a group may have this value."""
    if name not in GROUP_CONFIGS:
        raise PeerError(ErrorCode.invalid_config, f"Unknown group config name: {name}")
    validate(GROUP_CONFIGS, name, value)


def group_config_value(name: str, overrides: Mapping[str, str], static_broker: Mapping[str, str]) -> int:
    """The value in force of a number of a consumer group with these overrides."""
    broker_name = BROKER_PREFIX + name
    text = overrides.get(name) or static_broker.get(broker_name) or BROKER_CONFIGS[broker_name].default
    assert text is not None
    return int(text)


def check_group_configs(overrides: Mapping[str, str], static_broker: Mapping[str, str]) -> None:
    """Raise PeerError(INVALID_CONFIG) unless a group may have these configs together.

    They keep to the limits of the brokers (Kafka's GroupConfig.validateValues).
    """
    for name in (ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT):
        _check_limits(name, overrides, static_broker)
    session_ms, heartbeat_ms = (
        group_config_value(name, overrides, static_broker) for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
    )
    if session_ms <= heartbeat_ms:
        raise PeerError(ErrorCode.invalid_config, f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")


def _check_limits(name: str, overrides: Mapping[str, str], static_broker: Mapping[str, str]) -> None:
    value = group_config_value(name, overrides, static_broker)
    kind, rest = name.split(".", 1)
    for bound, is_outside in (("min", int.__lt__), ("max", int.__gt__)):
        limit_name = f"{BROKER_PREFIX}{kind}.{bound}.{rest}"
        limit = int(static_broker.get(limit_name) or BROKER_CONFIGS[limit_name].default or 0)
        if is_outside(value, limit):
            relation = "greater" if bound == "min" else "less"
            raise PeerError(ErrorCode.invalid_config, f"{name} must be {relation} than or equal to {limit_name}")
