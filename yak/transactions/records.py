"""The records of `__transaction_state` (Kafka's TransactionLogKey.json and TransactionLogValue.json).

Key v0: the transactional id. Value v0 is Kafka's of before `transaction.version`; v1 is flexible, with the producer ids
before and after, and the client's protocol, as tagged fields. YAK writes v1 and reads both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from yak.errors import ProtocolViolation
from yak.ids import TopicPartition
from yak.protocol.varint import append_uvarint, read_uvarint
from yak.transactions.transaction import EMPTY, NO_PRODUCER_ID, PROTOCOL_1, Transaction, TransactionState

TRANSACTION_TOPIC: Final = "__transaction_state"
_KEY_VERSION, _VALUE_VERSION = 0, 1
_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_HEAD: Final = struct.Struct(">qhib")
"""Producer id, producer epoch, timeout, state."""
_TIMES: Final = struct.Struct(">qq")
"""Last update, start."""
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = range(3)
"""Tags."""
_TAGGED_LONG, _TAGGED_SHORT = struct.Struct(">bbq"), struct.Struct(">bbh")
"""Tag, size, value."""
T = TypeVar("T")


class UnreadableTransactionError(ValueError):
    """A record's bytes are no transaction: a newer format, or damage that no checksum caught."""


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records."""
    name = transactional_id.encode()
    return _SHORT.pack(_KEY_VERSION) + _SHORT.pack(len(name)) + name


def transaction_value(transaction: Transaction) -> bytes:
    """The value of a record, v1."""
    out = bytearray(_SHORT.pack(_VALUE_VERSION))
    out += _HEAD.pack(transaction.producer_id, transaction.producer_epoch, transaction.timeout_ms, transaction.state)
    if transaction.state is EMPTY:
        out.append(0)  # null
    else:
        of_topics = (
            _partitions if len(transaction.partitions) <= _REMEMBERED_PARTITIONS_MAX else _partitions.__wrapped__
        )
        out += of_topics(transaction.partitions)
    out += _TIMES.pack(transaction.updated_ms, transaction.started_ms)
    count, tagged = 0, b""
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        count, tagged = 1, _TAGGED_LONG.pack(_PREVIOUS_ID, _LONG.size, transaction.previous_producer_id)
    if transaction.next_producer_id != NO_PRODUCER_ID:
        count, tagged = count + 1, tagged + _TAGGED_LONG.pack(_NEXT_ID, _LONG.size, transaction.next_producer_id)
    if transaction.client_version != PROTOCOL_1:
        count, tagged = count + 1, tagged + _TAGGED_SHORT.pack(_CLIENT_VERSION, _SHORT.size, transaction.client_version)
    out.append(count)
    out += tagged
    return bytes(out)


_REMEMBERED_PARTITIONS_MAX: Final = 100
"""So what is remembered takes a few megabytes at most."""


@lru_cache(maxsize=128)
def _partitions(partitions: frozenset[TopicPartition]) -> bytes:
    """The array of topics. A producer's transactions mostly have the same partitions, and each is written twice."""
    out = bytearray()
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    append_uvarint(out, len(by_topic) + 1)
    for topic, indexes in by_topic.items():
        name = topic.encode()
        append_uvarint(out, len(name) + 1)
        out += name
        append_uvarint(out, len(indexes) + 1)
        for index in indexes:
            out += _INT.pack(index)
        out.append(0)  # no tagged fields
    return bytes(out)


def read_transaction(key: bytes, value: bytes) -> Transaction:
    """The transaction in a record, v0 or v1. Raises UnreadableTransactionError."""
    try:
        return _read_value(_read_key(_Reader(key)), _Reader(value))
    except (struct.error, UnicodeDecodeError, ProtocolViolation, IndexError) as error:
        raise UnreadableTransactionError(str(error)) from None


def _read_key(reader: _Reader) -> str:
    version = reader.number(_SHORT)
    if version != _KEY_VERSION:
        raise UnreadableTransactionError(f"version {version} of a key")
    return reader.take(reader.number(_SHORT)).decode()


def _read_value(transactional_id: str, reader: _Reader) -> Transaction:
    version = reader.number(_SHORT)
    if not 0 <= version <= _VALUE_VERSION:
        raise UnreadableTransactionError(f"version {version} of a value")
    reader.is_flexible = version == _VALUE_VERSION
    producer_id, epoch, timeout_ms, number = reader.numbers(_HEAD)
    if not 0 <= number < len(TransactionState):
        raise UnreadableTransactionError(f"state {number}")
    partitions = [
        TopicPartition(topic, index)
        for topic, indexes in reader.array(lambda: _read_topic(reader))
        for index in indexes
    ]
    updated_ms, started_ms = reader.numbers(_TIMES)
    tags = reader.tags()

    def tagged(tag: int, layout: struct.Struct, default: int) -> int:
        return int(layout.unpack(tags[tag])[0]) if tag in tags else default

    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        previous_producer_id=tagged(_PREVIOUS_ID, _LONG, NO_PRODUCER_ID),
        next_producer_id=tagged(_NEXT_ID, _LONG, NO_PRODUCER_ID),
        timeout_ms=timeout_ms,
        state=TransactionState(number),
        partitions=frozenset(partitions),
        started_ms=started_ms,
        updated_ms=updated_ms,
        client_version=tagged(_CLIENT_VERSION, _SHORT, PROTOCOL_1),
    )


def _read_topic(reader: _Reader) -> tuple[str, list[int]]:
    topic = reader.text()
    indexes = reader.array(lambda: reader.number(_INT))
    reader.tags()
    return topic, indexes


class _Reader:
    """Reads fields in order, plain ones or compact ones (KIP-482)."""

    __slots__ = ("_data", "_position", "is_flexible")

    def __init__(self, data: bytes) -> None:
        self._data, self._position, self.is_flexible = data, 0, False

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        found = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return found

    def number(self, layout: struct.Struct) -> int:
        return self.numbers(layout)[0]

    def take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if size < 0 or self._position > len(self._data):
            raise UnreadableTransactionError(f"a field of {size} bytes, {len(self._data) - start} are left")
        return self._data[start : self._position]

    def _uvarint(self) -> int:
        value, self._position = read_uvarint(self._data, self._position)
        return value

    def text(self) -> str:
        return self.take(self._uvarint() - 1 if self.is_flexible else self.number(_SHORT)).decode()

    def array(self, read: Callable[[], T]) -> list[T]:
        """The elements; none for null."""
        count = self._uvarint() - 1 if self.is_flexible else self.number(_INT)
        if count > len(self._data) - self._position:
            raise UnreadableTransactionError(f"an array of {count} elements")
        return [read() for _ in range(count)]

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, unknown ones included."""
        found: dict[int, bytes] = {}
        if self.is_flexible:
            for _ in range(self._uvarint()):
                tag = self._uvarint()
                found[tag] = self.take(self._uvarint())
        return found
