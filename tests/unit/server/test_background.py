"""What is left to the garbage collector once clients are served."""

import gc
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import trio

from tests.unit.server.threads import start_no_thread
from yak.server.background import after_ready, freeze

CYCLES = 60_000
FREED_AT_ONCE_MAX = 10_000
SCANNED_AT_ONCE_MAX = 50_000


@pytest.fixture(autouse=True)
def usual_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def test_garbage_collection_frees_few_objects_at_once():
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


def test_garbage_collection_scans_few_living_objects_at_once():
    """As many as a burst of new groups leaves: a collection of a million of them took 300 ms."""
    scanned: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 1:
            scanned.append(len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1)))

    freeze()
    gc.callbacks.append(note)
    try:
        living = [[number] for number in range(200_000)]
    finally:
        gc.callbacks.remove(note)
    assert len(living) == 200_000
    assert scanned
    assert max(scanned) <= SCANNED_AT_ONCE_MAX


async def test_work_after_the_start_goes_on_while_the_system_starts_no_thread(monkeypatch, caplog):
    start_no_thread(monkeypatch, times=100)
    with trio.move_on_after(0.1) as limit:
        await after_ready(Mock(), Mock())
    assert limit.cancelled_caught
    assert caplog.messages == ["boot-marker-not-written"]
