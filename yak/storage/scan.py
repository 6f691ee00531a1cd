"""Walking the batch headers of a segment file, in a thread or before serving begins: it reads the disk."""

from collections.abc import Iterator

from yak.ids import FilePosition, Offset
from yak.protocol.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, BatchHeader, read_header
from yak.seams.disk import File
from yak.storage.reader import DamagedBatch, NotCached, position_of
from yak.storage.segment import Segment

CHUNK_BYTES = 256 * 1024


def scan_headers(file: File, position: FilePosition, limit: FilePosition) -> Iterator[tuple[FilePosition, BatchHeader]]:
    """(position, header) of each batch that begins in [position, limit); ends early at one that cannot be, or not there.

    Only headers are looked at; the last batch may be cut. Raises OSError.
    """
    expected = -1
    while position + HEADER_BYTES <= limit:
        chunk = file.read(min(CHUNK_BYTES, limit - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = read_header(chunk, at)
            if header.batch_length < BATCH_LENGTH_MIN or header.base_offset < expected:
                return
            expected = header.next_offset
            yield position + at, header
            at += header.size_bytes
        if not at:
            return
        position += at


def headers_within(segment: Segment, start_offset: Offset, end_offset: Offset) -> Iterator[BatchHeader]:
    """Headers of the batches that hold or follow `start_offset`, and of a few before it, up to `end_offset`. Raises OSError.

    Where the index does not help, from the segment's first batch on.
    """
    try:
        position = position_of(segment, start_offset, segment.size, cached=False)
    except (DamagedBatch, NotCached):
        position = 0
    for _, header in scan_headers(segment.open(), position, segment.size):
        if header.base_offset >= end_offset:
            return
        yield header
