"""Five shipped brokers on three machines, whose machines die: every invariant of replication after every step."""

import pytest

from yak.sim.cluster_faults import MACHINE_DEATH
from yak.sim.spec import Spec
from yak.sim.trial import run_spec

SEEDS_PER_TEST = 3


@pytest.mark.parametrize("first", [1, 4])
def test_every_invariant_holds_over_deaths_of_machines(first):
    failures, deaths = [], 0
    for seed in range(first, first + SEEDS_PER_TEST):
        report = run_spec(Spec(seed, 5, faults=(MACHINE_DEATH, "pause")))
        deaths += report.counts.get(MACHINE_DEATH, 0)
        if report.error is not None:
            failures.append(f"{report.spec.command()} --lines    # {report.error}")
    assert not failures, "\n" + "\n".join(failures)
    assert deaths
