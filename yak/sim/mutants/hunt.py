"""The hunt for the first seed that detects a mutant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from yak.sim.mutants.mutant import Mutant
from yak.sim.spec import Spec
from yak.sim.trial import run_spec


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a hunt: `seed` is the first seed that detected the mutant, None if none did."""

    seed: int | None
    seeds_tried: int
    unsound: tuple[str, ...]
    """Replay commands of the seeds that fail with the rule in place too: the product or a check has a bug."""
    found_by: str = ""
    error: str = ""
    replay: str = ""


def hunt(mutant: Mutant, *, first: int = 1, seeds: int | None = None) -> Finding:
    """Run seeds from `first` on until one detects the mutant, at most `seeds` or the mutant's own number.

    A seed counts only if it passes with the rule in place. Seeds that fail there too are in the finding's `unsound`.

    Raises BrokenMutant when a run ends by an error that no check and no assertion raised: that would prove nothing.
    """
    limit = mutant.seeds if seeds is None else seeds
    unsound: list[str] = []
    for seed in range(first, first + limit):
        spec = mutant.spec(seed)
        report = run_spec(spec)
        if report.error is None:
            continue
        sound = replace(spec, mutant="")
        if not is_sound(sound):
            unsound.append(sound.command())
            continue
        if not report.found_by:
            raise BrokenMutant(f"{mutant.name}, seed {seed}: {report.error}")
        return Finding(seed, seed - first + 1, tuple(unsound), report.found_by, report.error, spec.command())
    return Finding(None, limit, tuple(unsound))


@cache
def is_sound(spec: Spec) -> bool:
    """Whether a run with all rules in place holds. Seed 1 alone detects many mutants."""
    return run_spec(spec).error is None


class BrokenMutant(AssertionError):
    """A mutant broke the broker by mistake, instead of removing its rule."""
