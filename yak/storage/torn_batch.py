"""Distinguishing an incomplete last write, which may be truncated, from a batch with a wrong length, which is damage.

A process that ends during a write leaves the beginning of the next batch, and nothing after it.
"""

from yak.ids import Offset
from yak.protocol.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_V2,
    compute_crc,
    read_header,
)

_MAGIC_AT = 16
_LENGTH_BITS = 31


def is_torn(data: bytes, left: int, expected: Offset, *, allows_gaps: bool) -> bool:
    """Whether a file's last `left` bytes, beginning with `data`, may be such a write; `expected` is the next offset."""
    if left < HEADER_BYTES:
        return True
    header = read_header(data)
    if header.size_bytes <= left or header.magic != MAGIC_V2 or header.last_offset_delta < 0:
        return False
    if header.base_offset < expected or (header.base_offset != expected and not allows_gaps):
        return False
    # search after `expected`, not after the header's offset: that may be as wrong as its length
    return not _is_whole_but_for_its_length(data, header.batch_length, header.crc) and not _holds_a_batch(
        data, expected
    )


def _is_whole_but_for_its_length(data: bytes, length: int, crc: int) -> bool:
    sizes = [len(data), *(LENGTH_OVERHEAD + (length ^ (1 << bit)) for bit in range(_LENGTH_BITS))]
    return any(HEADER_BYTES <= size <= len(data) and compute_crc(data, 0, size) == crc for size in sizes)


def _holds_a_batch(data: bytes, after: Offset) -> bool:
    """Whether `data` contains a whole batch with a later offset: then the write before it was complete."""
    magic = data.find(MAGIC_V2, HEADER_BYTES + _MAGIC_AT)
    while magic >= 0:
        position = magic - _MAGIC_AT
        if position + HEADER_BYTES > len(data):
            return False
        header = read_header(data, position)
        if (
            header.base_offset > after
            and BATCH_LENGTH_MIN <= header.batch_length <= len(data) - position - LENGTH_OVERHEAD
            and compute_crc(data, position, header.size_bytes) == header.crc
        ):
            return True
        magic = data.find(MAGIC_V2, magic + 1)
    return False
