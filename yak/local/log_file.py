"""The end of a process's log file, for errors and reports."""

from __future__ import annotations

import os
from typing import Final

_END_BYTES: Final = 64 * 1024


def read_end(path: str | os.PathLike[str], since: int = 0, *, bytes_max: int = _END_BYTES) -> str:
    """What was written after the first `since` bytes, at most the last `bytes_max` bytes of it; empty without a file.

    A log that is shorter than `since` was begun again, and counts from its start.
    """
    try:
        with open(path, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(since if since <= end else 0, end - bytes_max))
            return log.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def size(path: str | os.PathLike[str]) -> int:
    """The length of a log in bytes; 0 without a file."""
    try:
        return os.path.getsize(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def last_line(path: str | os.PathLike[str], since: int = 0) -> str:
    """The last line with text among those that `read_end` finds; empty when there is none."""
    lines = [line.strip() for line in read_end(path, since).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def has_event(line: str, event: str) -> bool:
    """Whether this line of a broker's log, text or JSON, is this event."""
    return f" {event} " in line or f'"event": "{event}"' in line
