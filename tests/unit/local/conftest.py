"""A local cluster of brokers that are played by the stand-in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from yak.local.cluster import LocalCluster


@pytest.fixture
def cluster(stand_in: None, tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(str(tmp_path / "data"))
    yield made
    made.discard()
