"""The shipped broker under seeded faults: two hundred seeds, every invariant after every event."""

import json
import subprocess
import sys

import pytest

from yak.sim.run import run_seed
from yak.sim.seed_report import replay_command

SEEDS_PER_TEST = 20
SEEDS = 200


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_PER_TEST))
def test_every_invariant_holds_over_seeded_faults(first):
    failures = []
    for seed in range(first, first + SEEDS_PER_TEST):
        report = run_seed(seed)
        if report.error is not None:
            failures.append(f"{replay_command(report)} --lines    # {report.error}")
    assert not failures, "\n" + "\n".join(failures)


def test_the_seeds_reach_the_faults_they_are_for():
    counts: dict[str, int] = {}
    for seed in range(1, 101):
        for name, count in run_seed(seed).counts.items():
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
        "unflushed, lost with the power",
        "refused kafka_storage_error",
    ):
        assert counts.get(name, 0) > 0, f"no seed of the first 100 has {name}: {counts}"
    assert counts["acknowledged"] > 1_000
    assert counts["read"] >= counts["acknowledged"] - counts["unflushed, lost with the power"]


def trace_hashes(hash_seed: str) -> list[str]:
    program = "import json; from yak.sim.run import run_seed; print(json.dumps([run_seed(s).trace_hash for s in range(1, 9)]))"
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
