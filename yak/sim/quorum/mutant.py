"""One mutant of the quorum."""

from __future__ import annotations

from dataclasses import dataclass

from yak.sim.mutants.mutant import Mutant
from yak.sim.quorum.run import run_quorum
from yak.sim.quorum.spec import QuorumSpec
from yak.sim.seed_report import SeedReport


@dataclass(frozen=True, slots=True)
class QuorumMutant(Mutant):
    """A rule of the quorum. One of the first `seeds` seeds of `yak sim quorum` must detect that it is gone."""

    brokers: int = 0

    def run(self, seed: int) -> SeedReport:
        """Run one seed without the rule."""
        with self.on():
            return run_quorum(QuorumSpec(seed, 0, self.faults, self.name))

    def run_sound(self, seed: int) -> SeedReport:
        """Run the same seed with the rule."""
        return run_quorum(QuorumSpec(seed, 0, self.faults))
