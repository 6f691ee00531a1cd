"""The order of a whole run: what is quick and small first, real brokers last, so that a plain mistake shows at once."""

from pathlib import Path

import pytest

ORDER = ("unit", "sim", "tui", "spark", "integration", "bench")
TESTS = Path(__file__).resolve().parent


def _rank(item: pytest.Item) -> int:
    top = item.path.relative_to(TESTS).parts[0]
    return ORDER.index(top) if top in ORDER else len(ORDER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by ring; within a ring the order of collection stays."""
    items.sort(key=_rank)
