"""Decodes record batches into columns with numpy and pyarrow: no Python code runs per record.

Only the chain of record lengths is sequential (`record_chain`). After it, each varint field is decoded for all records
at once. pyarrow then gathers keys and values: one binary array over the raw bytes has the positions (key start, key
end, value start, value end) of each record, and `take` picks every fourth element, with nulls in its indices.

`take` does not check positions. `_spans_in_order` keeps damaged bytes from crashing the process: every position is
inside its record and not before the previous one. Layout: Kafka's DefaultRecord.java.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from yak.spark.columnar.batches import Body, Damaged, Found
from yak.spark.columnar.header_columns import header_column
from yak.spark.columnar.record_chain import record_bounds
from yak.spark.columnar.schema import LOG_APPEND_TIME
from yak.spark.columnar.varints import Positions, read_varints, read_varlongs

ATTRIBUTES_BYTES: Final = 1
MICROSECONDS: Final = 1000
_MS_MAX: Final = (2**63 - 1) // MICROSECONDS
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


def decode(found: Found, start: int, end: int, *, include_headers: bool) -> Any:
    """The records of [start, end) as a `pyarrow.RecordBatch` of VARIABLE_COLUMNS and, if requested, headers.

    None if there are no records. Raises Damaged.
    """
    if not found.bodies:
        return None
    try:
        return _decode(found, start, end, include_headers)
    except IndexError:
        raise Damaged(_OUT_OF_RANGE) from None


def _decode(found: Found, start: int, end: int, include_headers: bool) -> Any:
    data, bodies = found.plain, found.bodies
    starts, stops = record_bounds(data, bodies)
    counts = np.array([body.records_count for body in bodies])
    timestamp_deltas, position = read_varlongs(data, starts + ATTRIBUTES_BYTES)
    offset_deltas, position = read_varints(data, position)
    offsets = np.repeat(np.array([body.base_offset for body in bodies]), counts) + offset_deltas
    if len(offsets) > 1 and not (offsets[1:] > offsets[:-1]).all():
        raise Damaged("its offsets do not rise")
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
    """Raise Damaged unless key and value lie in their record. `record_bounds` has already checked the order of records.

    No size is negative at this point, so the end of the value bounds all positions of a record.
    """
    if (spans.value_end > stops).any() or (spans.key_start < starts).any():
        raise Damaged(_OUT_OF_RANGE)


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
    return np.clip(milliseconds, -_MS_MAX, _MS_MAX) * MICROSECONDS, types
