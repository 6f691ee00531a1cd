"""One mutant, its activation, and the hunt for the first seed that detects it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from yak.sim.quorum.spec import QuorumSpec
from yak.sim.seed_report import SeedReport
from yak.sim.sound_run import run_sound
from yak.sim.spec import Spec


class Patches(ExitStack):
    """Attributes of classes, modules and objects that are replaced until the end of a `with`."""

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute that `owner` itself defines."""
        self.callback(setattr, owner, name, vars(owner)[name])
        setattr(owner, name, value)


SwitchOn = Callable[[Patches], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A removed rule. One of the first `seeds` seeds with `brokers` brokers must detect it."""

    name: str
    rule: str
    """The rule that the broker no longer follows."""
    switch_on: SwitchOn
    seeds: int
    brokers: int = 3
    """0 for a rule of the metadata quorum, which `yak sim quorum` runs without brokers."""
    faults: tuple[str, ...] | None = None
    """The only classes of faults that occur; None lets each seed draw them."""
    metadata: str = "redis"
    """As in `Spec`."""

    @contextmanager
    def on(self) -> Iterator[None]:
        with Patches() as swaps:
            self.switch_on(swaps)
            yield

    def run(self, seed: int) -> SeedReport:
        with self.on():
            return run_sound(self._spec(seed, self.name))

    def run_sound(self, seed: int) -> SeedReport:
        return run_sound(self._spec(seed, ""))

    def _spec(self, seed: int, name: str) -> Spec:
        kind = QuorumSpec if self.brokers == 0 else Spec
        return kind(seed, self.brokers, self.faults, name, metadata=self.metadata)


BY_NAME: dict[str, Mutant] = {}
"""The mutants of the modules that are imported. `yak.sim.mutants.catalogue` imports all."""


def mutant(
    name: str,
    rule: str,
    *,
    seeds: int,
    brokers: int = 3,
    faults: tuple[str, ...] | None = None,
    metadata: str = "redis",
) -> Callable[[SwitchOn], SwitchOn]:
    """Add what the decorated function switches on to the mutants; a function can be several mutants."""

    def add(switch_on: SwitchOn) -> SwitchOn:
        assert name not in BY_NAME, f"two mutants are named {name}"
        BY_NAME[name] = Mutant(name, rule, switch_on, seeds, brokers, faults, metadata)
        return switch_on

    return add


def replacement(owner: Any, name: str, value: Any) -> SwitchOn:
    """Replace one attribute."""
    return lambda swaps: swaps.put(owner, name, value)


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], SwitchOn]:
    """Switch on the decorated function in the place of one of `owner`, which it gets as its first argument."""

    def make(replacement: Callable[..., Any]) -> SwitchOn:
        def switch_on(swaps: Patches) -> None:
            real = vars(owner)[name]
            swaps.put(owner, name, lambda *arguments, **named: replacement(real, *arguments, **named))

        return switch_on

    return make


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a hunt: `seed` is the first seed that detected the mutant, None if none did."""

    name: str
    rule: str
    seed: int | None
    found_by: str
    error: str
    seeds_tried: int
    replay: str
    unsound: tuple[str, ...] = ()
    """Replay commands of the seeds that fail with the rule in place too: the product or a check has a bug."""

    @property
    def is_found(self) -> bool:
        return self.seed is not None


def hunt(mutant: Mutant, *, first: int = 1, seeds: int | None = None) -> Finding:
    """Run seeds from `first` on until one detects the mutant, at most `seeds` or the mutant's own number.

    A seed counts only if it passes with the rule in place. Seeds that fail there too are in the finding's `unsound`.

    Raises BrokenMutant when a run ends by an error that no check and no assertion raised: that would prove nothing.
    """
    limit = mutant.seeds if seeds is None else seeds
    unsound: list[str] = []
    for seed in range(first, first + limit):
        report = mutant.run(seed)
        if report.error is None:
            continue
        sound = mutant.run_sound(seed)
        if sound.error is not None:
            unsound.append(sound.spec.command())
            continue
        if not report.found_by:
            raise BrokenMutant(f"{mutant.name}, seed {seed}: {report.error}")
        tried = seed - first + 1
        replay = report.spec.command()
        return Finding(
            mutant.name, mutant.rule, seed, report.found_by, report.error, tried, replay, unsound=tuple(unsound)
        )
    return Finding(mutant.name, mutant.rule, None, "", "", limit, "", unsound=tuple(unsound))


class BrokenMutant(AssertionError):
    """A mutant broke the broker by mistake, instead of removing its rule."""
