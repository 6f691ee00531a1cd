"""One run of the quorum, with or without a mutant, from start to report."""

from __future__ import annotations

from yak.sim.quorum.mutants import BY_NAME
from yak.sim.quorum.run import run_quorum
from yak.sim.quorum.spec import QuorumSpec
from yak.sim.seed_report import SeedReport


def run_quorum_spec(spec: QuorumSpec, *, lines: list[str] | None = None) -> SeedReport:
    """Run it; a violation is in the report's `error`. `lines` collects the log lines of the run."""
    if not spec.mutant:
        return run_quorum(spec, lines=lines)
    with BY_NAME[spec.mutant].on():
        return run_quorum(spec, lines=lines)
