"""A simulated run keeps to one processor, and gives the others back."""

import os
import sys
import threading

import pytest

from yak.sim import one_processor
from yak.sim.one_processor import on_one_processor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a thread's processors")


def test_run_and_the_threads_that_it_starts_share_one_processor_until_it_ends():
    before, seen = os.sched_getaffinity(0), []

    def note() -> None:
        seen.append(os.sched_getaffinity(0))

    with on_one_processor():
        thread = threading.Thread(target=note)
        thread.start()
        thread.join()
        note()
    assert len(seen[0]) == 1
    assert seen[0] == seen[1] <= before
    assert os.sched_getaffinity(0) == before


def test_run_that_fails_gives_the_processors_back():
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), on_one_processor():
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == before


def test_run_without_proc_keeps_its_processors(monkeypatch, tmp_path):
    """A chroot may have no /proc: the run ended with FileNotFoundError."""
    monkeypatch.setattr(one_processor, "_STAT", tmp_path / "stat")
    before = os.sched_getaffinity(0)
    with on_one_processor():
        assert os.sched_getaffinity(0) == before
