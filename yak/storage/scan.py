"""Walking the batch headers of a segment file. It reads the disk: only in a thread, or before the broker serves."""

from collections.abc import Iterator

from yak.ids import FilePosition, Offset
from yak.protocol.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, BatchHeader, compute_crc, read_header
from yak.seams.disk import File
from yak.storage.reader import DamagedBatch, NotCached, position_of
from yak.storage.segment import Segment

CHUNK_BYTES = 256 * 1024


def scan_headers(file: File, position: FilePosition, limit: FilePosition) -> Iterator[tuple[FilePosition, BatchHeader]]:
    """(position, header) of each batch that begins in [position, limit); ends early at an impossible or missing header.

    Reads only headers; the last batch may be incomplete. Raises OSError.
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
    """Headers of the batches from `start_offset` on, and of a few before it, up to `end_offset`.

    Without a usable index it starts at the segment's first batch. Raises OSError. Raises DamagedBatch after the last
    header if the bytes after it are no batch, so that the caller does not miss producers and epochs there. With
    `checks` it reads each batch completely, and raises DamagedBatch also for a wrong CRC.
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
