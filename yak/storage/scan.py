"""Walking the batch headers of a segment file, in a thread or before serving begins: it reads the disk."""

from collections.abc import Iterator

from yak.ids import FilePosition, Offset
from yak.protocol.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, BatchHeader, compute_crc, read_header
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


def headers_within(
    segment: Segment, start_offset: Offset, end_offset: Offset, *, checks: bool = False
) -> Iterator[BatchHeader]:
    """Headers of the batches that hold or follow `start_offset`, and of a few before it, up to `end_offset`.

    Where the index does not help, from the segment's first batch on. Raises OSError, and DamagedBatch after the last header
    where what follows is no batch: who takes less for all would not know of producers and epochs that are there. With `checks`
    also where a batch is not what its CRC says, for which all of it is read.
    """
    try:
        reached = position_of(segment, start_offset, segment.size, cached=False)
    except (DamagedBatch, NotCached):
        reached = 0
    file = segment.open()
    for position, header in scan_headers(file, reached, segment.size):
        if header.base_offset >= end_offset:
            return
        if checks and compute_crc(file.read(header.size_bytes, position)) != header.crc:
            raise DamagedBatch(file.path, position, "its bytes are not what its CRC says")
        yield header
        reached = position + header.size_bytes
    if reached != segment.size:
        raise DamagedBatch(file.path, reached, "no batch that could be there")
