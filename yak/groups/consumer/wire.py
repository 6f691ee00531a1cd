"""Kafka's primitive types in group records: plain ones in keys, compact ones (KIP-482) in values.

Only the types of these records and of the embedded protocol of classic members. kio has no schemas for them, since they
never travel as requests.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from yak.errors import ProtocolViolation
from yak.groups.consumer.partitions import AssignmentEpochs, Partitions, TopicIdPartition, by_topic, flattened
from yak.groups.fields import INT32_MIN
from yak.protocol.varint import append_uvarint, read_uvarint, uvarint

T = TypeVar("T")

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_STRING_BYTES_MAX = 0x7FFF
_NO_TAGS = b"\x00"
_ASSIGNMENT_EPOCHS_TAG = 0


class UnreadableRecord(ValueError):
    """A record's bytes do not match its kind: a newer format, or damage that no checksum caught."""


class FieldReader:
    """Reads the fields of one key or value in order. Methods raise UnreadableRecord for missing or invalid bytes."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def int8(self) -> int:
        """A signed byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Two bytes, signed."""
        return self._number(_INT16)

    def int32(self, least: int = INT32_MIN) -> int:
        """Four bytes, signed. Raises UnreadableRecord when the number is below `least`."""
        value = self._number(_INT32)
        if value < least:
            raise UnreadableRecord(f"the number is {value}, the minimum is {least}")
        return value

    def int64(self) -> int:
        """Eight bytes, signed."""
        return self._number(_INT64)

    def key_string(self) -> str:
        """A string of a key: its length as an int16."""
        return self._text(self.int16())

    def plain_string_or_none(self) -> str | None:
        """A plain string with an int16 length; -1 is null."""
        length = self.int16()
        return None if length < 0 else self._text(length)

    def plain_blob(self) -> bytes | None:
        """Plain bytes with an int32 length; -1 is null."""
        length = self.int32()
        return None if length < 0 else self._take(length)

    def plain_array(self, read: Callable[[], T]) -> list[T]:
        """A plain array, not null."""
        return self._elements(self.int32(), read)

    def string(self) -> str:
        """A compact string, not null."""
        found = self.string_or_none()
        if found is None:
            raise UnreadableRecord("null where a string must be")
        return found

    def string_or_none(self) -> str | None:
        """A compact string or null."""
        length = self.uvarint() - 1
        return None if length < 0 else self._text(length)

    def blob(self) -> bytes:
        """Compact bytes, not null."""
        return self._take(self.uvarint() - 1)

    def array(self, read: Callable[[], T]) -> list[T]:
        """A compact array, not null; `read` decodes each element."""
        return self._elements(self.uvarint() - 1, read)

    def partitions(self) -> Partitions:
        """A compact array of structures of a topic id and a compact array of partitions."""
        return flattened((topic_id, numbers) for topic_id, numbers, _ in self.array(self._one_topic))

    def partitions_with_epochs(self, default_epoch: int) -> dict[TopicIdPartition, int]:
        """`partitions` with their assignment epochs; a topic without those, or with a wrong number, has the default."""
        found: dict[TopicIdPartition, int] = {}
        for topic_id, numbers, tags in self.array(self._one_topic):
            reader = FieldReader(tags.get(_ASSIGNMENT_EPOCHS_TAG, _NO_TAGS))
            epochs = [reader.int32() for _ in range(reader.uvarint() - 1)]
            if len(epochs) != len(numbers):
                epochs = [default_epoch] * len(numbers)
            found.update(zip(((topic_id, number) for number in numbers), epochs, strict=True))
        return found

    def tags(self) -> dict[int, bytes]:
        """All tagged fields by number, unknown ones included."""
        found = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = self._take(self.uvarint())
        return found

    def uvarint(self) -> int:
        """An unsigned varint."""
        try:
            value, self.position = read_uvarint(self.data, self.position)
        except ProtocolViolation as error:
            raise UnreadableRecord(str(error)) from None
        return value

    def end(self) -> None:
        """Raise UnreadableRecord if bytes are left."""
        if self.position != len(self.data):
            raise UnreadableRecord(f"{len(self.data) - self.position} bytes too many")

    def _elements(self, count: int, read: Callable[[], T]) -> list[T]:
        if not 0 <= count <= len(self.data) - self.position:
            raise UnreadableRecord(f"an array of {count} elements in {len(self.data) - self.position} bytes")
        return [read() for _ in range(count)]

    def _one_topic(self) -> tuple[uuid.UUID, list[int], dict[int, bytes]]:
        topic_id = uuid.UUID(bytes=self._take(16))
        return topic_id, self.array(lambda: self.int32(least=0)), self.tags()

    def _number(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack(self._take(kind.size))
        assert isinstance(value, int)
        return value

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise UnreadableRecord(f"a string that is not UTF-8: {error.reason}") from None

    def _take(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise UnreadableRecord(f"{length} bytes needed, {len(self.data) - self.position} left")
        taken = self.data[self.position : end]
        self.position = end
        return taken


class FieldWriter:
    """Builds one key or value; every method returns the writer."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out = bytearray()

    def int8(self, value: int) -> FieldWriter:
        """A signed byte."""
        return self.raw(_INT8.pack(value))

    def int16(self, value: int) -> FieldWriter:
        """Two bytes, signed."""
        return self.raw(_INT16.pack(value))

    def int32(self, value: int) -> FieldWriter:
        """Four bytes, signed."""
        return self.raw(_INT32.pack(value))

    def key_string(self, value: str) -> FieldWriter:
        """A string of a key: its length as an int16."""
        encoded = _encoded(value)
        return self.raw(_INT16.pack(len(encoded))).raw(encoded)

    def string(self, value: str | None) -> FieldWriter:
        """A compact string; None is null."""
        return self.raw(_NO_TAGS) if value is None else self.blob(_encoded(value))

    def blob(self, value: bytes) -> FieldWriter:
        """Compact bytes."""
        return self.count(len(value)).raw(value)

    def count(self, elements: int) -> FieldWriter:
        """The length prefix of a compact array, string or bytes."""
        append_uvarint(self.out, elements + 1)
        return self

    def int64(self, value: int) -> FieldWriter:
        """Eight bytes, signed."""
        return self.raw(_INT64.pack(value))

    def strings(self, values: Iterable[str]) -> FieldWriter:
        """A compact array of compact strings."""
        listed = list(values)
        self.count(len(listed))
        for value in listed:
            self.string(value)
        return self

    def int32s(self, values: Sequence[int]) -> FieldWriter:
        """A compact array of signed four bytes."""
        return self.count(len(values)).raw(struct.pack(f">{len(values)}i", *values))

    def partitions(self, partitions: Partitions, epochs: AssignmentEpochs | None = None) -> FieldWriter:
        """A compact array of topic ids with their partitions, in ascending order, and their assignment epochs."""
        topics = by_topic(partitions)
        self.count(len(topics))
        for topic_id, numbers in topics:
            self.raw(topic_id.bytes).int32s(numbers)
            listed = [epochs[topic_id, number] for number in numbers] if epochs else ()
            self.tags({_ASSIGNMENT_EPOCHS_TAG: FieldWriter().int32s(listed).done()} if listed else {})
        return self

    def tags(self, tagged: dict[int, bytes]) -> FieldWriter:
        """Tagged fields, in the order of their numbers."""
        append_uvarint(self.out, len(tagged))
        for tag, value in sorted(tagged.items()):
            self.raw(uvarint(tag)).raw(uvarint(len(value))).raw(value)
        return self

    def raw(self, data: bytes) -> FieldWriter:
        """Unencoded bytes."""
        self.out += data
        return self

    def done(self) -> bytes:
        """All bytes written so far."""
        return bytes(self.out)


def _encoded(value: str) -> bytes:
    encoded = value.encode()
    assert len(encoded) <= _STRING_BYTES_MAX, "requests with longer strings are refused before they get here"
    return encoded
