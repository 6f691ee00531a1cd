"""What one broker's log has after a restart is what it had before, up to where the power took the rest."""

from __future__ import annotations

from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, Watcher


class RestartKeepsRecords(Watcher):
    """Compares a log with what it was before the restart, also where records may be lost.

    Its last append may be new: the process ended before its step was observed. `compaction_keeps_last` has compacted
    logs.
    """

    def reopened(self, copy: Copy, before: Chain) -> None:
        if copy.originals is not None:
            return
        end = min(copy.end, before.end)
        if (same := copy.chain.agreement(before)) < end:
            raise Violation(f"{copy}: after a restart it differs at {same} from what it was up to {end}")
