"""One run of whatever kind its spec asks for, from start to verdict."""

from __future__ import annotations

from yak.sim.cluster_run import run_cluster
from yak.sim.mutants.catalogue import BY_NAME
from yak.sim.run import run_alone
from yak.sim.spec import Spec
from yak.sim.verdict import Verdict


def run_spec(spec: Spec, *, lines: list[str] | None = None) -> Verdict:
    """Run it; what was violated is in the verdict's `error`. `lines` collects the run for a reader."""
    run = run_alone if spec.brokers == 1 else run_cluster
    if not spec.mutant:
        return run(spec, lines=lines)
    with BY_NAME[spec.mutant].on():
        return run(spec, lines=lines)
