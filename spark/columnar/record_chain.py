"""Finds the start of each record of a batch: the only sequential part, because each start depends on the record before.

A run of records of equal size is found at once: if the same length stands at every `stride` bytes, each record starts
where the previous one ends. A plain loop walks records of changing sizes.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from yak.spark.columnar.batches import Body, Damaged
from yak.spark.columnar.varints import Positions, read_varints

_RUN_MIN: Final = 16
"""For shorter runs of equal records the loop is faster."""
_LOOP_MIN, _LOOP_MAX = 32, 4096
"""How many records the loop walks before the next search for a run. It doubles each time that no run is found."""
_SHIFTS: Final = (0, 7, 14, 21, 28)


def record_bounds(data: npt.NDArray[np.uint8], bodies: tuple[Body, ...]) -> tuple[Positions, Positions]:
    """(start of each record after its length, end of each record) over all bodies. Raises Damaged, or IndexError."""
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
        raise Damaged("its records do not end where it does")


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
    raise Damaged("a record has no length")


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
    raise Damaged("a record has no length")
