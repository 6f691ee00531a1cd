"""Mutants of jobs: a step in the middle of one, and a power loss after one that did too little."""

from __future__ import annotations

from yak.ports.disk import Disk
from yak.replication.truncation import Truncation, Truncations
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage.flush import FlushPlan


def _flush_counts_later_appends(swaps: Swaps) -> None:
    real = FlushPlan.run

    def run(self: FlushPlan, disk: Disk) -> None:
        covers_all = self._log.active is self._active
        real(self, disk)
        if covers_all:
            self.up_to_offset = self._log.log_end_offset

    swaps.put(FlushPlan, "run", run)


def _truncation_keeps_recovery_point(swaps: Swaps) -> None:
    real = Truncations._go_on  # noqa: SLF001

    def go_on(self: Truncations, truncation: Truncation) -> None:
        log = truncation.log
        before, log.recovery_point = log.recovery_point, 0
        real(self, truncation)
        log.recovery_point = before

    swaps.put(Truncations, "_go_on", go_on)


MUTANTS = (
    Mutant(
        "flush-counts-later-appends",
        "a flush covers only what was appended before its syncs",
        _flush_counts_later_appends,
        200,
        1,
        ("power",),
    ),
    Mutant(
        "truncation-keeps-recovery-point",
        "after a truncation only what is synced again counts as flushed",
        _truncation_keeps_recovery_point,
        300,
        3,
        ("power after truncation", "kill inside", "cut brokers"),
        is_slow=True,
    ),
)
