"""Clusters of real brokers that several folders of tests start."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yak.local.cluster import LocalCluster, UpSettings


@contextmanager
def running_cluster(folder: Path, settings: UpSettings) -> Iterator[LocalCluster]:
    """A cluster as `yak up -d` starts it, with its data in this folder; discarded at the end."""
    cluster = LocalCluster(str(folder))
    try:
        cluster.up(settings)
        yield cluster
    finally:
        cluster.discard()
