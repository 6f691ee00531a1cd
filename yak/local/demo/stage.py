"""The sandbox of a demo: its own cluster and a folder for files, both deleted afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from yak.local.cluster import LocalCluster


@contextmanager
def stage(data_dir: str | None, *, keep: bool) -> Iterator[tuple[LocalCluster, str]]:
    """Yield the cluster, not yet started, and the folder.

    Without `data_dir` the cluster's data is in a temporary directory. At the end the cluster is stopped and temporary
    data is deleted, unless `keep` is set and nothing was raised. The folder is always deleted.
    """
    cluster = LocalCluster(data_dir or tempfile.mkdtemp(prefix="yak-demo-"))
    work = tempfile.mkdtemp(prefix="yak-demo-work-")
    is_kept = False
    try:
        yield cluster, work
        is_kept = keep
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if not is_kept:
            if data_dir is None:
                cluster.discard()
            elif cluster.status().brokers:
                cluster.down()
