"""IncrementalAlterConfigs: set, delete, append, subtract (KIP-339; Kafka's ConfigurationControlManager.java)."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from yak.config.definitions import ConfigDef, ConfigType, split_list
from yak.errors import ErrorCode, PeerError

Validate: TypeAlias = Callable[[str, str], None]
"""Raises PeerError if a config must not have this value."""


class IncrementalOp(IntEnum):
    """The operations, with the numbers of the request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One operation of a request; `operation` is unchecked, so that an unknown one can be refused."""

    name: str
    operation: int
    value: str | None


def apply_incremental(
    table: Mapping[str, ConfigDef],
    overrides: Mapping[str, str],
    changes: Sequence[Change],
    validate: Validate,
    inherited: Callable[[str], str | None],
) -> dict[str, str]:
    """The resource's own settings after all changes; if one change is refused, none applies.

    `inherited` gives the value of a config that the resource does not set itself: APPEND extends that list.
    Raises PeerError: INVALID_REQUEST for a config named twice, a missing value, or an unknown operation;
    INVALID_CONFIG for an unknown config, append or subtract on a config that is no list, and refusals of `validate`.
    """
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise PeerError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    for change in changes:  # Kafka's ConfigAdminManager checks this before any value
        if change.value is None and change.operation != IncrementalOp.DELETE:
            raise PeerError(ErrorCode.invalid_request, f"Null value not supported for config: {change.name}")
    result = dict(overrides)
    for change in changes:
        if change.operation == IncrementalOp.DELETE:
            result.pop(change.name, None)
            continue
        value = _new_value(table, result, change, inherited)
        if value != overrides.get(change.name):
            validate(change.name, value)
        result[change.name] = value
    return result


def _new_value(
    table: Mapping[str, ConfigDef], current: Mapping[str, str], change: Change, inherited: Callable[[str], str | None]
) -> str:
    if change.operation not in (IncrementalOp.SET, IncrementalOp.APPEND, IncrementalOp.SUBTRACT):
        raise PeerError(ErrorCode.invalid_request, f"Unknown operation type {change.operation}")
    assert change.value is not None
    if change.operation == IncrementalOp.SET:
        return change.value
    definition = table.get(change.name)
    if definition is None:
        raise PeerError(ErrorCode.invalid_config, f"Unknown config name: {change.name}")
    operation = IncrementalOp(change.operation)
    if definition.type is not ConfigType.LIST:
        raise PeerError(
            ErrorCode.invalid_config, f"Can't {operation.name} to key {change.name} because its type is not LIST."
        )
    text = current[change.name] if change.name in current else inherited(change.name)
    items = split_list(text or "")
    given = split_list(change.value)
    if operation is IncrementalOp.APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)
