"""The shipped broker under seeded faults: every invariant after every event."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from yak.sim.seed_report import SeedReport
from yak.sim.spec import Spec
from yak.sim.trial import run_spec

SEEDS_PER_TEST = 20
SEEDS = (*range(1, 36), 45, 75, 91, 92, 95)
"""The last ones have what is rare: together they have the faults of the first 200 seeds. `make test-all` runs 1,000 more."""
OTHER_HASH_SEED = "12345"
"""The tests' own process has one that Python draws."""


@cache
def report_of(seed: int) -> SeedReport:
    """The report of a seed, which two tests read."""
    return run_spec(Spec(seed))


@pytest.mark.parametrize("first", range(0, len(SEEDS), SEEDS_PER_TEST))
def test_every_invariant_holds_over_seeded_faults(first):
    failures = []
    for seed in SEEDS[first : first + SEEDS_PER_TEST]:
        report = report_of(seed)
        if report.error is not None:
            failures.append(f"{report.spec.command()} --lines    # {report.error}")
    assert not failures, "\n" + "\n".join(failures)


def test_the_seeds_reach_the_faults_they_are_for():
    counts: dict[str, int] = {}
    for seed in SEEDS:
        for name, count in report_of(seed).counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in (
        "power losses",
        "kills",
        "orderly stops",
        "connections cut",
        "store outages",
        "stores that lost their history",
        "disk failures: sync",
        "disk failures: append",
        "disks that fail at the start",
        "slow disks",
        "cold caches",
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


def trace_hashes_in_another_process() -> list[str]:
    program = (
        "import json; from yak.sim.spec import Spec; from yak.sim.trial import run_spec;"
        " print(json.dumps([run_spec(Spec(seed)).trace_hash for seed in range(1, 5)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": OTHER_HASH_SEED, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_the_same_seed_gives_the_same_trace_in_another_process_and_under_another_hash_seed():
    assert os.environ.get("PYTHONHASHSEED") != OTHER_HASH_SEED
    here = [report_of(seed).trace_hash for seed in range(1, 5)]
    assert here == trace_hashes_in_another_process()
    assert len(set(here)) == len(here)
