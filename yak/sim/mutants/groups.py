"""Mutants of offset commits, group coordinators, and retention on replicas."""

from __future__ import annotations

from typing import Any

from yak.broker.coordinator_partitions import CoordinatorPartitions
from yak.coordination.loader import CoordinatorLoader
from yak.errors import ErrorCode
from yak.groups.classic.group import ClassicGroup
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.log import Log


def _ack_commits_at_once(swaps: Swaps) -> None:
    swaps.put(
        CoordinatorPartitions, "when_acknowledged", lambda _self, _partition, _appended, then: then(ErrorCode.none)
    )


def _take_commits_of_anybody(swaps: Swaps) -> None:
    swaps.put(ClassicGroup, "check_commit", lambda *_arguments: None)


def _serve_before_loading(swaps: Swaps) -> None:
    def go_on(self: CoordinatorLoader) -> None:
        if not self._is_over:
            self._is_over = True
            self._done(0)

    swaps.put(CoordinatorLoader, "go_on", go_on)


def _retain_to_the_log_end(swaps: Swaps) -> None:
    real = Log.expired_segments

    def expired(self: Log, now_ms: int, _high_watermark: int) -> Any:
        return real(self, now_ms, self.log_end_offset)

    swaps.put(Log, "expired_segments", expired)


def _retain_what_is_not_due(swaps: Swaps) -> None:
    def expired(self: Log, _now_ms: int, high_watermark: int) -> Any:
        is_over = len(self.segments) > 1 and self.segments[1].base_offset <= high_watermark
        return self.segments[:1] if is_over and "delete" in self.config.cleanup_policy else []

    swaps.put(Log, "expired_segments", expired)


def _retain_everything(swaps: Swaps) -> None:
    swaps.put(Log, "expired_segments", lambda *_arguments: [])


MUTANTS = (
    Mutant(
        "commit-acked-unreplicated",
        "a commit of offsets is acknowledged when it is committed",
        _ack_commits_at_once,
        60,
        faults=("cut brokers", "kill", "slow way", "power"),
    ),
    Mutant(
        "old-generation-commits",
        "only members of the present generation commit offsets",
        _take_commits_of_anybody,
        40,
        faults=("kill",),
    ),
    Mutant("coordinator-not-loaded", "a coordinator reads its log before it serves", _serve_before_loading, 40),
    Mutant(
        "retention-past-hw",
        "retention takes nothing above the high watermark",
        _retain_to_the_log_end,
        150,
        faults=("slow way", "pause", "slow disk"),
    ),
    Mutant("retention-of-what-is-not-due", "retention takes what is due only", _retain_what_is_not_due, 20),
    Mutant("retention-never", "retention takes what is due", _retain_everything, 60, faults=("kill",)),
)
