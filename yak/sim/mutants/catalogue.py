"""All mutants, in the order of the table of `yak sim mutants`."""

from yak.sim.mutants import coordination, mutant, replication, storage
from yak.sim.quorum import mutants as quorum

__all__ = ["BY_NAME", "coordination", "quorum", "replication", "storage"]
BY_NAME = mutant.BY_NAME
