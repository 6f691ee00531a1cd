"""I1: every batch that a high watermark passed is in every later leader's log, unchanged and at the same offset.

This check also maintains `History.committed`, which other checks read: register it before them.
"""

from __future__ import annotations

from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, History, Watcher


class CommittedStays(Watcher):
    """Compares every leader with everything committed before."""

    def __init__(self, history: History) -> None:
        self._history = history

    def watermark(self, copy: Copy, before: int) -> None:  # noqa: ARG002
        """A leader's high watermark commits everything below it."""
        history, key = self._history, copy.key
        if key in history.forfeited or not copy.is_leader:
            return
        committed = history.committed.setdefault(key, Chain())
        self._compare(copy, committed, min(copy.high_watermark, committed.end))
        if copy.high_watermark > committed.end:
            if copy.chain.at(copy.high_watermark) is None:
                raise Violation(f"I1: {copy}: no batch ends at the high watermark {copy.high_watermark}")
            committed.take(copy.chain, copy.high_watermark)
            history.committed_epoch[key] = copy.leader_epoch
            for other in history.copies[key].values():
                if other.is_leader and other.leader_epoch > copy.leader_epoch and other.is_held:
                    self._holds_all(other, committed)

    def role(self, copy: Copy) -> None:
        """A new leader has everything that was committed in earlier epochs."""
        history, key = self._history, copy.key
        committed = history.committed.get(key)
        if not copy.is_leader or committed is None or key in history.forfeited:
            return
        if copy.leader_epoch >= history.committed_epoch.get(key, -1):
            self._holds_all(copy, committed)

    def _holds_all(self, copy: Copy, committed: Chain) -> None:
        if copy.end < committed.end:
            raise Violation(
                f"I1: {copy} leads in epoch {copy.leader_epoch} and ends at {copy.end}, but all below {committed.end}"
                " was committed"
            )
        self._compare(copy, committed, committed.end)

    def _compare(self, copy: Copy, committed: Chain, end: int) -> None:
        if copy.chain.at(end) != committed.at(end):
            where = copy.chain.agreement(committed)
            raise Violation(
                f"I1: {copy}, leader in epoch {copy.leader_epoch}, differs at {where} from what was committed up to {end}"
            )
