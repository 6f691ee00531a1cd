"""The specification of a run: a seed, and restrictions of it. One command line expresses all of it."""

from __future__ import annotations

from dataclasses import dataclass

from yak.sim.seeded_random import SeededRandom

NONE = "none"


def names_in(text: str) -> tuple[str, ...]:
    """The names of a text, which semicolons separate."""
    return tuple(name.strip() for name in text.split(";"))


SIZES = (2, 3, 3, 3, 4, 5)


def drawn_size(seed: int) -> int:
    """The number of brokers of a seed, if that is drawn too: most often three."""
    return SeededRandom(f"size {seed}").choice(SIZES)


METADATA = ("redis", "raft", "both")


@dataclass(frozen=True, slots=True)
class Spec:
    """One run. The seed determines everything that is not set here."""

    seed: int
    brokers: int = 1
    """0 for a run of the metadata quorum alone."""
    faults: tuple[str, ...] | None = None
    """The only classes of faults that occur, in place of the seed's draw."""
    mutant: str = ""
    """A rule that is removed from the broker (`yak.sim.mutants`)."""
    keep: tuple[int, ...] | None = None
    """The only faults that occur, by their number in the seed's order, from 1 on; None for all."""
    values_max: int | None = None
    """The most values that each producer sends."""
    producers_max: int | None = None
    without: tuple[str, ...] = ()
    """Topics and kinds of clients that are left out (`Spec.leaves_out`)."""
    metadata: str = "redis"
    """Where the metadata are: in the simulated Redis, in a quorum of the brokers (`raft`), or moved to and fro (`both`)."""

    def random(self, part: str) -> SeededRandom:
        """A random source of its own for a part of the run, so that the seed's other draws stay the same."""
        return SeededRandom(f"{part} {self.seed}:{self.brokers}")

    def leaves_out(self, part: str) -> bool:
        """Whether a topic, or a kind of client, is not in this run."""
        return part in self.without

    def count(self, drawn: int) -> int:
        """How many of the drawn number of values a producer sends."""
        return drawn if self.values_max is None else min(drawn, self.values_max)

    def has_producer(self, number: int) -> bool:
        """Whether the producer of this number, from 0 on, takes part."""
        return self.producers_max is None or number < self.producers_max

    def strikes(self, number: int) -> bool:
        return self.keep is None or number in self.keep

    def command(self) -> str:
        arguments = [f"yak sim {'run' if self.brokers else 'quorum'} --seed {self.seed}"]
        if self.brokers > 1:
            arguments.append(f"--brokers {self.brokers}")
        if self.metadata != "redis":
            arguments.append(f"--metadata {self.metadata}")
        if self.mutant:
            arguments.append(f"--mutant {self.mutant}")
        if self.faults is not None:
            arguments.append(f'--faults "{",".join(self.faults) or NONE}"')
        if self.keep is not None:
            arguments.append(f"--keep {','.join(map(str, self.keep)) or NONE}")
        if self.without:
            arguments.append(f"--without {','.join(self.without)}")
        if self.producers_max is not None:
            arguments.append(f"--producers {self.producers_max}")
        if self.values_max is not None:
            arguments.append(f"--values {self.values_max}")
        return " ".join(arguments)
