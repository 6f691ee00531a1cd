"""Responses, and requests, from plain dicts: a version-independent structure becomes the bytes of a version.

A handler builds one dict with kio's field names. Fields that a version lacks are dropped; missing ones get the schema's
default. Encoders are compiled from kio's classes, once for each version, and write bytes directly: kio's own writer
takes 10 to 30 times longer than its reader, and building its frozen dataclasses a quarter of that again. kio stays the
schema, and the oracle in the tests.

Values are plain: ints (also for error codes), ms for durations and times (None for no time), uuid.UUID or None, str,
bytes, dicts and lists of them. None counts as missing where a version has no null.
"""

import struct
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from yak.protocol.hot_pieces import append_count
from yak.protocol.schema_fields import NUMBER_CODES, STRUCT_KIND, UNSET, EntityClass, SchemaField, schema_fields
from yak.protocol.schemas import load_request_schema
from yak.protocol.varint import append_uvarint
from yak.protocol.versions import API_NAMES

Fields: TypeAlias = Mapping[str, object]
Writer: TypeAlias = Callable[[bytearray, Any], None]


class EncodedItems(NamedTuple):
    """The encoded structures of an array, for a response that repeats them."""

    length: int
    data: bytes


UnknownNames: TypeAlias = Callable[[tuple[str, ...], frozenset[str]], None]
"""Called with a structure's path and names that this version lacks; raises TypeError when no version has them."""

_ZERO_UUID: Final = bytes(16)
_INT16_MAX: Final = 2**15 - 1
_EMPTY: Final = {"string": "", "bytes": b"", "records": None, "bool": False, "float64": 0.0, "uuid": None}
_pack_int16: Final = struct.Struct(">h").pack


def struct_writer(entity: EntityClass, path: tuple[str, ...], unknown: UnknownNames) -> Writer:
    """The writer of one structure. `path` is its path in the response, for `unknown`."""
    plain_fields = [field for field in schema_fields(entity) if field.tag is None]
    tagged = [field for field in schema_fields(entity) if field.tag is not None]
    writers = _field_writers(plain_fields, entity.__flexible__, path, unknown)
    if entity.__flexible__:
        writers.append(_tags_writer(tagged, path, unknown))
    names = frozenset(field.name for field in schema_fields(entity))
    accepted = set(names)

    def write_struct(out: bytearray, value: Fields) -> None:
        if not accepted.issuperset(value):
            extra = frozenset(value) - names
            unknown(path, extra)
            accepted.update(extra)
        for write in writers:
            write(out, value)

    return write_struct


@cache
def request_writer(api_key: int, api_version: int) -> Writer:
    """The writer of a request's body. It raises TypeError for a field that the version lacks."""

    def refuse_unknown(path: tuple[str, ...], names: frozenset[str]) -> None:
        # Unlike a response, a request that loses a field changes its meaning.
        raise TypeError(f"{'.'.join((API_NAMES[api_key], *path))} v{api_version} has no field {sorted(names)}")

    return struct_writer(load_request_schema(api_key, api_version), (), refuse_unknown)


def natural_default(field: SchemaField) -> object:
    """The schema's default in plain values, or that of Kafka's generated classes when it names none."""
    if field.default is not UNSET:
        return field.default
    if field.is_array:
        return ()
    if field.struct is not None:
        return None if field.nullable else {}
    if field.kind == "datetime_i64":
        return None if field.nullable else 0
    return _EMPTY.get(field.kind, 0)


def _field_writers(
    plain_fields: list[SchemaField], flexible: bool, path: tuple[str, ...], unknown: UnknownNames
) -> list[Writer]:
    """Writers that take the whole structure's dict; adjacent fields of fixed size share one."""
    writers: list[Writer] = []
    run: list[SchemaField] = []
    for field in plain_fields:
        if field.fixed_size is not None and field.kind != "uuid":
            run.append(field)
            continue
        if run:
            writers.append(_run_writer(run))
            run = []
        writers.append(_named_writer(field, _value_writer(field, flexible, path, unknown)))
    if run:
        writers.append(_run_writer(run))
    return writers


def _run_writer(run: list[SchemaField]) -> Writer:
    pack = struct.Struct(">" + "".join(NUMBER_CODES[field.kind] for field in run)).pack
    names = [(field.name, _wire_number(natural_default(field))) for field in run]
    if len(names) == 1:
        ((name, default),) = names

        def write_one(out: bytearray, value: Fields) -> None:
            try:
                out += pack(value.get(name, default))
            except struct.error:
                _write_run_slowly(out, value, run, pack)

        return write_one

    def write_run(out: bytearray, value: Fields) -> None:
        get = value.get
        try:
            out += pack(*[get(name, default) for name, default in names])
        except struct.error:
            _write_run_slowly(out, value, run, pack)

    return write_run


def _write_run_slowly(out: bytearray, value: Fields, run: list[SchemaField], pack: Callable[..., bytes]) -> None:
    """Replace Nones by their meaning (no time, or missing); values that still do not fit are a bug: TypeError."""
    numbers = []
    for field in run:
        number = value.get(field.name)
        if number is None and not (field.kind == "datetime_i64" and field.nullable):
            number = natural_default(field)
        numbers.append(_wire_number(number))
    try:
        out += pack(*numbers)
    except struct.error as error:
        values = {field.name: value.get(field.name) for field in run}
        raise TypeError(f"{values}: {error}") from None


def _wire_number(value: object) -> object:
    return -1 if value is None else value


def _named_writer(field: SchemaField, write: Writer) -> Writer:
    name, default = field.name, natural_default(field)
    nullable = field.nullable

    def write_named(out: bytearray, value: Fields) -> None:
        found = value.get(name, default)
        if found is None and not nullable:
            found = default
        try:
            write(out, found)
        except (AttributeError, ValueError) as error:
            raise TypeError(f"{name}: {found!r}: {error}") from None

    return write_named


def _value_writer(field: SchemaField, flexible: bool, path: tuple[str, ...], unknown: UnknownNames) -> Writer:
    if field.is_array:
        element = SchemaField(field.name, field.kind, field.struct, False, False, None, UNSET)
        if element.fixed_size is not None and field.kind != "uuid":
            return _number_array_writer(NUMBER_CODES[field.kind], flexible)
        return _array_writer(_value_writer(element, flexible, path, unknown), flexible)
    if field.kind == STRUCT_KIND:
        assert field.struct is not None
        inner = struct_writer(field.struct, (*path, field.name), unknown)
        return _nullable_struct_writer(inner) if field.nullable and field.tag is None else inner
    if field.kind == "uuid":
        return _write_uuid
    if field.kind == "string":
        return _write_compact_string if flexible else _write_string
    if field.kind in ("bytes", "records"):
        return _bytes_writer(flexible)
    pack = struct.Struct(">" + NUMBER_CODES[field.kind]).pack

    def write_number(out: bytearray, value: object) -> None:
        out += pack(_wire_number(value))

    return write_number


def _write_uuid(out: bytearray, value: uuid.UUID | None) -> None:
    out += _ZERO_UUID if value is None else value.bytes


def _write_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
        return
    encoded = value.encode()
    if len(encoded) > _INT16_MAX:
        raise ValueError(f"a string of {len(encoded)} bytes")
    out += _pack_int16(len(encoded))
    out += encoded


def _write_compact_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
        return
    encoded = value.encode()
    append_uvarint(out, len(encoded) + 1)
    out += encoded


def _bytes_writer(flexible: bool) -> Writer:
    def write_bytes(out: bytearray, value: bytes | None) -> None:
        append_count(out, -1 if value is None else len(value), flexible)
        if value is not None:
            out += value

    return write_bytes


def _number_array_writer(code: str, flexible: bool) -> Writer:
    @cache
    def packer(count: int) -> Callable[..., bytes]:
        return struct.Struct(f">{count}{code}").pack

    def write_numbers(out: bytearray, values: Any) -> None:
        if values is None:
            append_count(out, -1, flexible)
            return
        count = len(values)
        append_count(out, count, flexible)
        try:
            # Replica sets are short; a packer is cached for those lengths only.
            out += packer(count)(*values) if count <= 16 else struct.pack(f">{count}{code}", *values)
        except struct.error as error:
            raise TypeError(f"{values!r}: {error}") from None

    return write_numbers


def _array_writer(write: Writer, flexible: bool) -> Writer:
    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            append_count(out, -1, flexible)
            return
        if type(values) is EncodedItems:
            append_count(out, values.length, flexible)
            out += values.data
            return
        append_count(out, len(values), flexible)
        for value in values:
            write(out, value)

    return write_array


def _nullable_struct_writer(inner: Writer) -> Writer:
    def write_nullable(out: bytearray, value: Fields | None) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        inner(out, value)

    return write_nullable


def _tags_writer(tagged: list[SchemaField], path: tuple[str, ...], unknown: UnknownNames) -> Writer:
    """A writer of the tagged fields whose values differ from their defaults."""
    entries: list[tuple[str, int, Writer, bytes]] = []
    for field in sorted(tagged, key=lambda field: field.tag or 0):
        assert field.tag is not None
        write = _value_writer(field, True, path, unknown)
        default = bytearray()
        write(default, natural_default(field))
        entries.append((field.name, field.tag, write, bytes(default)))
    if not entries:
        return lambda out, _value: out.append(0)

    def write_tags(out: bytearray, value: Fields) -> None:
        block, count = bytearray(), 0
        for name, tag, write, default in entries:
            found = value.get(name)
            if found is None:
                continue
            encoded = bytearray()
            write(encoded, found)
            if encoded != default:
                count += 1
                append_uvarint(block, tag)
                append_uvarint(block, len(encoded))
                block += encoded
        append_uvarint(out, count)
        out += block

    return write_tags
