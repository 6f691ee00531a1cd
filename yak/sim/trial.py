"""One run of any kind of spec, from start to report."""

from __future__ import annotations

from yak.sim.mutants.catalogue import BY_NAME
from yak.sim.seed_report import SeedReport
from yak.sim.sound_run import run_sound
from yak.sim.spec import Spec


def run_spec(spec: Spec, *, lines: list[str] | None = None) -> SeedReport:
    """Run it, without the rule that its mutant removes, as `run_sound` does with all rules."""
    if not spec.mutant:
        return run_sound(spec, lines=lines)
    with BY_NAME[spec.mutant].on():
        return run_sound(spec, lines=lines)
