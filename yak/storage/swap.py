"""Replacing segments by the cleaned segment made of them: Kafka's LocalLog.replaceSegments.

After a crash at any moment, a start finds either the old segments or the new one. It deletes `.cleaned` and `.deleted`
files and completes the swap of `.swap` files (`log_loader`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from yak.errors import LogDirectoryFailure
from yak.storage.names import CLEANED_SUFFIX, DELETED_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX
from yak.storage.segment import Segment

if TYPE_CHECKING:
    from yak.storage.log import Log


def holds(log: Log, segments: Sequence[Segment]) -> bool:
    """Whether these closed segments are still in the log and adjacent."""
    if segments[0] not in log.segments or segments[-1] is log.active:
        return False
    index = log.segments.index(segments[0])
    return log.segments[index : index + len(segments)] == list(segments)


def replace(log: Log, segments: Sequence[Segment], cleaned: Segment) -> Callable[[], None]:
    """Replace `segments` by `cleaned` now; the returned job deletes their files, `file.delete.delay.ms` later.

    Fast: files are only renamed, and reads of the old ones continue. `Compaction.work` syncs the directory next, so
    that the new names are durable. Raises LogDirectoryFailure.
    """
    assert holds(log, segments), "only segments of the log can be replaced"
    disk = log.disk
    log.swaps += 1
    # a new suffix for each swap: readers may still use the files that the last swap left
    aside = f".{log.swaps}{DELETED_SUFFIX}"
    removed: list[str] = []
    try:
        for segment in segments:
            # open now: a thread could not open the file by its old name after the rename
            segment.open()
        cleaned.set_aside(SWAP_SUFFIX)
        for segment in segments:
            removed += segment.set_aside(aside)
        cleaned.set_aside("")
    except OSError as error:
        raise LogDirectoryFailure(log.directory, error) from error
    index = log.segments.index(segments[0])
    log.segments = [*log.segments[:index], cleaned, *log.segments[index + len(segments) :]]
    log.size_bytes += cleaned.size - sum(segment.size for segment in segments)
    log.cursors = None
    log.names_changed = True

    def delete() -> None:
        for path in removed:
            disk.remove(path)

    return delete


def discard(cleaned: Segment) -> None:
    """Remove the files of a cleaned segment that replaced nothing. Raises OSError."""
    if cleaned.aside == CLEANED_SUFFIX:
        for suffix in SEGMENT_SUFFIXES:
            cleaned.disk.remove(cleaned.path(suffix))
