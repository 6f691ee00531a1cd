"""Decodes the headers column in one pass per header index: a record's third header is decoded in the third pass.

Most records have few headers. A record with many would cost as many passes, so headers from index `PASSES_MAX` on are
decoded record by record.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from yak.errors import ProtocolViolation
from yak.protocol.varint import read_zigzag
from yak.spark.columnar.batches import Damaged
from yak.spark.columnar.schema import HEADERS_TYPE
from yak.spark.columnar.varints import Positions, read_varints

PASSES_MAX: Final = 32
_HEADER_BYTES_MIN: Final = 2
_OUT_OF_RANGE: Final = "a header's length points outside of its record"


class _Places(NamedTuple):
    """Positions of the keys and values of all headers, in byte order."""

    spans: npt.NDArray[np.int32]  # one row per header: key start, key end, value start, value end
    is_null: npt.NDArray[np.bool_]


def header_column(data: npt.NDArray[np.uint8], position: Positions, stops: Positions) -> Any:
    """The headers of all records.

    They start at `position` and end at `stops`; a record without headers has null, as in Spark.

    Raises Damaged, or IndexError.
    """
    counts, position = read_varints(data, position)
    if (counts < 0).any() or (counts * _HEADER_BYTES_MIN > stops - position).any():
        raise Damaged("an impossible number of headers")
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    total = int(first[-1])
    places = _Places(np.empty((total, 4), np.int32), np.empty(total, np.bool_))
    left = np.flatnonzero(counts)
    for number in range(int(min(counts.max(), PASSES_MAX))):
        left = left[counts[left] > number]
        position[left] = _one_of_each(data, position[left], stops[left], places, first[left] + number)
    for record in map(int, left[counts[left] > PASSES_MAX]):
        rest = range(int(first[record]) + PASSES_MAX, int(first[record + 1]))
        position[record] = _rest_of_one(data, int(position[record]), int(stops[record]), places, rest)
    if (position != stops).any():
        raise Damaged(_OUT_OF_RANGE)
    return _assemble(data, places, first, counts) if total else pa.nulls(len(counts), HEADERS_TYPE)


def _one_of_each(
    data: npt.NDArray[np.uint8], position: Positions, stops: Positions, places: _Places, place: npt.NDArray[np.int64]
) -> Positions:
    """Decode the header at each `position`; return the positions after them."""
    key_size, key_start = read_varints(data, position)
    key_end = key_start + key_size
    if (key_size < 0).any() or (key_end > stops).any():
        raise Damaged(_OUT_OF_RANGE)
    value_size, value_start = read_varints(data, key_end)
    value_end = value_start + np.maximum(value_size, 0)
    if (value_end > stops).any():
        raise Damaged(_OUT_OF_RANGE)
    for column, where in enumerate((key_start, key_end, value_start, value_end)):
        places.spans[place, column] = where
    places.is_null[place] = value_size < 0
    return value_end


def _rest_of_one(data: npt.NDArray[np.uint8], position: int, stop: int, places: _Places, rest: range) -> int:
    """Decode one record's headers with the indices `rest`; return the position after the last one."""
    raw = data.data
    try:
        for place in rest:
            key_size, key_start = read_zigzag(raw, position)
            key_end = key_start + key_size
            value_size, value_start = read_zigzag(raw, key_end)
            position = value_start + max(value_size, 0)
            if key_size < 0 or position > stop:
                raise Damaged(_OUT_OF_RANGE)
            places.spans[place] = key_start, key_end, value_start, position
            places.is_null[place] = value_size < 0
    except ProtocolViolation as error:
        raise Damaged(str(error)) from None
    return position


def _assemble(
    data: npt.NDArray[np.uint8], places: _Places, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> Any:
    total = len(places.is_null)
    positions = np.append(places.spans.reshape(-1), places.spans[-1, -1])
    whole = pa.Array.from_buffers(pa.binary(), 4 * total, [None, pa.py_buffer(positions), pa.py_buffer(data)])
    index = np.arange(0, 4 * total, 4, dtype=np.int32)
    keys = _as_text(whole.take(pa.array(index)))
    values = whole.take(pa.array(index + np.int32(2), mask=places.is_null))
    headers = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    offsets = pa.array(first.astype(np.int32), mask=np.append(counts == 0, False))
    return pa.ListArray.from_arrays(offsets, headers, type=HEADERS_TYPE)


def _as_text(keys: Any) -> Any:
    """Header keys as strings; invalid UTF-8 becomes the replacement character, as in Java."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(key, "utf-8", "replace") for key in keys.to_pylist()], pa.string())
