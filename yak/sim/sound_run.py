"""One run of any kind of spec with all rules, whatever its mutant; `yak.sim.trial` applies that."""

from __future__ import annotations

from yak.sim.cluster_run import ClusterRun
from yak.sim.one_processor import on_one_processor
from yak.sim.quorum.run import QuorumRun
from yak.sim.quorum.spec import QuorumSpec
from yak.sim.run import Run
from yak.sim.seed_report import SeedReport
from yak.sim.spec import Spec


@on_one_processor()
def run_sound(spec: Spec, *, lines: list[str] | None = None) -> SeedReport:
    """Run it; a violation is in the report's `error`. `lines` collects the log lines of the run."""
    run: QuorumRun | Run | ClusterRun
    if isinstance(spec, QuorumSpec):
        run = QuorumRun(spec)
    else:
        run = Run(spec) if spec.brokers == 1 else ClusterRun(spec)
    run.world.log = lines
    try:
        return run.go()
    except Exception as error:  # noqa: BLE001  (an exception of the broker is a finding too)
        return run.report().fail(error, lines)
    finally:
        run.close()
