"""A topic's configs: which can be set, and which value is in force.

A topic's own value wins. Otherwise it is the broker config behind it (its synonym): set for this broker, for all
brokers, or in the broker's static settings. Otherwise it is the default (Kafka's LogConfig.java,
DynamicBrokerConfig.scala).
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from yak import errors  # ErrorCode is resolved on use, so that reading the configs does not import kio
from yak.config.definitions import ConfigDef, Value, validate
from yak.config.log_config import LogConfig
from yak.config.topic_config_table import TOPIC_CONFIGS
from yak.errors import PeerError

__all__ = ["TOPIC_CONFIGS", "check_topic_configs", "resolve_log_config", "topic_config_value", "validate_topic_config"]

_LOG_FIELDS: Final = tuple((field.name, TOPIC_CONFIGS[field.name.replace("_", ".")]) for field in fields(LogConfig))
_MIN_LAG: Final = "min.compaction.lag.ms"
_MAX_LAG: Final = "max.compaction.lag.ms"
_TUPLES: Final = {field.name for field in fields(LogConfig) if isinstance(field.default, tuple)}
assert all(definition.has_effect for _, definition in _LOG_FIELDS), "a log setting that cannot be set"


def validate_topic_config(name: str, value: str | None) -> None:
    """Raise PeerError(INVALID_CONFIG) with a message unless a topic may set `name` to `value`."""
    validate(TOPIC_CONFIGS, name, value)


def check_topic_configs(topic_overrides: Mapping[str, str], *broker_levels: Mapping[str, str]) -> None:
    """Raise PeerError(INVALID_CONFIG) unless a topic may have these overrides together (Kafka's LogConfig.validateValues).

    The levels are those of `resolve_log_config`. A topic without compaction lags of its own has those of the broker,
    whatever they are.
    """
    if topic_overrides.keys().isdisjoint((_MIN_LAG, _MAX_LAG)):
        return
    config = resolve_log_config(topic_overrides, *broker_levels)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        message = f"{_MIN_LAG} ({config.min_compaction_lag_ms}) is above {_MAX_LAG} ({config.max_compaction_lag_ms})"
        raise PeerError(errors.ErrorCode.invalid_config, message)


def resolve_log_config(
    topic_overrides: Mapping[str, str],
    dynamic_broker: Mapping[str, str],
    dynamic_default_broker: Mapping[str, str],
    static_broker: Mapping[str, str],
) -> LogConfig:
    """The configuration of a topic's logs.

    A stored value that does not parse (from another version, or written past the broker) counts as not set, because a
    broker must be able to open its logs.
    """
    broker = {**static_broker, **dynamic_default_broker, **dynamic_broker}
    values: dict[str, Any] = {}
    for field_name, definition in _LOG_FIELDS:
        value = _first_valid(definition, topic_overrides, broker)
        if value is not None:
            values[field_name] = _as_field(field_name, value)
    return LogConfig(**values)


def _as_field(field_name: str, value: Value) -> object:
    if not isinstance(value, list):
        return value
    return tuple(filter(None, value)) if field_name in _TUPLES else ",".join(value)


def topic_config_value(definition: ConfigDef, broker: Mapping[str, str]) -> str | None:
    """The string value of a topic config that the topic does not set; `broker` is the broker's settings, merged."""
    for text in _inherited(definition, broker):
        return text
    return definition.default


def _first_valid(definition: ConfigDef, overrides: Mapping[str, str], broker: Mapping[str, str]) -> Value | None:
    if definition.name in overrides:
        with contextlib.suppress(ValueError):
            return definition.accept(overrides[definition.name])
    for text in _inherited(definition, broker):
        try:
            return definition.accept(text)
        except ValueError:
            continue
    return None


def _inherited(definition: ConfigDef, broker: Mapping[str, str]) -> Iterable[str]:
    for synonym in definition.synonyms:
        text = broker.get(synonym.name)
        if text is not None:
            scaled = scale(text, synonym.factor)
            if scaled is not None:
                yield scaled


def scale(text: str, factor: int) -> str | None:
    """A number in larger units as one in smaller ones; negative becomes -1 (KafkaConfig.logRetentionTimeMillis)."""
    if factor == 1:
        return text
    try:
        number = int(text)
    except ValueError:
        return None
    return str(number * factor) if number >= 0 else "-1"
