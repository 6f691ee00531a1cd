"""Fetching batches without reading them: file ranges of a segment for `sendfile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.errors import LogDirectoryFailure
from yak.ids import Offset
from yak.seams.disk import FileSlice
from yak.storage.reader import DamagedBatch, NotCached

if TYPE_CHECKING:
    from yak.storage.log import Log


def slice_of(log: Log, offset: Offset, max_bytes: int, up_to: Offset) -> FileSlice | None:
    """See `Log.slice`. The range is below `up_to`, and must not be truncated before it is sent."""
    if not log.log_start_offset <= offset < up_to:
        return None
    try:
        read = log.plan_read(offset, max_bytes, up_to, at_least_one=False)
        found = read.slice()
    except (NotCached, DamagedBatch):
        return None
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error
    if found is None:
        return None
    part, next_offset, position, segment = found
    log.read_end = read.segment_end if next_offset < 0 else next_offset
    if segment is not None:
        log.remember(offset, next_offset, segment, position)
    return part
