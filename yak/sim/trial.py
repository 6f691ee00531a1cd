"""One run of any kind of spec, from start to report."""

from __future__ import annotations

from collections.abc import Callable

from yak.sim.cluster_run import run_cluster
from yak.sim.mutants.catalogue import BY_NAME
from yak.sim.quorum.run import run_quorum
from yak.sim.quorum.spec import QuorumSpec
from yak.sim.run import run_alone
from yak.sim.seed_report import SeedReport
from yak.sim.spec import Spec


def run_spec(spec: Spec, *, lines: list[str] | None = None) -> SeedReport:
    """Run it; a violation is in the report's `error`. `lines` collects the log lines of the run."""
    if isinstance(spec, QuorumSpec):
        run: Callable[..., SeedReport] = run_quorum
    else:
        run = run_alone if spec.brokers == 1 else run_cluster
    if not spec.mutant:
        return run(spec, lines=lines)
    with BY_NAME[spec.mutant].on():
        return run(spec, lines=lines)
