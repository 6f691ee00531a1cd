"""How `make test` shares its files among workers: as xdist's `--dist loadfile`, but a run ends after a worker crashed."""

import contextlib
import os
from itertools import accumulate
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

CRASHED = "yak/crashed"
"""Where pytest's cache has the tests that ran when their workers crashed; `tests/run.py` runs them again."""
_TESTS_MIN = 2
"""A worker keeps its last test until it knows the next one, or that there is none."""


_TESTS = Path(__file__).resolve().parent
_ON_ONE_SESSION = ("tests/spark/jobs/", "tests/spark/source/")
"""Folders whose tests use the Spark session of their process: in a second worker they would start a second JVM."""


class FileScheduling(LoadFileScheduling):
    """One file at a time for each worker, and the files that use a Spark session for one worker together.

    xdist 3.8 shares the files of a crashed worker among the others, also those that were done, and gives the new worker a
    single file. A worker with fewer than two tests to run then waits for an event that does not come.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """Share the files of a worker that ended; returns the test that it ran when it crashed."""
        crashed: str | None = super().remove_node(node)
        if crashed is not None and self.config.cache is not None:
            self.config.cache.set(CRASHED, [*self.config.cache.get(CRASHED, []), crashed])
        return crashed

    def _split_scope(self, nodeid: str) -> str:
        """The tests that one worker runs one after the other have the same scope."""
        return "tests/spark" if nodeid.startswith(_ON_ONE_SESSION) else str(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        with contextlib.suppress(OSError):  # this worker has crashed, and `remove_node` follows
            assigned = False
            while self.workqueue and (not assigned or self._pending_of(self.assigned_work[node]) < _TESTS_MIN):
                super()._assign_work_unit(node)
                assigned = True


@pytest.hookimpl(optionalhook=True)  # xdist may be switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling | None:
    """The scheduler of `--dist loadfile`."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def parts_from(worker: int, workers: int) -> list[str]:
    """The folders and files two levels down that have tests. A worker begins behind its predecessors' share of the files."""
    counts = {path: 1 if path.match("test_*.py") else len([*path.rglob("test_*.py")]) for path in _TESTS.glob("*/*")}
    found = sorted(path for path, count in counts.items() if count)
    before = accumulate((counts[path] for path in found), initial=0)
    first = next(at for at, count in enumerate(before) if count * workers >= sum(counts.values()) * worker)
    return [str(path) for path in (*found[first:], *found[:first])]


def pytest_configure(config: pytest.Config) -> None:
    """Let each worker begin elsewhere to collect all tests.

    Side by side in one order, on a new checkout, each worker would rewrite and compile every file by itself: two thirds of
    it are then done, and cached, by the others.
    """
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    if name and [Path(each).resolve() for each in config.args] == [_TESTS]:
        config.args[:] = parts_from(int(name.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into the order that is the same in all workers; within a file it stays."""
    items.sort(key=lambda item: item.path.parts)
