"""kio as the oracle: random messages of its classes, written and read by kio itself."""

import datetime as dt
import io
import random
import uuid
from dataclasses import MISSING, fields
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import get_field_tag
from kio.serial._serialize import get_field_writer

from yak.protocol.schema_fields import schema_fields
from yak.protocol.varint import uvarint
from yak.protocol.versions import API_NAMES, decodable_range

ALL_VERSIONS = [
    (key, version)
    for key in API_NAMES
    for versions in [decodable_range(key)]
    for version in range(versions.minimum, versions.maximum + 1)
]

INTEGERS = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def whole(parts):
    """The bytes of an answer, of which the codec returns the pieces."""
    return b"".join(map(bytes, parts))


def _scalar(kind: str, rng: random.Random, nullable: bool):
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        return rng.choice([0, low, high, -1 if low else 1, rng.randint(low, high)])
    match kind:
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.uniform(-1e6, 1e6)
        case "error_code":
            return rng.choice([ErrorCode.none, ErrorCode.unknown_server_error, *ErrorCode])
        case "timedelta_i32":
            return dt.timedelta(milliseconds=rng.choice([0, -1, 500, rng.randint(-(2**31), 2**31 - 1)]))
        case "timedelta_i64":
            return dt.timedelta(milliseconds=rng.choice([0, -1, 500, rng.randint(-(2**40), 2**40)]))
        case "datetime_i64":
            moment = dt.datetime.fromtimestamp(rng.randint(0, 4_000_000_000), tz=dt.UTC)
            return None if nullable and rng.random() < 0.3 else moment
        case "uuid":
            return None if rng.random() < 0.3 else uuid.UUID(int=rng.getrandbits(128) or 1)
        case "string":
            return rng.choice(["", "a", "é" * 3, "x" * 200, "topic"])
        case "bytes" | "records":
            return rng.choice([b"", b"\0", rng.randbytes(130)])
    raise AssertionError(kind)


def random_entity(entity, rng: random.Random):
    values = {}
    for field in schema_fields(entity):

        def one(field=field):
            return random_entity(field.struct, rng) if field.struct else _scalar(field.kind, rng, field.nullable)

        # kio takes a null in a tagged field for "no tag", except where null is not the default.
        may_be_null = field.nullable and (field.tag is None or field.default is None)
        if may_be_null and field.kind not in ("uuid", "datetime_i64") and rng.random() < 0.25:
            values[field.name] = None
        elif field.is_array:
            values[field.name] = tuple(one() for _ in range(rng.choice([0, 1, 1, 2, 3])))
        else:
            values[field.name] = one()
    return entity(**values)


def kio_bytes(entity) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def kio_entity(entity_class, data: bytes):
    entity, consumed = entity_reader(entity_class)(data, 0)
    assert consumed == len(data)
    return entity


def bytes_with_unknown_tags(entity, rng: random.Random) -> bytes:
    """Like `kio_bytes`, with fields of a newer schema in every structure."""
    out = bytearray()
    tags: dict[int, bytes] = {}
    flexible = type(entity).__flexible__
    for field, described in zip(fields(entity), schema_fields(type(entity)), strict=True):
        value = getattr(entity, field.name)
        tag = get_field_tag(field)
        if described.struct is None or value is None:
            encoded = io.BytesIO()
            get_field_writer(field, flexible, False, tag is not None)(
                encoded, value
            ) if value is not None or tag is None else None
            data = encoded.getvalue()
        elif described.is_array:
            count = len(value)
            head = uvarint(count + 1) if flexible else count.to_bytes(4, "big")
            data = head + b"".join(bytes_with_unknown_tags(item, rng) for item in value)
        else:
            marker = b"\x01" if described.nullable and tag is None else b""
            data = marker + bytes_with_unknown_tags(value, rng)
        if tag is None:
            out += data
        elif value != field.default and (field.default is not MISSING or value):
            tags[int(tag)] = data
    if flexible:
        for _ in range(rng.choice([0, 1, 3])):
            tags[rng.randint(40, 70_000)] = rng.randbytes(rng.choice([0, 1, 150]))
        out += uvarint(len(tags))
        for tag, data in sorted(tags.items()):
            out += uvarint(tag) + uvarint(len(data)) + data
    return bytes(out)


def damage(data: bytearray, rng: random.Random) -> None:
    """Changes, cuts, inserts or removes a few bytes somewhere, with a liking for what makes counts lie."""
    for _ in range(rng.randint(1, 3)):
        position = rng.randint(0, len(data))
        match rng.randint(0, 3):
            case 0:
                data[position : position + 1] = bytes([rng.choice([0, 0x7F, 0x80, 0xFF, rng.randint(0, 255)])])
            case 1:
                del data[position:]
            case 2:
                data[position:position] = rng.choice([b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff" * 4])
            case 3:
                del data[position : position + rng.randint(1, 4)]


@pytest.fixture(scope="session")
def oracle():
    """Random kio messages, kio's own bytes of them, and ways to spoil these."""
    return SimpleNamespace(
        random_entity=random_entity,
        kio_bytes=kio_bytes,
        kio_entity=kio_entity,
        bytes_with_unknown_tags=bytes_with_unknown_tags,
        damage=damage,
    )
