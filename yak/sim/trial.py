"""One run of any kind of spec, from start to report."""

from __future__ import annotations

from contextlib import nullcontext

from yak.sim.cluster_run import ClusterRun
from yak.sim.mutants.catalogue import BY_NAME
from yak.sim.one_processor import on_one_processor
from yak.sim.quorum.run import QuorumRun
from yak.sim.seed_report import SeedReport
from yak.sim.spec import Spec


@on_one_processor()
def run_spec(spec: Spec, *, lines: list[str] | None = None) -> SeedReport:
    """Run it, without the rule that its mutant removes; a violation is in the report's `error`.

    `lines` collects the log lines of the run.
    """
    with BY_NAME[spec.mutant].on() if spec.mutant else nullcontext():
        run = QuorumRun(spec) if spec.brokers == 0 else ClusterRun(spec)
        run.world.log = lines
        try:
            return run.go()
        except Exception as error:  # noqa: BLE001  (an exception of the broker is a finding too)
            return run.report().fail(error, lines)
        finally:
            run.close()
