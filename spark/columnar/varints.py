"""Decodes the zigzag varints of many records at once: one byte of each per round, until all have ended."""

from typing import Final

import numpy as np
import numpy.typing as npt

from yak.spark.columnar.batches import Damaged

Positions = npt.NDArray[np.int64]

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
_MORE: Final = 0x80
_BITS: Final = 0x7F


def read_varints(data: npt.NDArray[np.uint8], position: Positions) -> tuple[npt.NDArray[np.int64], Positions]:
    """(values, positions after them) of the 32-bit varints at `position`. Raises Damaged, or IndexError at the end."""
    return _read(data, position, VARINT_BYTES_MAX)


def read_varlongs(data: npt.NDArray[np.uint8], position: Positions) -> tuple[npt.NDArray[np.int64], Positions]:
    """(values, positions after them) of the 64-bit varints at `position`. Raises Damaged, or IndexError at the end."""
    return _read(data, position, VARLONG_BYTES_MAX)


def _read(data: npt.NDArray[np.uint8], position: Positions, bytes_max: int) -> tuple[npt.NDArray[np.int64], Positions]:
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
        raise Damaged(f"a varint of more than {bytes_max} bytes")
    values = (raw >> np.uint64(1)).view(np.int64)
    values ^= -(raw & np.uint64(1)).view(np.int64)
    return values, after
