"""All mutants, in the order of the table of `yak sim mutants`."""

from yak.sim.mutants import coordination, replication, storage
from yak.sim.mutants.mutant import Mutant
from yak.sim.quorum.mutants import MUTANTS as QUORUM_MUTANTS

MUTANTS: tuple[Mutant, ...] = (
    *replication.MUTANTS,
    *storage.MUTANTS,
    *coordination.MUTANTS,
    *QUORUM_MUTANTS,
)
BY_NAME: dict[str, Mutant] = {mutant.name: mutant for mutant in MUTANTS}
assert len(BY_NAME) == len(MUTANTS), "two mutants have one name"
