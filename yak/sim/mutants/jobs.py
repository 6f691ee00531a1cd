"""Mutants of jobs: a step in the middle of one, and a power loss after one that did too little."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from yak.replication.truncation import Truncation, Truncations
from yak.sim.mutants.mutant import Mutant, Swaps
from yak.storage import flush
from yak.storage.flush import FlushPlan
from yak.storage.log import Log
from yak.storage.segment import Segment


def _flush_counts_later_appends(swaps: Swaps) -> None:
    real = Log.flushed

    def flushed(self: Log, plan: FlushPlan, missing: Sequence[Segment], now_ms: int | None = None) -> None:
        if plan.active is self.active:
            plan = replace(plan, up_to_offset=self.log_end_offset)
        real(self, plan, missing, now_ms)

    swaps.put(Log, "flushed", flushed)


def _flush_forgives_a_failed_sync(swaps: Swaps) -> None:
    real = flush._sync_records  # noqa: SLF001

    def sync(segment: Segment) -> bool:
        with suppress(OSError):
            return real(segment)
        return True

    swaps.put(flush, "_sync_records", sync)


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
        "flush-forgives-a-failed-sync",
        "a flush forgives nothing but the file of a segment that left the log",
        _flush_forgives_a_failed_sync,
        50,
        1,
        ("disk",),
    ),
    Mutant(
        "truncation-keeps-recovery-point",
        "after a truncation only what is synced again counts as flushed",
        _truncation_keeps_recovery_point,
        300,
        3,
        ("power after truncation", "kill inside", "cut brokers"),
    ),
)
