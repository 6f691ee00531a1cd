"""The metadata quorum alone under seeded faults: every invariant of Raft and KRaft after every event."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from yak.sim.quorum.run import run_quorum_seed

SEEDS = 64
SEEDS_PER_TEST = 8
"""`make test-all` runs 3,000 more."""


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_PER_TEST))
def test_every_invariant_of_the_quorum_holds_over_seeded_faults(first):
    failures = []
    for seed in range(first, first + SEEDS_PER_TEST):
        report = run_quorum_seed(seed)
        if report.error is not None:
            failures.append(f"{report.spec.command()} --lines    # {report.error}")
    assert not failures, "\n" + "\n".join(failures)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_the_seeds_reach_the_states_that_a_quorum_is_about():
    totals: Counter[str] = Counter()
    for seed in range(1, 301):
        totals.update(run_quorum_seed(seed).counts)
    for name, count in totals.items():
        assert count > 0 or name == "liveness forfeited", f"no seed has {name}: {totals}"
    assert totals["leaders elected"] > 600
    assert totals["reads"] > 5_000


def trace_hashes(hash_seed: str) -> list[str]:
    program = (
        "import json; from yak.sim.quorum.run import run_quorum_seed as run;"
        " print(json.dumps([run(seed).trace_hash for seed in range(1, 9)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_the_same_seed_gives_the_same_trace_in_other_processes_and_under_other_hash_seeds():
    first = trace_hashes("0")
    assert first == trace_hashes("12345")
    assert len(set(first)) == len(first)
