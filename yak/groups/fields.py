"""The fields of coordinator records in Kafka's old encoding: big-endian numbers, strings with a 16-bit length.

kio has no classes for these records, since they never travel in a request. The layouts are those of Kafka's
`group-coordinator/src/main/resources/common/message/*.json`, in versions without tagged fields.
"""

from __future__ import annotations

import struct
from typing import Final

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1


class BadGroupRecord(Exception):
    """A record of `__consumer_offsets` is unreadable."""


class Writer:
    """Appends fields to a buffer; every method returns the writer."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def int16(self, value: int) -> Writer:
        """A 16-bit number."""
        self._out += _SHORT.pack(value)
        return self

    def int32(self, value: int) -> Writer:
        """A 32-bit number."""
        self._out += _INT.pack(value)
        return self

    def int64(self, value: int) -> Writer:
        """A 64-bit number."""
        self._out += _LONG.pack(value)
        return self

    def text(self, text: str | None) -> Writer:
        """A string of at most 32,767 bytes, or null."""
        if text is None:
            return self.int16(-1)
        encoded = text.encode()
        self._out += _SHORT.pack(len(encoded)) + encoded
        return self

    def blob(self, data: bytes) -> Writer:
        """Bytes with a 32-bit length."""
        self._out += _INT.pack(len(data)) + data
        return self

    def done(self) -> bytes:
        """All bytes written so far."""
        return bytes(self._out)


class Reader:
    """Reads fields in order. Every method raises BadGroupRecord when the bytes end too soon."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        """A 16-bit number."""
        return self._number(_SHORT)

    def int32(self, least: int = INT32_MIN) -> int:
        """A 32-bit number. Raises BadGroupRecord when it is below `least`."""
        value = self._number(_INT)
        if value < least:
            raise BadGroupRecord(f"the number is {value}, the minimum is {least}")
        return value

    def int64(self) -> int:
        """A 64-bit number."""
        return self._number(_LONG)

    def _number(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._data, self._position)
        except struct.error:
            raise BadGroupRecord("the record ends inside a number") from None
        self._position += layout.size
        return int(value)

    def text(self) -> str:
        """A non-null string."""
        text = self.nullable_text()
        if text is None:
            raise BadGroupRecord("a null where a string must be")
        return text

    def nullable_text(self) -> str | None:
        """A string or null."""
        size = self.int16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise BadGroupRecord("a string that is not UTF-8") from None

    def blob(self) -> bytes:
        """Bytes with a 32-bit length."""
        return self._take(self.int32())

    def count(self) -> int:
        """The length of an array. Raises BadGroupRecord when it exceeds the number of bytes left."""
        count = self.int32()
        if not 0 <= count <= len(self._data) - self._position:
            raise BadGroupRecord(f"an array of {count} elements")
        return count

    def _take(self, size: int) -> bytes:
        start, stop = self._position, self._position + size
        if size < 0 or stop > len(self._data):
            raise BadGroupRecord(f"a field of {size} bytes, {len(self._data) - start} are left")
        self._position = stop
        return self._data[start:stop]
