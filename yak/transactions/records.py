"""The records of `__transaction_state` (Kafka's TransactionLogKey.json and TransactionLogValue.json).

Key v0: the transactional id. Value v0 is Kafka's of before `transaction.version`; v1 is flexible, with the producer ids
before and after, and the client's protocol, as tagged fields. YAK writes v1 and reads both.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from yak.ids import TopicPartition
from yak.protocol.record_fields import FieldReader, UnreadableRecord
from yak.protocol.varint import append_uvarint
from yak.transactions.transaction import EMPTY, NO_PRODUCER_ID, PROTOCOL_1, Transaction, TransactionState

TRANSACTION_TOPIC: Final = "__transaction_state"
_KEY_VERSION, _VALUE_VERSION = 0, 1
_SHORT, _LONG = struct.Struct(">h"), struct.Struct(">q")
_HEAD: Final = struct.Struct(">qhib")
"""Producer id, producer epoch, timeout, state."""
_TIMES: Final = struct.Struct(">qq")
"""Last update, start."""
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = range(3)
"""Tags."""
_TAGGED_LONG, _TAGGED_SHORT = struct.Struct(">bbq"), struct.Struct(">bbh")
"""Tag, size, value."""


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
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    append_uvarint(out, len(by_topic) + 1)
    for topic, indexes in sorted(by_topic.items()):
        indexes.sort()
        name = topic.encode()
        append_uvarint(out, len(name) + 1)
        out += name
        append_uvarint(out, len(indexes) + 1)
        out += struct.pack(f">{len(indexes)}i", *indexes)
        out.append(0)  # no tagged fields
    return bytes(out)


def read_transaction(key: bytes, value: bytes) -> Transaction:
    """The transaction in a record, v0 or v1. Raises UnreadableRecord."""
    reader = FieldReader(key)
    version = reader.int16()
    if version != _KEY_VERSION:
        raise UnreadableRecord(f"version {version} of a key")
    transactional_id = reader.text()
    return _read_value(transactional_id, FieldReader(value))


def _read_value(transactional_id: str, reader: FieldReader) -> Transaction:
    version = reader.int16()
    if not 0 <= version <= _VALUE_VERSION:
        raise UnreadableRecord(f"version {version} of a value")
    reader.is_compact = version == _VALUE_VERSION
    producer_id, epoch, timeout_ms, number = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    if not 0 <= number < len(TransactionState):
        raise UnreadableRecord(f"state {number}")
    topics = reader.nullable_array(lambda: _read_topic(reader)) or ()
    partitions = [TopicPartition(topic, index) for topic, indexes in topics for index in indexes]
    updated_ms, started_ms = reader.int64(), reader.int64()
    tags = reader.tags()

    def tagged(tag: int, layout: struct.Struct, default: int) -> int:
        try:
            return int(layout.unpack(tags[tag])[0]) if tag in tags else default
        except struct.error as error:
            raise UnreadableRecord(str(error)) from None

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


def _read_topic(reader: FieldReader) -> tuple[str, list[int]]:
    topic, indexes = reader.text(), reader.nullable_array(reader.int32) or []
    reader.tags()
    return topic, indexes
