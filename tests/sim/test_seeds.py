"""The shipped broker under seeded faults: every invariant after every event."""

import pytest

from tests.sim.seeds import must_be_the_same_in_another_process, must_hold, report_of
from yak.sim.cluster_faults import ALONE
from yak.sim.spec import Spec

SEEDS_PER_TEST = 20
SEEDS = (*range(1, 31), 33, 88)
"""The last ones have what is rare: together they have the faults of the first 200 seeds. `make test-all` runs 1,000 more."""


@pytest.mark.parametrize("first", range(0, len(SEEDS), SEEDS_PER_TEST))
def test_every_invariant_holds_over_seeded_faults(first):
    must_hold(Spec(seed) for seed in SEEDS[first : first + SEEDS_PER_TEST])


def test_the_seeds_reach_the_faults_they_are_for():
    counts: dict[str, int] = {}
    for seed in SEEDS:
        for name, count in report_of(Spec(seed)).counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in (
        *ALONE,
        "disk failures: sync",
        "disk failures: append",
        "disks that fail at the start",
        "halts for the last directory",
        "requests failed by a bug",
        "fail-stops",
        "killed inside a write",
        "killed inside a start",
        "stores brought back",
        "stores restored",
        "topics deleted",
        "records deleted on request",
        "log starts moved",
        "replicas moved",
        "unflushed, lost with the power",
        "refused kafka_storage_error",
    ):
        assert counts.get(name, 0) > 0, f"no seed has {name}: {counts}"
    assert counts["acknowledged"] > 1_000
    assert counts["read"] >= counts["acknowledged"] - counts["unflushed, lost with the power"]


def test_the_same_seed_gives_the_same_trace_in_another_process_and_under_another_hash_seed():
    must_be_the_same_in_another_process([Spec(seed) for seed in range(1, 5)])
