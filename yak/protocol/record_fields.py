"""The fields of records that no request carries: those of coordinators, and the embedded protocol of classic members.

kio has no classes for them. The layouts are those of Kafka's `*/src/main/resources/common/message/*.json`. Strings, bytes
and arrays are plain, or in flexible versions compact (KIP-482).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from yak.errors import ProtocolViolation
from yak.protocol.varint import append_uvarint, read_uvarint, uvarint

T = TypeVar("T")

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_STRING_BYTES_MAX: Final = 0x7FFF


class UnreadableRecord(ValueError):
    """A record's bytes do not match its kind: a newer format, or damage that no checksum caught."""


class FieldReader:
    """Reads the fields of one key or value in order. Methods raise UnreadableRecord for missing or invalid bytes."""

    __slots__ = ("data", "is_compact", "position")

    def __init__(self, data: bytes, *, is_compact: bool = False) -> None:
        self.data = data
        self.position = 0
        self.is_compact = is_compact

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

    def text(self) -> str:
        """A string, not null."""
        text = self.nullable_text()
        if text is None:
            raise UnreadableRecord("null where a string must be")
        return text

    def nullable_text(self) -> str | None:
        """A string or null."""
        length = self.uvarint() - 1 if self.is_compact else self.int16()
        try:
            return None if length < 0 else self.take(length).decode()
        except UnicodeDecodeError as error:
            raise UnreadableRecord(f"a string that is not UTF-8: {error.reason}") from None

    def blob(self) -> bytes:
        """Bytes, not null."""
        return self.take(self._length())

    def nullable_blob(self) -> bytes | None:
        """Bytes or null."""
        length = self._length()
        return None if length < 0 else self.take(length)

    def array(self, read: Callable[[], T]) -> list[T]:
        """An array, not null; `read` decodes each element."""
        elements = self.nullable_array(read)
        if elements is None:
            raise UnreadableRecord("null where an array must be")
        return elements

    def nullable_array(self, read: Callable[[], T]) -> list[T] | None:
        """An array or null."""
        count, left = self._length(), len(self.data) - self.position
        if count > left:
            raise UnreadableRecord(f"an array of {count} elements in {left} bytes")
        return None if count < 0 else [read() for _ in range(count)]

    def tags(self) -> dict[int, bytes]:
        """All tagged fields by number, unknown ones included; there are none where fields are plain."""
        found = {}
        for _ in range(self.uvarint() if self.is_compact else 0):
            tag = self.uvarint()
            found[tag] = self.take(self.uvarint())
        return found

    def uvarint(self) -> int:
        """An unsigned varint."""
        try:
            value, self.position = read_uvarint(self.data, self.position)
        except ProtocolViolation as error:
            raise UnreadableRecord(str(error)) from None
        return value

    def take(self, length: int) -> bytes:
        """The next bytes."""
        start, end = self.position, self.position + length
        if length < 0 or end > len(self.data):
            raise UnreadableRecord(f"{length} bytes needed, {len(self.data) - start} left")
        self.position = end
        return self.data[start:end]

    def end(self) -> None:
        """Raise UnreadableRecord if bytes are left."""
        if self.position != len(self.data):
            raise UnreadableRecord(f"{len(self.data) - self.position} bytes too many")

    def _length(self) -> int:
        """The length of bytes or of an array; negative for null."""
        return self.uvarint() - 1 if self.is_compact else self.int32()

    def _number(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self.data, self.position)
        except struct.error:
            raise UnreadableRecord("the record ends inside a number") from None
        self.position += layout.size
        return int(value)


class FieldWriter:
    """Builds one key or value; every method returns the writer."""

    __slots__ = ("_out", "is_compact")

    def __init__(self, *, is_compact: bool = False) -> None:
        self._out = bytearray()
        self.is_compact = is_compact

    def int8(self, value: int) -> FieldWriter:
        """A signed byte."""
        return self.raw(_INT8.pack(value))

    def int16(self, value: int) -> FieldWriter:
        """Two bytes, signed."""
        return self.raw(_INT16.pack(value))

    def int32(self, value: int) -> FieldWriter:
        """Four bytes, signed."""
        return self.raw(_INT32.pack(value))

    def int64(self, value: int) -> FieldWriter:
        """Eight bytes, signed."""
        return self.raw(_INT64.pack(value))

    def text(self, text: str | None) -> FieldWriter:
        """A string; None is null."""
        encoded = b"" if text is None else text.encode()
        assert len(encoded) <= _STRING_BYTES_MAX, "requests with longer strings are refused before they get here"
        length = -1 if text is None else len(encoded)
        return (self.count(length) if self.is_compact else self.int16(length)).raw(encoded)

    def blob(self, data: bytes) -> FieldWriter:
        """Bytes."""
        return self.count(len(data)).raw(data)

    def count(self, elements: int) -> FieldWriter:
        """The length of bytes or of an array; -1 is null."""
        if not self.is_compact:
            return self.int32(elements)
        append_uvarint(self._out, elements + 1)
        return self

    def texts(self, texts: Iterable[str]) -> FieldWriter:
        """An array of strings."""
        listed = list(texts)
        self.count(len(listed))
        for text in listed:
            self.text(text)
        return self

    def int32s(self, values: Sequence[int]) -> FieldWriter:
        """An array of numbers of four bytes."""
        return self.count(len(values)).raw(struct.pack(f">{len(values)}i", *values))

    def tags(self, tagged: dict[int, bytes]) -> FieldWriter:
        """Tagged fields, in the order of their numbers."""
        append_uvarint(self._out, len(tagged))
        for tag, value in sorted(tagged.items()):
            self.raw(uvarint(tag)).raw(uvarint(len(value))).raw(value)
        return self

    def raw(self, data: bytes) -> FieldWriter:
        """Unencoded bytes."""
        self._out += data
        return self

    def done(self) -> bytes:
        """All bytes written so far."""
        return bytes(self._out)
