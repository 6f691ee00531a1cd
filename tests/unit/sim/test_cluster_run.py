"""The readers of a simulated cluster: some are slow, but not while L2's time runs."""

from yak.sim.cluster_run import READERS_PAUSES_US, ClusterRun
from yak.sim.spec import Spec

SEED = 12
"""One with slow readers, read_committed and not."""
WITHOUT = ("admin", "sloppy", "deleter", "impostor", "pauses", "t-out", "t-safe", "t-two", "t-short")


class ObservedRun(ClusterRun):
    """A run that remembers which readers were slow when the faults ended."""

    def _end_faults(self) -> None:
        longest = max(READERS_PAUSES_US)
        self.slow = [reader for reader in self.readers.values() if reader.pause_us == longest]
        self.slow_committed = [reader for reader in self.committed_readers.values() if reader.pause_us == longest]
        super()._end_faults()


def test_slow_readers_after_the_faults_pause_as_briefly_as_all_others():
    run = ObservedRun(Spec(SEED, 2, keep=(), without=WITHOUT))
    run.go()
    for node in run.cluster.nodes:
        node.jobs.close()
    assert run.slow
    assert run.slow_committed
    assert {reader.pause_us for reader in run.slow + run.slow_committed} == {min(READERS_PAUSES_US)}
