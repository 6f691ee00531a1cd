"""Mutants of the quorum: each removes one rule, and the checks must notice."""

from __future__ import annotations

from yak.sim.quorum.mutant import QuorumMutant

MUTANTS: tuple[QuorumMutant, ...] = ()
BY_NAME: dict[str, QuorumMutant] = {mutant.name: mutant for mutant in MUTANTS}
