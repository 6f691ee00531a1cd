"""Putting a cleaned segment in the place of those it was made of: Kafka's LocalLog.replaceSegments.

Whatever the moment of a crash, a start finds either the old segments or the new one: what is called `.cleaned` is dropped,
what is called `.swap` is finished (`log_loader`), what is called `.deleted` is gone.
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
    """Whether these closed segments are still in the log, one after the other."""
    if segments[0] not in log.segments or segments[-1] is log.active:
        return False
    index = log.segments.index(segments[0])
    return log.segments[index : index + len(segments)] == list(segments)


def replace(log: Log, segments: Sequence[Segment], cleaned: Segment) -> Callable[[], None]:
    """Have `cleaned` instead of `segments` from now on; the job removes their files, `file.delete.delay.ms` later.

    Quick: files are only renamed. Who reads the old ones reads on. The job waits for the device first, so that the old bytes
    stay until the new ones are sure to be found. Raises LogDirectoryFailure.
    """
    assert holds(log, segments), "only segments of the log can be replaced"
    disk = log.disk
    log.swaps += 1
    # one name for each swap: what the last one left may still be read
    aside = f".{log.swaps}{DELETED_SUFFIX}"
    removed: list[str] = []
    try:
        for segment in segments:
            # a thread that is about to open one by its name finds it open
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
