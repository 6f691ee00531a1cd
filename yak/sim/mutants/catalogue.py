"""All mutants, in the order of the table of `yak sim mutants`."""

from yak.sim.mutants import (
    bugs,
    compaction,
    damage,
    epochs,
    groups,
    jobs,
    log_moves,
    members,
    metadata,
    moves,
    proof,
    records,
    transactions,
    watermark,
)
from yak.sim.mutants.mutant import Mutant
from yak.sim.quorum.mutants import MUTANTS as QUORUM_MUTANTS

MUTANTS: tuple[Mutant, ...] = (
    *watermark.MUTANTS,
    *epochs.MUTANTS,
    *members.MUTANTS,
    *metadata.MUTANTS,
    *proof.MUTANTS,
    *records.MUTANTS,
    *compaction.MUTANTS,
    *damage.MUTANTS,
    *groups.MUTANTS,
    *transactions.MUTANTS,
    *jobs.MUTANTS,
    *log_moves.MUTANTS,
    *bugs.MUTANTS,
    *moves.MUTANTS,
    *QUORUM_MUTANTS,
)
BY_NAME: dict[str, Mutant] = {mutant.name: mutant for mutant in MUTANTS}
assert len(BY_NAME) == len(MUTANTS), "two mutants have one name"
