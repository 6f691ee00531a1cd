"""Conversion of keys and values to bytes and back.

A `Serde` is a name and two functions. They never get `None`: Kafka's null is None on both sides (a record whose value
is None is a tombstone, which compaction treats as a deletion).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from yak.client.api.failures import with_notes
from yak.errors import UsageError


@dataclass(frozen=True, slots=True)
class Serde:
    """Encodes and decodes keys or values; `name` is for error messages.

    `encode` may raise any exception on a value that it cannot write, `decode` on bytes that it cannot read: both become
    YakErrors that name the record.
    """

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def to_bytes(serde: Serde, what: str, value: Any) -> bytes | None:
    """The bytes of a key or value; `what` says which of them. Raises UsageError (`not-encoded`)."""
    if value is None:
        return None
    try:
        encoded = serde.encode(value)
    except Exception as error:
        raise _not_encoded(serde, what, value, str(error) or type(error).__name__) from error
    if not isinstance(encoded, bytes):
        raise _not_encoded(serde, what, value, f"its encode() gave {type(encoded).__name__}, not bytes")
    return encoded


def _not_encoded(serde: Serde, what: str, value: Any, why: str) -> UsageError:
    other = f"{what}s=yak.BYTES" if isinstance(value, bytes | bytearray | memoryview) else f"{what}s=yak.Serde(...)"
    error = UsageError(
        "not-encoded",
        f"the {what}, of type {type(value).__name__}, cannot be written as {serde.name}; nothing was sent",
        why=why,
        try_=(f"give the producer another way to write {what}s: {other}", "yak help not-encoded"),
    )
    return with_notes(error)


def _encode_json(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _encode_text(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise TypeError("text is a str, or bytes that are text already")
    return value.encode()


def _encode_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("only bytes, bytearray and memoryview are bytes")
    return bytes(value)


JSON = Serde("JSON", _encode_json, json.loads)
"""JSON in UTF-8 (RFC 8259, so NaN is refused). Bytes pass as encoded JSON."""
TEXT = Serde("text", _encode_text, bytes.decode)
"""A str as UTF-8. Bytes pass as encoded text."""
BYTES = Serde("bytes", _encode_bytes, bytes)
"""Bytes as they are."""
