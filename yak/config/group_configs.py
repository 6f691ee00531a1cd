"""The configs of groups, which the brokers' configs set for all groups, and those of client metrics subscriptions.

Neither can be set for one group or subscription (Kafka's GroupConfig.java, ClientMetricsConfigs.java).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from yak.config.broker_config_table import BROKER_CONFIGS
from yak.config.definitions import ConfigDef, ConfigType, Synonym

BROKER_PREFIX: Final = "group."
"""A group's config has the name of the broker's config without this."""


def _of_group(name: str) -> ConfigDef:
    broker_name = BROKER_PREFIX + name
    return replace(BROKER_CONFIGS[broker_name], name=name, synonyms=(Synonym(broker_name),))


GROUP_CONFIGS: Final[Mapping[str, ConfigDef]] = {
    name: _of_group(name)
    for name in ("consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")
}
CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigDef]] = {
    definition.name: definition
    for definition in (
        ConfigDef("interval.ms", ConfigType.INT, "300000", "How often clients push the metrics."),
        ConfigDef("match", ConfigType.LIST, "", "Patterns of the clients that push the metrics."),
        ConfigDef("metrics", ConfigType.LIST, "", "Prefixes of the names of the metrics."),
    )
}
