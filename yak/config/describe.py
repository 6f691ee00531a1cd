"""Configs as DescribeConfigs returns them: value, source, and synonyms (Kafka's ConfigHelper.java)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Final

from yak.config.broker_config_table import BROKER_CONFIGS, RATES
from yak.config.broker_configs import definition_of
from yak.config.definitions import ConfigDef, ConfigSource, ConfigType, Synonym, Update, effective_text
from yak.config.group_configs import GROUP_CONFIGS
from yak.config.topic_config_table import TOPIC_CONFIGS
from yak.config.topic_configs import scale

_DEFAULTS: Final[Mapping[str, str | None]] = {
    name: definition.default for name, definition in BROKER_CONFIGS.items() if name not in RATES
}

_SOURCES: Final = (
    ConfigSource.DYNAMIC_BROKER,
    ConfigSource.DYNAMIC_DEFAULT_BROKER,
    ConfigSource.STATIC_BROKER,
    ConfigSource.DEFAULT,
)


@dataclass(slots=True, frozen=True)
class SynonymRow:
    """One value in order of precedence, the first one in force: its config's name, the value, its source."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(slots=True, frozen=True)
class ConfigRow:
    """One config of one resource. `value` is None when there is none, or when it is sensitive."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    synonyms: tuple[SynonymRow, ...]
    type: ConfigType
    documentation: str

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source is ConfigSource.DEFAULT

    def as_fields(self, *, include_synonyms: bool, include_documentation: bool) -> dict[str, object]:
        """The row with the field names of the response."""
        synonyms = self.synonyms if include_synonyms else ()
        return {
            "name": self.name,
            "value": self.value,
            "read_only": self.read_only,
            "config_source": self.source,
            "is_sensitive": self.is_sensitive,
            "synonyms": [{"name": row.name, "value": row.value, "source": row.source} for row in synonyms],
            "config_type": self.type,
            "documentation": self.documentation if include_documentation else None,
        }


def describe_topic(
    topic_overrides: Mapping[str, str], *broker_levels: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigRow]:
    """All topic configs, or the named ones (unknown names are ignored, as in Kafka), in alphabetical order.

    The levels of the broker's configs are those set on it, on all brokers, and static ones.
    """
    levels = _levels(*broker_levels)
    rows = []
    for definition in _chosen(TOPIC_CONFIGS, names):
        found = _behind(definition.synonyms, levels)
        if found and found[0][1].source is ConfigSource.DEFAULT and found[0][1].name != definition.synonyms[0].name:
            # Kafka lists the default of the first synonym only: log.retention.ms has none, log.retention.hours has one.
            found = []
        if definition.name in topic_overrides:
            own = topic_overrides[definition.name]
            found.insert(0, (own, SynonymRow(definition.name, own, ConfigSource.DYNAMIC_TOPIC)))
        rows.append(_row(definition, found, read_only=False))
    return rows


def describe_broker(*broker_levels: Mapping[str, str], names: Collection[str] | None = None) -> list[ConfigRow]:
    """All broker configs of one broker, or the named ones, in alphabetical order; those of one listener come last.

    A rate that is not set is left out.
    """
    levels, (dynamic_broker, _default, static_broker) = _levels(*broker_levels), broker_levels
    prefixed = {
        name: replace(definition, name=name)
        for name in sorted({*dynamic_broker, *static_broker})
        if (definition := definition_of(name)) is not None
    }
    rows = [
        _row(definition, _behind_broker_config(definition.name, levels), definition.update is Update.READ_ONLY)
        for definition in _chosen({**BROKER_CONFIGS, **prefixed}, names)
    ]
    return [row for row in rows if row.synonyms or row.name not in RATES]


_FALLBACKS: Final = {
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms",),
    "log.retention.minutes": ("log.retention.hours",),
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
    "log.roll.ms": ("log.roll.hours",),
}
"""The broker configs that count when one is not set (DynamicBrokerConfig.brokerConfigSynonyms)."""


def _behind_broker_config(
    name: str, levels: Sequence[tuple[ConfigSource, Mapping[str, str | None]]]
) -> list[tuple[str | None, SynonymRow]]:
    """A broker config's values, then those of its fallbacks in their own units; none before it has one itself."""
    found = _behind(tuple(map(Synonym, (name, *_FALLBACKS.get(name, ())))), levels)
    return list(dropwhile(lambda each: each[1].name != name, found))


def describe_default_broker(
    dynamic_default_broker: Mapping[str, str], names: Collection[str] | None
) -> list[ConfigRow]:
    """The configs that are set for all brokers (the resource without a name), as in Kafka."""
    levels = [(ConfigSource.DYNAMIC_DEFAULT_BROKER, dynamic_default_broker)]
    return [
        _row(definition, _behind((Synonym(definition.name),), levels), definition.update is Update.READ_ONLY)
        for definition in _chosen(BROKER_CONFIGS, names)
        if definition.name in dynamic_default_broker
    ]


def describe_group(
    overrides: Mapping[str, str], *broker_levels: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigRow]:
    """All group configs, or the named ones, in alphabetical order: the group's own, the broker's, the defaults."""
    own: list[tuple[ConfigSource, Mapping[str, str | None]]] = [(ConfigSource.DYNAMIC_GROUP, dict(overrides))]
    levels = _levels(*broker_levels)
    rows = []
    for definition in _chosen(GROUP_CONFIGS, names):
        (broker_config,) = definition.synonyms
        inherited = _behind(definition.synonyms, levels) or _behind(
            definition.synonyms, [(ConfigSource.DEFAULT, {broker_config.name: definition.default})]
        )
        found = _behind((Synonym(definition.name),), own) + inherited
        rows.append(_row(definition, found, read_only=not definition.has_effect))
    return rows


def describe_inherited(
    table: Mapping[str, ConfigDef], static_broker: Mapping[str, str], names: Collection[str] | None
) -> list[ConfigRow]:
    """The configs of a resource that cannot have its own values: those of the broker, else the defaults."""
    levels = _levels({}, {}, static_broker)
    return [
        _row(definition, _behind(definition.synonyms, levels), read_only=True) for definition in _chosen(table, names)
    ]


def _levels(*broker_levels: Mapping[str, str]) -> list[tuple[ConfigSource, Mapping[str, str | None]]]:
    return list(zip(_SOURCES, (*broker_levels, _DEFAULTS), strict=True))


def _behind(
    synonyms: tuple[Synonym, ...], levels: Sequence[tuple[ConfigSource, Mapping[str, str | None]]]
) -> list[tuple[str | None, SynonymRow]]:
    """(value in the config's own unit, row) of each level and synonym with a value, highest precedence first."""
    found = []
    for source, settings in levels:
        for synonym in synonyms:
            text = settings.get(synonym.name)
            if text is not None:
                found.append((scale(text, synonym.factor), SynonymRow(synonym.name, text, source)))
    return found


def _row(definition: ConfigDef, found: list[tuple[str | None, SynonymRow]], read_only: bool) -> ConfigRow:
    value, source = (found[0][0], found[0][1].source) if found else (definition.default, ConfigSource.DEFAULT)
    if value is not None:
        value = effective_text(definition.type, value)
    synonyms = tuple(row for _, row in found)
    if source in (ConfigSource.DYNAMIC_TOPIC, ConfigSource.DYNAMIC_GROUP):
        synonyms = (replace(synonyms[0], value=value), *synonyms[1:])  # those of brokers are as they were set
    if definition.is_sensitive:
        value = None
        synonyms = tuple(SynonymRow(row.name, None, row.source) for row in synonyms)
    return ConfigRow(
        definition.name,
        value,
        read_only,
        source,
        definition.is_sensitive,
        synonyms,
        definition.type,
        definition.documentation,
    )


def _chosen(table: Mapping[str, ConfigDef], names: Collection[str] | None) -> list[ConfigDef]:
    return [definition for name, definition in table.items() if names is None or name in names]
