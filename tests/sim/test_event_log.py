"""One seed is one run: the same events, byte for byte, in another process and under another hash seed."""

import subprocess
import sys

import pytest

RUNS = {
    "one broker": "from yak.sim.run import Run; run = Run(Spec(seed))",
    "three brokers": "from yak.sim.cluster_run import ClusterRun; run = ClusterRun(Spec(seed, 3))",
}
SEED = 2
"""A small one in both. That another seed is another run is shown in test_seeds.py and test_cluster_seeds.py."""


def event_log(kind: str, seed: int, hash_seed: str) -> bytes:
    """Every line that a reader gets, and every byte that crossed a border, with its time."""
    program = (
        f"import gc, sys; gc.disable(); from yak.sim.spec import Spec; seed = int(sys.argv[1]); {RUNS[kind]};"
        " run.world.log, run.world.traced = [], bytearray(); run.go();"
        " sys.stdout.buffer.write('\\n'.join(run.world.log).encode() + run.world.traced)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(seed)],
        env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("kind", RUNS)
def test_the_same_seed_gives_the_same_event_log_byte_for_byte(kind):
    first = event_log(kind, SEED, "0")
    assert first == event_log(kind, SEED, "12345")
    assert len(first) > 100_000
