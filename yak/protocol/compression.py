"""Compressing the records of a batch in the framings of Kafka's clients.

gzip members, snappy in xerial's framing, LZ4 frames, zstd frames; all by `cramjam`. Decompression, which must survive
hostile input, is in `record_walk`.
"""

from __future__ import annotations

import struct

import cramjam

from yak.protocol.record_batch import Buffer

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
"""snappy-java's stream header: magic, version, lowest compatible version."""
XERIAL_BLOCK_BYTES = 32 * 1024
_LENGTH = struct.Struct(">i")


def compress(codec: int, records: Buffer) -> bytes:
    """`records` compressed with this codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd)."""
    data = bytes(records)
    if codec == 0:
        return data
    if codec == 1:
        return bytes(cramjam.gzip.compress(data))
    if codec == 2:
        return _snap(data)
    if codec == 3:
        return _lz4(data)
    if codec == 4:
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"compression codec {codec} is unknown")


def _snap(data: bytes) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts.append(_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _lz4(data: bytes) -> bytes:
    """Independent blocks: Java's clients accept no others (Lz4BlockInputStream)."""
    compressor = cramjam.lz4.Compressor(block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())
