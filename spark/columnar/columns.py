"""Decodes record batches into columns with numpy and pyarrow: no Python code runs per record.

Only the chain of record lengths is sequential (`record_bounds`). After it, each varint field is decoded for all records
at once. pyarrow then gathers keys and values: one binary array over the raw bytes has the positions (key start, key
end, value start, value end) of each record, and `take` picks every fourth element, with nulls in its indices.

`take` does not check positions. `_spans_in_order` keeps damaged bytes from crashing the process: every position is
inside its record and not before the previous one. Layout: Kafka's DefaultRecord.java.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from yak.errors import ProtocolViolation
from yak.protocol.varint import read_zigzag
from yak.spark.columnar.batches import Body, InvalidBatches, WantedBatches
from yak.spark.columnar.schema import HEADERS_TYPE, LOG_APPEND_TIME

Positions = npt.NDArray[np.int64]

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
_MORE: Final = 0x80
_BITS: Final = 0x7F


def read_varints(
    data: npt.NDArray[np.uint8], position: Positions, bytes_max: int = VARINT_BYTES_MAX
) -> tuple[npt.NDArray[np.int64], Positions]:
    """(values, positions after them) of the varints at `position`. Raises InvalidBatches, IndexError at the end."""
    first = data[position]
    raw = first.astype(np.uint64)
    after = position + 1
    more = np.flatnonzero(first >= _MORE)
    if len(more):
        raw &= np.uint64(_BITS)
    for number in range(1, bytes_max):
        if not len(more):
            break
        byte = data[after[more]]
        raw[more] |= (byte & np.uint8(_BITS)).astype(np.uint64) << np.uint64(7 * number)
        after[more] += 1
        more = more[byte >= _MORE]
    if len(more):
        raise InvalidBatches(f"a varint of more than {bytes_max} bytes")
    values = (raw >> np.uint64(1)).view(np.int64)
    values ^= -(raw & np.uint64(1)).view(np.int64)
    return values, after


_RUN_MIN: Final = 16
"""For shorter runs of equal records the loop is faster."""
_LOOP_MIN, _LOOP_MAX = 32, 4096
"""How many records the loop walks before the next search for a run. It doubles each time that no run is found."""
_SHIFTS: Final = (0, 7, 14, 21, 28)


def record_bounds(data: npt.NDArray[np.uint8], bodies: tuple[Body, ...]) -> tuple[Positions, Positions]:
    """(start of each record after its length, its end) over all bodies. Raises InvalidBatches, or IndexError."""
    found: list[Positions] = []
    for body in bodies:
        _walk(data, body, found)
    sizes, starts = read_varints(data, np.concatenate(found))
    return starts, starts + sizes


def _walk(data: npt.NDArray[np.uint8], body: Body, found: list[Positions]) -> None:
    """Append the positions of the body's records to `found`; the last record must end where the body ends."""
    position, left = body.start, body.records_count
    raw = data[body.start : body.end].tobytes()
    loop = _LOOP_MIN
    while left:
        run, position = _run(data, position, body.end, left)
        if len(run):
            found.append(run)
            left -= len(run)
        if len(run) >= _RUN_MIN:
            loop = _LOOP_MIN
            continue
        count = min(left, loop)
        walked, position = _loop(raw, position - body.start, count)
        found.append(np.array(walked, np.int64) + body.start)
        position += body.start
        left -= count
        loop = min(2 * loop, _LOOP_MAX)
    if position != body.end:
        raise InvalidBatches("its records do not end where it does")


def _run(data: npt.NDArray[np.uint8], position: int, end: int, left: int) -> tuple[Positions, int]:
    """(positions of the records with the same size as the one at `position`, position after them)."""
    size, length_bytes = _length(data, position)
    stride = length_bytes + size
    count = min(left, (end - position) // stride)
    if count < _RUN_MIN:
        return np.empty(0, np.int64), position
    stop = position + count * stride
    same = data[position:stop:stride] == data[position]
    for byte in range(1, length_bytes):
        same &= data[position + byte : stop : stride] == data[position + byte]
    equal = count if same.all() else int(same.argmin())
    return position + stride * np.arange(equal), position + stride * equal


def _length(data: npt.NDArray[np.uint8], position: int) -> tuple[int, int]:
    """(a record's size, bytes of its length field)."""
    raw = 0
    for index, shift in enumerate(_SHIFTS):
        byte = int(data[position + index])
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw & 1:
                break
            return raw >> 1, index + 1
    raise InvalidBatches("a record has no length")


def _loop(raw: bytes, position: int, count: int) -> tuple[list[int], int]:
    """(positions of `count` records, position after them), relative to the body."""
    positions: list[int] = []
    add = positions.append
    for _ in range(count):
        add(position)
        byte = raw[position]
        position += 1
        if byte < 0x80:
            position += byte >> 1
            continue
        second = raw[position]
        position += 1
        size = (byte & 0x7F) | (second & 0x7F) << 7
        if second >= 0x80:
            more, position = _rest_of_length(raw, position)
            size |= more
        position += size >> 1
    return positions, position


def _rest_of_length(raw: bytes, position: int) -> tuple[int, int]:
    """(bits of a length from its third byte on, position after it)."""
    size = 0
    for shift in _SHIFTS[2:]:
        byte = raw[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, position
    raise InvalidBatches("a record has no length")


PASSES_MAX: Final = 32
_HEADER_BYTES_MIN: Final = 2
_HEADERS_OUT_OF_RANGE: Final = "a header's length points outside of its record"


class _HeaderSpans(NamedTuple):
    """Positions of the keys and values of all headers, in byte order."""

    spans: npt.NDArray[np.int32]  # one row per header: key start, key end, value start, value end
    is_null: npt.NDArray[np.bool_]


def header_column(data: npt.NDArray[np.uint8], position: Positions, stops: Positions) -> Any:
    """The headers of all records.

    They start at `position` and end at `stops`; a record without headers has null, as in Spark.

    Raises InvalidBatches, or IndexError.
    """
    counts, position = read_varints(data, position)
    if (counts < 0).any() or (counts * _HEADER_BYTES_MIN > stops - position).any():
        raise InvalidBatches("an impossible number of headers")
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    total = int(first[-1])
    headers = _HeaderSpans(np.empty((total, 4), np.int32), np.empty(total, np.bool_))
    left = np.flatnonzero(counts)
    for number in range(int(min(counts.max(), PASSES_MAX))):
        left = left[counts[left] > number]
        position[left] = _one_of_each(data, position[left], stops[left], headers, first[left] + number)
    for record in map(int, left[counts[left] > PASSES_MAX]):
        rest = range(int(first[record]) + PASSES_MAX, int(first[record + 1]))
        position[record] = _rest_of_one(data, int(position[record]), int(stops[record]), headers, rest)
    if (position != stops).any():
        raise InvalidBatches(_HEADERS_OUT_OF_RANGE)
    return _assemble(data, headers, first, counts) if total else pa.nulls(len(counts), HEADERS_TYPE)


def _one_of_each(
    data: npt.NDArray[np.uint8],
    position: Positions,
    stops: Positions,
    headers: _HeaderSpans,
    place: npt.NDArray[np.int64],
) -> Positions:
    """Decode the header at each `position`; return the positions after them."""
    key_size, key_start = read_varints(data, position)
    key_end = key_start + key_size
    if (key_size < 0).any() or (key_end > stops).any():
        raise InvalidBatches(_HEADERS_OUT_OF_RANGE)
    value_size, value_start = read_varints(data, key_end)
    value_end = value_start + np.maximum(value_size, 0)
    if (value_end > stops).any():
        raise InvalidBatches(_HEADERS_OUT_OF_RANGE)
    for column, where in enumerate((key_start, key_end, value_start, value_end)):
        headers.spans[place, column] = where
    headers.is_null[place] = value_size < 0
    return value_end


def _rest_of_one(data: npt.NDArray[np.uint8], position: int, stop: int, headers: _HeaderSpans, rest: range) -> int:
    """Decode one record's headers with the indices `rest`; return the position after the last one."""
    raw = data.data
    try:
        for place in rest:
            key_size, key_start = read_zigzag(raw, position)
            key_end = key_start + key_size
            value_size, value_start = read_zigzag(raw, key_end)
            position = value_start + max(value_size, 0)
            if key_size < 0 or position > stop:
                raise InvalidBatches(_HEADERS_OUT_OF_RANGE)
            headers.spans[place] = key_start, key_end, value_start, position
            headers.is_null[place] = value_size < 0
    except ProtocolViolation as error:
        raise InvalidBatches(str(error)) from None
    return position


def _assemble(
    data: npt.NDArray[np.uint8], headers: _HeaderSpans, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> Any:
    total = len(headers.is_null)
    positions = np.append(headers.spans.reshape(-1), headers.spans[-1, -1])
    whole = pa.Array.from_buffers(pa.binary(), 4 * total, [None, pa.py_buffer(positions), pa.py_buffer(data)])
    index = np.arange(0, 4 * total, 4, dtype=np.int32)
    keys = _as_text(whole.take(pa.array(index)))
    values = whole.take(pa.array(index + np.int32(2), mask=headers.is_null))
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    offsets = pa.array(first.astype(np.int32), mask=np.append(counts == 0, False))
    return pa.ListArray.from_arrays(offsets, structs, type=HEADERS_TYPE)


def _as_text(keys: Any) -> Any:
    """Header keys as strings; invalid UTF-8 becomes the replacement character, as in Java."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(key, "utf-8", "replace") for key in keys.to_pylist()], pa.string())


ATTRIBUTES_BYTES: Final = 1
MICROSECONDS: Final = 1000
MS_MAX: Final = (2**63 - 1) // MICROSECONDS
_OUT_OF_RANGE: Final = "a length in it points outside of it"

VARIABLE_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType")


class _Spans(NamedTuple):
    """Start and end of each record's key and value; a null starts and ends at the same position."""

    key_start: Positions
    key_end: Positions
    key_is_null: npt.NDArray[np.bool_]
    value_start: Positions
    value_end: Positions
    value_is_null: npt.NDArray[np.bool_]


def decode(found: WantedBatches, start: int, end: int, *, include_headers: bool) -> Any:
    """The records of [start, end) as a `pyarrow.RecordBatch` of VARIABLE_COLUMNS and, if requested, headers.

    None if there are no records. Raises InvalidBatches.
    """
    if not found.bodies:
        return None
    try:
        return _decode(found, start, end, include_headers)
    except IndexError:
        raise InvalidBatches(_OUT_OF_RANGE) from None


def _decode(found: WantedBatches, start: int, end: int, include_headers: bool) -> Any:
    data, bodies = found.plain, found.bodies
    starts, stops = record_bounds(data, bodies)
    counts = np.array([body.records_count for body in bodies])
    timestamp_deltas, position = read_varints(data, starts + ATTRIBUTES_BYTES, VARLONG_BYTES_MAX)
    offset_deltas, position = read_varints(data, position)
    offsets = np.repeat(np.array([body.base_offset for body in bodies]), counts) + offset_deltas
    if len(offsets) > 1 and not (offsets[1:] > offsets[:-1]).all():
        raise InvalidBatches("its offsets do not rise")
    chosen = slice(*np.searchsorted(offsets, (start, end)))
    if chosen.start == chosen.stop:
        return None
    starts, stops, position = starts[chosen], stops[chosen], position[chosen]
    spans = _key_and_value(data, position)
    _spans_in_order(spans, starts, stops)
    key, value = _gather(data, spans)
    timestamps, types = _timestamps(bodies, counts, timestamp_deltas)
    columns = [
        key,
        value,
        pa.array(offsets[chosen]),
        pa.array(timestamps[chosen]).view(pa.timestamp("us", tz="UTC")),
        pa.array(types[chosen]),
    ]
    if not include_headers:
        return pa.RecordBatch.from_arrays(columns, VARIABLE_COLUMNS)
    columns.append(header_column(data, spans.value_end, stops))
    return pa.RecordBatch.from_arrays(columns, (*VARIABLE_COLUMNS, "headers"))


def _key_and_value(data: npt.NDArray[np.uint8], position: Positions) -> _Spans:
    key_size, key_start = read_varints(data, position)
    key_end = key_start + np.maximum(key_size, 0)
    value_size, value_start = read_varints(data, key_end)
    value_end = value_start + np.maximum(value_size, 0)
    return _Spans(key_start, key_end, key_size < 0, value_start, value_end, value_size < 0)


def _spans_in_order(spans: _Spans, starts: Positions, stops: Positions) -> None:
    """Raise InvalidBatches unless key and value lie in their record. `record_bounds` has checked the order of records.

    No size is negative at this point, so the end of the value bounds all positions of a record.
    """
    if (spans.value_end > stops).any() or (spans.key_start < starts).any():
        raise InvalidBatches(_OUT_OF_RANGE)


def _gather(data: npt.NDArray[np.uint8], spans: _Spans) -> tuple[Any, Any]:
    count = len(spans.key_start)
    positions = np.empty(4 * count + 1, np.int32)
    positions[0:-1:4] = spans.key_start
    positions[1::4] = spans.key_end
    positions[2::4] = spans.value_start
    positions[3::4] = spans.value_end
    positions[-1] = positions[-2]
    whole = pa.Array.from_buffers(pa.binary(), 4 * count, [None, pa.py_buffer(positions), pa.py_buffer(data)])
    index = np.arange(0, 4 * count, 4, dtype=np.int32)
    return _take(whole, index, spans.key_is_null), _take(whole, index + np.int32(2), spans.value_is_null)


def _take(whole: Any, index: npt.NDArray[np.int32], is_null: npt.NDArray[np.bool_]) -> Any:
    if not is_null.any():
        return whole.take(pa.array(index))
    if is_null.all():
        return pa.nulls(len(index), pa.binary())
    return whole.take(pa.array(index, mask=is_null))


def _timestamps(
    bodies: tuple[Body, ...], counts: npt.NDArray[np.int64], deltas: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Microseconds since 1970, and timestamp types. A time outside the range of microseconds is clamped."""
    types = np.repeat(np.array([body.timestamp_type for body in bodies], np.int32), counts)
    if any(body.timestamp_type == LOG_APPEND_TIME for body in bodies):
        deltas = np.where(types == LOG_APPEND_TIME, 0, deltas)
    milliseconds = np.repeat(np.array([body.base_timestamp_ms for body in bodies]), counts) + deltas
    return np.clip(milliseconds, -MS_MAX, MS_MAX) * MICROSECONDS, types
