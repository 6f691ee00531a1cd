"""The benchmark of the longest step runs through all of its phases: it stands on parts of the simulator that change."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "benchmarks" / "bench_longest_step.py"


def test_each_phase_of_a_small_run_has_a_longest_step() -> None:
    command = [sys.executable, str(BENCH), "--partitions", "12", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    phases = [line.split()[0] for line in done.stdout.splitlines()]
    changes = ["creations", "rolls", "retention", "elections", "truncations", "deletes", "all"]
    assert [phase for phase in phases if phase[0].islower()] == changes, done.stderr
    assert {"Fetch", "OffsetCommit", "ConsumerGroupHeartbeat,", "ElectLeaders", "CreateTopics"} <= set(phases)
