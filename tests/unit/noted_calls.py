"""The calls of a function, noted while a test runs: all together, or by the step of a broker."""

from typing import Any

import pytest

from yak.broker.broker import Broker


def note_calls(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[tuple[Any, ...]]:
    """The arguments of each call of this function from now on."""
    real, calls = getattr(owner, name), list[tuple[Any, ...]]()

    def noted(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, noted)
    return calls


def note_calls_by_step(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, owner: object, name: str
) -> list[list[tuple[Any, ...]]]:
    """The same, in a list for each step of the broker."""
    steps = list[list[tuple[Any, ...]]]([[]])
    real, step = getattr(owner, name), broker.step

    def noted(*arguments: Any, **named: Any) -> Any:
        steps[-1].append(arguments)
        return real(*arguments, **named)

    def stepped(*arguments: Any) -> Any:
        steps.append([])
        return step(*arguments)

    monkeypatch.setattr(owner, name, noted)
    monkeypatch.setattr(broker, "step", stepped)
    return steps
