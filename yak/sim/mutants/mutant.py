"""One mutant, how it is switched on, and the hunt for the first seed that notices it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from yak.sim.cluster_run import run_cluster
from yak.sim.run import run_alone
from yak.sim.spec import Spec
from yak.sim.verdict import Verdict, replay_command


class Swaps:
    """Attributes of classes, modules and objects that are others for a while."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Let `owner` have `value` under a name that it defines itself."""
        self._undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def take_back(self) -> None:
        """Make everything as it was."""
        while self._undo:
            setattr(*self._undo.pop())


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule taken out. It must be noticed by one of the first `seeds` seeds of `brokers` brokers."""

    name: str
    rule: str
    """What the broker does no more, in words."""
    switch_on: Callable[[Swaps], None]
    seeds: int
    brokers: int = 3
    faults: tuple[str, ...] | None = None
    """The only classes of faults that strike, when the seeds should not be asked to draw them."""
    is_slow: bool = False
    """A hunt takes more than a few seconds: it is not part of the tests."""

    @contextmanager
    def on(self) -> Iterator[None]:
        """The rule is gone inside of this."""
        swaps = Swaps()
        try:
            self.switch_on(swaps)
            yield
        finally:
            swaps.take_back()

    def run(self, seed: int) -> Verdict:
        """One seed without the rule."""
        with self.on():
            return _run(Spec(seed, self.brokers, self.faults, self.name))

    def run_sound(self, seed: int) -> Verdict:
        """The same seed with the rule in place."""
        return _run(Spec(seed, self.brokers, self.faults))


def _run(spec: Spec) -> Verdict:
    return run_alone(spec) if spec.brokers == 1 else run_cluster(spec)


@dataclass(frozen=True, slots=True)
class Finding:
    """How a hunt ended: `seed` is the first that noticed, None when none did."""

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
        """Whether some seed noticed."""
        return self.seed is not None


def hunt(mutant: Mutant, *, first: int = 1, seeds: int | None = None) -> Finding:
    """Run seeds from `first` on until one notices, at most the mutant's own number of them.

    A seed counts only if it holds with the rule in place. One that fails there too is in the finding's `unsound`.

    Raises BrokenMutant when a run ends by an error that no check and no assertion raised: that would prove nothing.
    """
    limit = mutant.seeds if seeds is None else seeds
    unsound: list[str] = []
    for seed in range(first, first + limit):
        verdict = mutant.run(seed)
        if verdict.error is None:
            continue
        sound = mutant.run_sound(seed)
        if sound.error is not None:
            unsound.append(replay_command(sound))
            continue
        if not verdict.found_by:
            raise BrokenMutant(f"{mutant.name}, seed {seed}: {verdict.error}")
        tried = seed - first + 1
        replay = replay_command(verdict)
        return Finding(
            mutant.name, mutant.rule, seed, verdict.found_by, verdict.error, tried, replay, unsound=tuple(unsound)
        )
    return Finding(mutant.name, mutant.rule, None, "", "", limit, "", unsound=tuple(unsound))


class BrokenMutant(AssertionError):
    """A mutant broke the broker by mistake, instead of taking out its rule."""
