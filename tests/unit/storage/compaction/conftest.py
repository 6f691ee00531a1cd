"""A log that is compacted."""

from collections.abc import Callable

import pytest

from tests.unit.storage.conftest import Bench


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Small segments and many index entries, so that little makes a round."""
    return make_bench(cleanup_policy="compact", segment_bytes=10_000, index_interval_bytes=100)
