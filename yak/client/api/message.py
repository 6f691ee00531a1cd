"""One record each: as a consumer receives it, and as a producer's acknowledgement reports it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from yak.client.api.failures import bad_argument
from yak.client.consumer import ConsumerRecord
from yak.errors import UsageError, YakError
from yak.ids import LeaderEpoch, Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class Serde:
    """Encodes and decodes keys or values; `name` is for error messages.

    `encode` may raise any exception on a value that it cannot write, `decode` on bytes that it cannot read: both become
    YakErrors that name the record.
    """

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def require_serdes(keys: Any, values: Any) -> None:
    """Refuse what is no Serde, such as a function alone. Raises UsageError."""
    for what, serde in (("keys", keys), ("values", values)):
        if not isinstance(serde, Serde):
            raise bad_argument(
                f"{what}={serde!r} is no serde",
                "a serde encodes and decodes",
                f'{what}=yak.Serde("name", encode, decode)',
                f"{what}=yak.BYTES, yak.TEXT or yak.JSON",
            )


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
    return UsageError(
        "not-encoded",
        f"the {what}, of type {type(value).__name__}, cannot be written as {serde.name}; nothing was sent",
        why=why,
        try_=(f"give the producer another way to write {what}s: {other}", "yak help not-encoded"),
    )


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


_UNREAD: Final = object()


@dataclass(frozen=True, slots=True)
class Sent:
    """The position of an acknowledged record.

    With acks=0 the offset is -1; `timestamp_ms` is -1 if the broker reported none.
    """

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int


class Message:
    """One received record.

    `key` and `value` are decoded on first use, so that a record that cannot be decoded affects no other; `raw_key` and
    `raw_value` are the bytes. `timestamp_ms` is -1 when there is none.
    """

    __slots__ = ("_key", "_received", "_serdes", "_value")

    def __init__(self, received: ConsumerRecord, keys: Serde, values: Serde) -> None:
        self._received = received
        self._serdes = (keys, values)
        self._key: Any = _UNREAD
        self._value: Any = _UNREAD

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._received.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._received.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition, as arguments of `seek`, `pause` and `commit`."""
        return TopicPartition(self._received.topic, self._received.partition)

    @property
    def offset(self) -> Offset:
        """The record's offset in its partition."""
        return self._received.offset

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970, set by the producer or the broker as the topic is configured; -1 when there is
        none."""
        return self._received.timestamp_ms

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The record's headers in order; a name may occur twice."""
        return self._received.headers

    @property
    def leader_epoch(self) -> LeaderEpoch | None:
        """The epoch of the leader that appended the record."""
        return self._received.leader_epoch

    @property
    def raw_key(self) -> bytes | None:
        """The undecoded key."""
        return self._received.key

    @property
    def raw_value(self) -> bytes | None:
        """The undecoded value."""
        return self._received.value

    @property
    def key(self) -> Any:
        """The key; text unless the consumer has another serde. Raises YakError (`not-decoded`)."""
        if self._key is _UNREAD:
            self._key = self._decode(self._serdes[0], "key", self._received.key)
        return self._key

    @property
    def value(self) -> Any:
        """The value; JSON unless the consumer has another serde. Raises YakError (`not-decoded`)."""
        if self._value is _UNREAD:
            self._value = self._decode(self._serdes[1], "value", self._received.value)
        return self._value

    def _decode(self, serde: Serde, what: str, raw: bytes | None) -> Any:
        if raw is None:
            return None
        try:
            return serde.decode(raw)
        except Exception as error:
            failure = YakError(
                "not-decoded",
                f"the {what} of {self.topic_partition} at offset {self.offset} is not {serde.name}",
                why=f"{str(error) or type(error).__name__}; it begins with {raw[:24]!r}",
                try_=(f"read message.raw_{what}", f"Consumer({what}s=yak.BYTES), or yak.TEXT, or a yak.Serde"),
            )
            raise failure from error

    def __reduce__(self) -> tuple[type["Message"], tuple[object, ...]]:
        """Pickle the bytes and the serdes, for process pools: what is not decoded yet is a mark of this process."""
        return Message, (self._received, *self._serdes)

    def __repr__(self) -> str:
        raw = self._received
        return f"Message({raw.topic!r}, {raw.partition}, offset={raw.offset}, key={raw.key!r}, value={raw.value!r})"
