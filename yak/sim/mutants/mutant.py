"""One mutant, and its activation."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

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

    def spec(self, seed: int) -> Spec:
        """A run without the rule."""
        return Spec(seed, self.brokers, self.faults, self.name, metadata=self.metadata)


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


def rewritten(owner: Any, name: str, old: str, new: str) -> SwitchOn:
    """Replace text in the source of a function of `owner`, which must have it."""

    def switch_on(swaps: Patches) -> None:
        function = vars(owner)[name]
        source = textwrap.dedent(inspect.getsource(function))
        assert old in source, f"{owner.__name__}.{name} has no text {old!r}"
        found: dict[str, Any] = {}
        flags = annotations.compiler_flag
        exec(compile(source.replace(old, new), name, "exec", flags), function.__globals__, found)  # noqa: S102
        swaps.put(owner, name, found[name])

    return switch_on


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], SwitchOn]:
    """Switch on the decorated function in the place of one of `owner`, which it gets as its first argument."""

    def make(replacement: Callable[..., Any]) -> SwitchOn:
        def switch_on(swaps: Patches) -> None:
            real = vars(owner)[name]
            swaps.put(owner, name, lambda *arguments, **named: replacement(real, *arguments, **named))

        return switch_on

    return make
