"""What is left to the garbage collector once clients are served."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from yak.server.background import freeze

CYCLES = 60_000
FREED_AT_ONCE_MAX = 10_000


@pytest.fixture(autouse=True)
def usual_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_garbage_collection_frees_few_objects_at_once() -> None:
    freed: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            freed.append(info["collected"])

    freeze()
    gc.callbacks.append(note)
    try:
        for _ in range(CYCLES):
            cycle: list[Any] = []
            cycle.append(cycle)
    finally:
        gc.callbacks.remove(note)
    assert sum(freed) > CYCLES / 2
    assert max(freed) <= FREED_AT_ONCE_MAX
