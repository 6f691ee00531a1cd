"""The order of a whole run: what is quick and small first, real brokers last, so that a plain mistake shows at once."""

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.preloaded import Preloaded

pytest_plugins = ["tests.file_scheduling"]
ORDER = ("unit", "sim", "tui", "spark", "integration")
TESTS = Path(__file__).resolve().parent
GC_THRESHOLDS = (50_000, 20, 20)

# No test has a stopwatch: a busy machine must not make a true property fail. On CI the examples are the same each time.
settings.register_profile(
    "yak",
    parent=settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("yak")


def _rank(item: pytest.Item) -> int:
    top = item.path.relative_to(TESTS).parts[0]
    return ORDER.index(top) if top in ORDER else len(ORDER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by ring; within a ring the order of collection stays."""
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Collect cycles seldom, and never visit what the imports and 13,000 collected tests made: it cost 4 % of unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


_preloaded = Preloaded()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--exec-yak`, for `make test-all`."""
    parser.addoption("--exec-yak", action="store_true", help="start each `yak` by exec, not from a preloaded process")


def pytest_configure(config: pytest.Config) -> None:
    """Fork `yak` processes from a preloaded one (`tests/preloaded.py`)."""
    if sys.platform.startswith("linux") and not config.getoption("exec_yak"):
        _preloaded.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test with the mark `exec_yak` starts each `yak` by exec."""
    _preloaded.is_wanted = item.get_closest_marker("exec_yak") is None
    return (yield)
