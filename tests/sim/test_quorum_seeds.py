"""The metadata quorum alone under seeded faults: every invariant of Raft and KRaft after every event."""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from yak.sim.quorum.spec import QuorumSpec
from yak.sim.seed_report import SeedReport
from yak.sim.trial import run_spec

SEEDS = (*range(1, 12), 31, 32, 36, 44, 50)
"""The last ones have what is rare: together they have the faults of the first 64 seeds. `make test-all` runs 3,000 more."""
SEEDS_PER_TEST = 8
OTHER_HASH_SEED = "12345"
"""The tests' own process has one that Python draws."""


@cache
def report_of(seed: int) -> SeedReport:
    """The report of a seed, which two tests read."""
    return run_spec(QuorumSpec(seed))


@pytest.mark.parametrize("first", range(0, len(SEEDS), SEEDS_PER_TEST))
def test_every_invariant_of_the_quorum_holds_over_seeded_faults(first):
    failures = []
    for seed in SEEDS[first : first + SEEDS_PER_TEST]:
        report = report_of(seed)
        if report.error is not None:
            failures.append(f"{report.spec.command()} --lines    # {report.error}")
    assert not failures, "\n" + "\n".join(failures)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_the_seeds_reach_the_states_that_a_quorum_is_about():
    totals: Counter[str] = Counter()
    for seed in range(1, 301):
        totals.update(report_of(seed).counts)
    for name, count in totals.items():
        assert count > 0 or name == "liveness forfeited", f"no seed has {name}: {totals}"
    assert totals["leaders elected"] > 600
    assert totals["reads"] > 5_000


def trace_hashes_in_another_process() -> list[str]:
    program = (
        "import json; from yak.sim.quorum.spec import QuorumSpec; from yak.sim.trial import run_spec;"
        " print(json.dumps([run_spec(QuorumSpec(seed)).trace_hash for seed in range(1, 5)]))"
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
