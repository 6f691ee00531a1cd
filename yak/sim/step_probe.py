"""The calls that a broker's step may not make, because they wait for the device or take long: jobs make them.

The simulated disk reports its calls (`SimDisk.on_call`) while a broker steps. A slow call outside of `EXCEPTIONS` fails
the seed after the step: an exception inside of the step would count as a bug of the broker. A start is not a step.
"""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Final

from yak.sim.deliveries import Violation

RENAMES_MAX: Final = 5
"""The files of one segment, with its transaction index and its producer snapshot. More renames in one step, besides the
excepted, are a series."""
_FLUSHED: Final = "partitions.offline_replicas:OfflineReplicas.flushed"
EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("read", "storage.log:Log._must_roll"): "the first append after a start reads the first batch's header",
    ("read", "storage.log:Log._prepare_index_entry"): "the first index entry after a start needs the segment's indexes",
    ("read", "storage.segment:Segment.close_for_appends"): "the first roll after a start reads the segment's indexes",
    ("remove", "storage.segment:Segment.create"): "after a roll without room its empty files must not remain",
    ("remove", "storage.segment:Segment.set_aside"): "a full disk may have no room for another name",
    ("rename", "partitions.offline_replicas:OfflineReplicas.delete"): "a slice of deletions renames few folders",
    ("rename", "storage.log:Log.replace_segments"): "compaction renames a group of segments between two appends",
    ("read", "storage.compaction:cleanable"): "max.compaction.lag.ms needs the first timestamps after a start",
    ("read", "replication.truncation:Truncations._resume"): "a truncation searches its position",
    ("remove", "replication.truncation:Truncations._resume"): "a truncation removes the segments above it",
    ("read", "quorum.raft_log:RaftLog.truncate_to"): "the same in the quorum's log, which is short",
    ("remove", "quorum.raft_log:RaftLog.truncate_to"): "the same",
    ("remove", "quorum.raft_log:RaftLog.start_at_snapshot"): "a leader's snapshot replaces the one or two segments",
    ("sync", "storage.log:Log.sync_truncation"): "a new leader appends before the job has synced the truncation",
    ("sync", _FLUSHED): "a log found again with flush.messages=1 must be durable",
    ("read", _FLUSHED): "and its leader epoch file is written into a folder that is known to be its own",
    ("remove", "storage.log_directory:LogDirectory.forget_lowered"): "one file for each directory and checkpoint",
    (
        "remove",
        "storage.log_directory:LogDirectory.remove_marks",
    ): "a few empty files, which a truncation may write again",
}
"""(call, function of the product on its stack) -> why the step still makes it."""


class StepProbe:
    """The slow disk calls of the step under way."""

    def __init__(self) -> None:
        self._renames = 0
        self._found: str | None = None

    def called(self, call: str, path: str) -> None:
        """The disk got a call inside of the step."""
        if call in ("write", "synced"):
            return
        functions = _product_functions(inspect.currentframe())
        if any((call, function) in EXCEPTIONS for function in functions):
            return
        if call == "rename":
            self._renames += 1
            if self._renames <= RENAMES_MAX:
                return
        self._found = self._found or f"{call} of {path} inside a step: {' < '.join(functions)}"

    def check(self) -> None:
        """The step ended. Raises Violation if it made a slow call."""
        if self._renames or self._found is not None:
            self._renames = 0
            found, self._found = self._found, None
            if found is not None:
                raise Violation(found)


def _product_functions(frame: FrameType | None) -> list[str]:
    """The product's functions below the step on a stack, the innermost first, as module:function without `yak.`."""
    functions = []
    while frame is not None and frame.f_code.co_qualname != "Broker.step":
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("yak.") and not module.startswith("yak.sim."):
            functions.append(f"{module.removeprefix('yak.')}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return functions
