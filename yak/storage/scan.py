"""Walking the batch headers of a segment file, in a thread or before serving begins: it reads the disk."""

from collections.abc import Iterator

from yak.ids import FilePosition
from yak.protocol.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, BatchHeader, read_header
from yak.seams.disk import File

CHUNK_BYTES = 256 * 1024


def scan_headers(file: File, position: FilePosition, limit: FilePosition) -> Iterator[tuple[FilePosition, BatchHeader]]:
    """(position, header) of each batch that begins in [position, limit); ends early at an impossible one.

    Only headers are looked at; the last batch may be cut. Raises OSError.
    """
    while position + HEADER_BYTES <= limit:
        chunk = file.read(min(CHUNK_BYTES, limit - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = read_header(chunk, at)
            if header.batch_length < BATCH_LENGTH_MIN:
                return
            yield position + at, header
            at += header.size_bytes
        if not at:
            return
        position += at
