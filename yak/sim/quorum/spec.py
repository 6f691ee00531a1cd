"""The specification of a run of the quorum: a seed, and restrictions of it."""

from __future__ import annotations

from dataclasses import dataclass

from yak.sim.spec import NONE, Spec


@dataclass(frozen=True, slots=True)
class QuorumSpec(Spec):
    """One run. The seed determines everything that is not set here."""

    def command(self) -> str:
        """The command that replays this run."""
        words = [f"yak sim quorum --seed {self.seed}"]
        if self.mutant:
            words.append(f"--mutant {self.mutant}")
        if self.faults is not None:
            words.append(f'--faults "{",".join(self.faults) or NONE}"')
        if self.keep is not None:
            words.append(f"--keep {','.join(map(str, self.keep)) or NONE}")
        return " ".join(words)
