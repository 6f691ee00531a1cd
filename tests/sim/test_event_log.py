"""One seed is one run: the same events, byte for byte, in another process and under another hash seed."""

import subprocess
import sys

import pytest

BROKERS = (1, 3)
SEED = 3
"""A small one in both. That another seed is another run is shown in test_cluster_seeds.py."""


def event_log(brokers: int, hash_seed: str) -> bytes:
    """Every line that a reader gets, and every byte that crossed a border, with its time."""
    program = (
        "import gc, sys; gc.disable(); from yak.sim.cluster_run import ClusterRun; from yak.sim.spec import Spec;"
        f" run = ClusterRun(Spec({SEED}, {brokers}));"
        " run.world.log, run.world.traced = [], bytearray(); run.go();"
        " sys.stdout.buffer.write('\\n'.join(run.world.log).encode() + run.world.traced)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("brokers", BROKERS)
def test_the_same_seed_gives_the_same_event_log_byte_for_byte(brokers):
    first = event_log(brokers, "0")
    assert first == event_log(brokers, "12345")
    assert len(first) > 100_000
