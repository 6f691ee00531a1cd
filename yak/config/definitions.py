"""A config's definition: Kafka's name, type, default and validation rule, and whether it has an effect in YAK yet.

Values are strings everywhere, as on the wire and in the metadata log; only `ConfigDef.parse` gives them a type. The
parsing rules are those of Kafka's ConfigDef.parseType.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from yak import errors  # ErrorCode is resolved on use, so that reading the tables does not import kio
from yak.errors import PeerError, closest
from yak.limits import CONFIG_VALUE_BYTES_MAX

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

Value: TypeAlias = bool | int | float | str | list[str]
Check: TypeAlias = Callable[[str, Value], None]
"""Raises ValueError with a message when a parsed value is not allowed."""


class ConfigType(IntEnum):
    """Kafka's ConfigDef.Type, with the numbers of DescribeConfigs v3."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source of a value, with the numbers of DescribeConfigs v1."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


class Update(IntEnum):
    """Whether a broker config can be changed while the broker runs (Kafka's dynamicUpdateMode)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


@dataclass(slots=True, frozen=True)
class Synonym:
    """A broker config that is a topic config's default; one of its units is `factor` units of the topic config."""

    name: str
    factor: int = 1


@dataclass(slots=True, frozen=True)
class ConfigDef:
    """One config. `default` is None when there is no value unless it is set."""

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    check: Check | None = None
    synonyms: tuple[Synonym, ...] = ()
    """For topic configs: the broker configs behind it, the one with the highest precedence first."""
    has_effect: bool = True
    """False: the name is known and described, but only the default is accepted."""
    update: Update = Update.READ_ONLY

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is never returned."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """The typed value of a string. Raises ValueError with a message."""
        if (size := len(text.encode(errors="surrogateescape"))) > CONFIG_VALUE_BYTES_MAX:
            raise ValueError(f"{size} bytes are too long")
        value = _parse(self.type, text.strip())
        if self.check is not None:
            self.check(self.name, value)
        return value

    def accept(self, text: str) -> Value:
        """`parse`, and refuse values that would have no effect. Raises ValueError with a message."""
        value = self.parse(text)
        if not self.has_effect and value != ("" if self.default is None else _parse(self.type, self.default)):
            raise ValueError(
                f"it has no effect in this version of YAK; only its default, {self.default!r}, is accepted"
            )
        return value


def define(
    name: str,
    kind: ConfigType,
    default: object,
    check: Check | None = None,
    synonyms: tuple[Synonym, ...] = (),
    *,
    has_effect: bool = True,
    update: Update = Update.READ_ONLY,
) -> Callable[[str], ConfigDef]:
    """Makes the definition from its documentation: `define("node.id", ...)("The broker id.")` is a row of a table."""
    text = None if default is None else str(default)
    return lambda documentation: ConfigDef(name, kind, text, documentation, check, synonyms, has_effect, update)


_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_RANGES: Final = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}


def _parse(kind: ConfigType, text: str) -> Value:
    if kind is ConfigType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return text.lower() == "true"
    if kind in _RANGES:
        low, high = _RANGES[kind]
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"{text!r} is not a whole number")
        number = int(text)
        if not low <= number <= high:
            raise ValueError(f"{text} is out of range for type {kind.name.lower()}")
        return number
    if kind is ConfigType.DOUBLE:
        if not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
            raise ValueError(f"{text!r} is not a number")
        return float(text)
    if kind is ConfigType.LIST:
        # A repeated item counts once (KAFKA-19875).
        return list(dict.fromkeys(split_list(text)))
    return text


def effective_text(kind: ConfigType, text: str) -> str:
    """A valid value as Kafka writes it (ConfigDef.convertToString): `TRUE` is `true`, `007` is `7`, `1` is `1.0`."""
    value = _parse(kind, text.strip())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float) and value and not 1e-3 <= abs(value) < 1e7:  # Java's Double.toString
        from decimal import Decimal  # imported when it is needed: brokers start without it

        sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
        assert isinstance(exponent, int)
        first, *rest = map(str, digits)
        return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"
    return str(value)


def split_list(text: str) -> list[str]:
    """The items of a comma-separated LIST value, without blanks around them; an empty string is an empty list."""
    return [item.strip() for item in text.split(",")] if text.strip() else []


def between(low: float, high: float) -> Check:
    """A check for a number from `low` to `high`, both included."""

    def check(name: str, value: Value) -> None:
        at_least(low)(name, value)
        assert isinstance(value, int | float)
        if value > high:
            raise ValueError(f"Value must be no more than {high}")

    return check


def at_least(low: float) -> Check:
    """A check for a number of at least `low`."""

    def check(_name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if value < low:
            raise ValueError(f"Value must be at least {low}")

    return check


def one_of(*choices: str) -> Check:
    """A check for one of these strings."""

    def check(_name: str, value: Value) -> None:
        if value not in choices:
            raise ValueError(f"String must be one of: {', '.join(choices)}")

    return check


def subset_of(*choices: str, may_be_empty: bool = False) -> Check:
    """A check for a list of these strings."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, list)
        if not value and not may_be_empty:
            raise ValueError(f"the list is empty; it takes {', '.join(choices)}")
        for item in value:
            one_of(*choices)(name, item)

    return check


def table_of(definitions: tuple[ConfigDef, ...]) -> Mapping[str, ConfigDef]:
    """The configs by name, in alphabetical order; asserts that every default passes its own rule."""
    table = {definition.name: definition for definition in sorted(definitions, key=lambda found: found.name)}
    assert len(table) == len(definitions), "a config is defined twice"
    for definition in definitions:
        if definition.default is not None:
            definition.accept(definition.default)
    return table


def validate(table: Mapping[str, ConfigDef], name: str, value: str | None) -> None:
    """Raise PeerError(INVALID_CONFIG) unless a client may set this value."""
    definition = table.get(name)
    if definition is None:
        near = closest(name[:100], table)
        hint = f"; the closest is {near}" if near else ""
        raise PeerError(errors.ErrorCode.invalid_config, f"Unknown config name: {name}{hint}")
    if value is None:
        raise PeerError(errors.ErrorCode.invalid_config, f"Null value not supported for config: {name}")
    try:
        definition.accept(value)
    except ValueError as error:
        raise PeerError(
            errors.ErrorCode.invalid_config, f"Invalid value {value[:200]} for configuration {name}: {error}"
        ) from None
