"""kio's generated message classes as a schema: the wire format of each field.

kio's own introspection is private and does not say whether an array itself, not its items, may be null. This is the
small part of it that the request checker and the response encoder need.
"""

import datetime as dt
import uuid
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from struct import calcsize
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, get_args, get_origin

EntityClass: TypeAlias = Any
"""A message class of kio; mypy does not accept classes as dictionary keys."""

NUMBER_CODES: Final = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "error_code": "h",
    "int32": "i",
    "uint32": "I",
    "timedelta_i32": "i",
    "int64": "q",
    "uint64": "Q",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "float64": "d",
}
"""The format characters of `struct` for the kinds that are numbers."""
_FIXED_SIZES: Final = {"uuid": 16} | {kind: calcsize(f">{code}") for kind, code in NUMBER_CODES.items()}
"""Bytes of the kinds with a fixed size."""
STRUCT_KIND: Final = "struct"
UNSET: Final = object()
"""Stands for "the schema gives no default"."""


@dataclass(slots=True, frozen=True)
class SchemaField:
    """One field. `kind` is a kafka type of kio's metadata, or "struct" with the class in `struct`."""

    name: str
    kind: str
    struct: EntityClass | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: object

    @property
    def fixed_size(self) -> int | None:
        """Bytes on the wire if the size is fixed, else None."""
        if self.is_array or self.tag is not None:
            return None
        return _FIXED_SIZES.get(self.kind)


@cache
def schema_fields(entity: EntityClass) -> tuple[SchemaField, ...]:
    """The fields of a kio class in wire order (tagged ones where kio puts them)."""
    return tuple(_describe(field) for field in fields(entity))


def _describe(field: Any) -> SchemaField:
    declared, nullable = _without_none(field.type)
    is_array = get_origin(declared) is tuple
    if is_array:
        declared, _ = _without_none(get_args(declared)[0])
    struct = declared if is_dataclass(declared) else None
    tag = field.metadata.get("tag")
    return SchemaField(
        name=field.name,
        kind=STRUCT_KIND if struct is not None else field.metadata["kafka_type"],
        struct=struct if isinstance(struct, type) else None,
        is_array=is_array,
        nullable=nullable,
        tag=None if tag is None else int(tag),
        default=UNSET if field.default is MISSING else plain(field.default),
    )


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) is not UnionType:
        return declared, False
    inner = [argument for argument in get_args(declared) if argument is not NoneType]
    assert len(inner) == 1, declared
    return inner[0], True


def plain(value: object) -> object:
    """A kio value in YAK's form: durations and times in ms, structures as dicts, arrays as lists."""
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if value is None or isinstance(value, bool | uuid.UUID | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    assert isinstance(value, bytes), value
    return bytes(value)
