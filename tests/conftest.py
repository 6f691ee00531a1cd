"""The order of a whole run: what is quick and small first, real brokers last, so that a plain mistake shows at once."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
