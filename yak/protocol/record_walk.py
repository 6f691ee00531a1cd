"""Reading inside a batch: decompress it within limits and walk its records, trusting no length in it.

Off the hot path: reads by timestamp, checks of small batches on arrival, compaction. Layout: Kafka's
DefaultRecord.java; every integer is a zigzag varint except the attributes byte.
"""

import zlib
from collections.abc import Generator, Iterator
from typing import NamedTuple, Protocol, cast

import cramjam

from yak.errors import ProtocolViolation
from yak.limits import RECOMPRESSED_BYTES_MAX, RECOMPRESSED_RATIO_MAX
from yak.protocol.record_batch import HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchHeader, Buffer, read_header
from yak.protocol.varint import INT64_MAX, INT64_MIN, int64, read_zigzag

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_FIRST_BUFFER_BYTES = 64 * 1024
_RATIO_COUNTS_FROM_BYTES = 8 * 1024 * 1024
"""Below this size every ratio is allowed: a batch of equal records compresses to almost nothing."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_GZIP_START = b"\x1f\x8b\x08"
"""Magic and the method deflate."""
_INPUT_PIECE_BYTES = 64 * 1024
_OUTPUT_PIECE_BYTES = 256 * 1024
_BUFFERED_BYTES_MAX = 16 * 1024 * 1024


class WalkedRecord(NamedTuple):
    """One record of a batch; null `key` and `value` are None. `headers` are filled only on request."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class _Codec(Protocol):
    def decompress_into(self, data: Buffer, output: bytearray) -> int: ...


def decompress(codec: int, data: Buffer, limit_bytes: int = RECOMPRESSED_BYTES_MAX) -> Buffer:
    """The decompressed records of a batch, at most `limit_bytes`.

    Raises ProtocolViolation for broken data, an unknown codec, or too many decompressed bytes: over the limit, or over
    both 8 MiB and RECOMPRESSED_RATIO_MAX times the compressed size.
    """
    limit_bytes = min(limit_bytes, max(_RATIO_COUNTS_FROM_BYTES, len(data) * RECOMPRESSED_RATIO_MAX))
    if codec == 0:
        return data
    if codec == GZIP:
        return _gunzip(data, limit_bytes)
    if codec == SNAPPY:
        return _unsnap(data, limit_bytes)
    if codec == LZ4:
        return _decompress_growing(cast("_Codec", cramjam.lz4), data, limit_bytes)
    if codec == ZSTD:
        return _decompress_growing(cast("_Codec", cramjam.zstd), data, limit_bytes)
    raise ProtocolViolation(f"compression codec {codec} is unknown")


def _gunzip(data: Buffer, limit_bytes: int) -> bytes:
    """Inflate large records twice, first only to count: a bomb gets at most `_BUFFERED_BYTES_MAX` of memory."""
    pieces: list[bytes] = []
    total = 0
    for piece in _inflate(data):
        total += len(piece)
        if total > limit_bytes:
            raise ProtocolViolation(f"a batch of more than {limit_bytes} bytes when decompressed")
        if total <= _BUFFERED_BYTES_MAX:
            pieces.append(piece)
    return b"".join(pieces if total <= _BUFFERED_BYTES_MAX else _inflate(data))


def _inflate(data: Buffer) -> Iterator[bytes]:
    """Pieces of the inflated data of all members, as Java's GZIPInputStream: bytes behind them that begin no member are
    ignored. Raises ProtocolViolation.
    """
    view = memoryview(data)
    position = yield from _inflate_member(view, 0)
    while view[position : position + len(_GZIP_START)] == _GZIP_START:
        position = yield from _inflate_member(view, position)


def _inflate_member(view: memoryview, position: int) -> Generator[bytes, None, int]:
    """Pieces of the member at `position`; returns its end.

    zlib joins the output of one call while it holds the GIL, which for 120 MiB stops all other threads for 90 ms. After
    each call it also copies the unread input, so the input comes in pieces too.
    """
    inflater = zlib.decompressobj(wbits=31)
    rest = b""
    while not inflater.eof:
        is_read = not rest
        if is_read:
            rest = bytes(view[position : position + _INPUT_PIECE_BYTES])
            position += len(rest)
        try:
            piece = inflater.decompress(rest, _OUTPUT_PIECE_BYTES)
        except zlib.error as error:
            raise ProtocolViolation(f"broken gzip data: {error}") from error
        if is_read and not rest and not piece:
            raise ProtocolViolation("gzip data is cut off")
        rest = inflater.unconsumed_tail
        if piece:
            yield piece
    return position - len(inflater.unused_data)


def _unsnap(data: Buffer, limit_bytes: int) -> Buffer:
    """Snappy, in xerial's framing (as Java and librdkafka write it) or as one raw block."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnap_block(view, limit_bytes)
    blocks = []
    position, total = _XERIAL_HEADER_BYTES, 0
    while position < len(view):
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if size == 0 or position + size > len(view):
            raise ProtocolViolation("a snappy block is cut off")
        block = _unsnap_block(view[position : position + size], limit_bytes - total)
        total += len(block)
        blocks.append(block)
        position += size
    return b"".join(blocks)


def _unsnap_block(block: memoryview, limit_bytes: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit_bytes:
            raise ProtocolViolation(f"a batch of more than {limit_bytes} bytes when decompressed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise ProtocolViolation(f"broken snappy data: {error}") from error


def _decompress_growing(codec: _Codec, data: Buffer, limit_bytes: int) -> Buffer:
    """Try growing buffers up to the limit: the codecs do not know the size, and would otherwise allocate any."""
    size = min(limit_bytes, max(_FIRST_BUFFER_BYTES, len(data) * 8))
    while True:
        output = bytearray(size)
        try:
            written = codec.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise ProtocolViolation(f"broken compressed data: {error}") from error
            if size >= limit_bytes:
                raise ProtocolViolation(f"a batch of more than {limit_bytes} bytes when decompressed") from error
            size = min(limit_bytes, size * 8)
            continue
        return memoryview(output)[:written]


def walk_records(
    batch: Buffer, limit_bytes: int = RECOMPRESSED_BYTES_MAX, *, with_headers: bool = False
) -> Iterator[WalkedRecord]:
    """Each record of one whole batch, in order. Raises ProtocolViolation at the first error."""
    header = read_header(batch)
    records = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], limit_bytes)
    return walk(header, records, with_headers=with_headers)


def check_records(header: BatchHeader, batch: Buffer) -> None:
    """Walk an uncompressed batch to its end; ProtocolViolation when a consumer could not parse it."""
    for _ in walk(header, memoryview(batch)[HEADER_BYTES : header.size_bytes]):
        pass


def walk(header: BatchHeader, records: Buffer, *, with_headers: bool = False) -> Iterator[WalkedRecord]:
    """Each of the `header.records_count` records in decompressed bytes, which must end with the last record."""
    view = memoryview(records)
    data = bytes(view) if len(view) <= _FIRST_BUFFER_BYTES else view
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    position, end = 0, len(data)
    before = -1
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    for index in range(header.records_count):
        size, start = read_zigzag(data, position)
        stop = start + size
        if size < 6 or stop > end:
            raise ProtocolViolation(f"record {index} has a length of {size}, {end - start} bytes are left")
        timestamp_delta, position = read_zigzag(data, start + 1)
        offset_delta, position = read_zigzag(data, position)
        if not before < offset_delta <= header.last_offset_delta:
            raise ProtocolViolation(f"record {index} has offset delta {offset_delta}")
        before = offset_delta
        key, position = _nullable(data, position, stop)
        value, position = _nullable(data, position, stop)
        first_header = position
        position = _skip_headers(data, position, stop)
        if with_headers:
            headers = _headers(data, first_header, stop)
        if position != stop:
            raise ProtocolViolation(f"record {index} ends {stop - position} bytes before its length says")
        if append_time is not None:
            timestamp = append_time
        else:
            timestamp = header.base_timestamp + timestamp_delta
            if not INT64_MIN <= timestamp <= INT64_MAX:
                timestamp = int64(timestamp)
        yield WalkedRecord(header.base_offset + offset_delta, timestamp, key, value, headers)
    if position != end:
        raise ProtocolViolation(f"{end - position} bytes after the last record")


def _nullable(data: Buffer, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = read_zigzag(data, position)
    if size < 0:
        if size != -1:
            raise ProtocolViolation(f"a key or value of length {size}")
        return None, position
    if position + size > stop:
        raise ProtocolViolation(f"a key or value of {size} bytes, {stop - position} are left")
    return bytes(data[position : position + size]), position + size


def _skip_headers(data: Buffer, position: int, stop: int) -> int:
    count, position = read_zigzag(data, position)
    if count < 0 or count > stop - position:
        raise ProtocolViolation(f"{count} record headers in {stop - position} bytes")
    for _ in range(count):
        size, position = read_zigzag(data, position)
        if size < 0 or position + size > stop:
            raise ProtocolViolation(f"a record header's key of {size} bytes, {stop - position} are left")
        size, position = read_zigzag(data, position + size)
        if size < -1 or position + max(size, 0) > stop:
            raise ProtocolViolation(f"a record header's value of {size} bytes, {stop - position} are left")
        position += max(size, 0)
    return position


def _headers(data: Buffer, position: int, stop: int) -> tuple[tuple[bytes, bytes | None], ...]:
    """The headers of a record, which `_skip_headers` has checked."""
    count, position = read_zigzag(data, position)
    headers = []
    for _ in range(count):
        name, position = _nullable(data, position, stop)
        value, position = _nullable(data, position, stop)
        headers.append((name or b"", value))
    return tuple(headers)
