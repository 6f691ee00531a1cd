"""What a LogStore reports: the events of its opening, the logs it cannot serve, and sizes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from yak.ids import Offset

if TYPE_CHECKING:
    from yak.storage.log import Log
    from yak.storage.log_directory import LogDirectory


@dataclass(slots=True)
class StoreEvent:
    """One log event about what opening found or did."""

    level: Literal["info", "warning", "error"]
    event: str
    fields: dict[str, object]


@dataclass(slots=True)
class OpenReport:
    """What `LogStore.open` found and did. `leftovers` are jobs that finish the deletions that a stop interrupted.

    `lossy`: the machine rebooted without a clean stop, and records that were not synced one by one may be lost.
    """

    was_clean: bool = True
    lossy: bool = False
    logs: int = 0
    recovered_logs: int = 0
    truncated_bytes: int = 0
    events: list[StoreEvent] = field(default_factory=list)
    leftovers: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True)
class DirectoryUsage:
    """One log directory for DescribeLogDirs: sizes in bytes (-1 offline), its logs, and why it is offline."""

    path: str
    total_bytes: int
    usable_bytes: int
    logs: list[Log]
    failure: OSError | None


@dataclass(slots=True)
class Unavailable:
    """A log that stays as it was found: its directory, its topic (the zero id: unknown), and the reason.

    The three offsets are a damaged log's entries in its directory's checkpoints, which keep them.
    """

    directory: str
    topic_id: uuid.UUID
    reason: str
    recovery_point: Offset | None = None
    log_start_offset: Offset | None = None
    cleaned_offset: Offset | None = None


def usage_of(directory: LogDirectory, logs: Sequence[Log]) -> DirectoryUsage:
    """One directory with its sizes, and those of its logs."""
    total = usable = -1
    failure = directory.failure
    if failure is None:
        try:
            total, usable = directory.disk.total_bytes(directory.path), directory.disk.free_bytes(directory.path)
        except OSError as error:
            failure = error
    mine = [log for log in logs if log.directory == directory.path]
    return DirectoryUsage(directory.path, total, usable, mine, failure)
