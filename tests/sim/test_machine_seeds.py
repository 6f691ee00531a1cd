"""Five shipped brokers on three machines, whose machines die: every invariant of replication after every step."""

import pytest

from tests.sim.seeds import totals_of
from yak.sim.cluster_faults import MACHINE_DEATH
from yak.sim.spec import Spec

SEEDS_PER_TEST = 3


@pytest.mark.parametrize("first", [1, 4])
def test_every_invariant_holds_over_deaths_of_machines(first):
    specs = [Spec(seed, 5, faults=(MACHINE_DEATH, "pause")) for seed in range(first, first + SEEDS_PER_TEST)]
    assert totals_of(specs)[MACHINE_DEATH] > 0
