"""The hand-placed Produce and Fetch answers give the same run as kio's, byte for byte."""

from yak.sim.oracle import kio_encodes
from yak.sim.run import run_seed


def test_a_run_has_the_same_trace_whoever_encodes():
    seeds = range(1, 11)
    by_hand = [run_seed(seed).trace_hash for seed in seeds]
    with kio_encodes():
        by_kio = [run_seed(seed).trace_hash for seed in seeds]
    assert by_hand == by_kio
