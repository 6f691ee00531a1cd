"""YAK as brokers and their Redis, all fresh, as `yak up` starts them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yak.local.bench.fleet import LocalFleet
from yak.local.cluster import LocalCluster, UpSettings


class YakCluster(LocalFleet):
    """Three brokers, any of which may lead."""

    name = "yak"

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))

    def prepare(self) -> None:
        """Nothing: YAK formats its data directories when it starts."""

    def start(self) -> None:
        """Start Redis and the brokers. Raises YakError."""
        self.up(UpSettings(port=0, brokers=3, leaders=3))

    def stop(self) -> None:
        """End every process that was started, and remove the data."""
        self.discard()


@contextmanager
def local_cluster(brokers: int, *, http_port: int | None = None, no_http: bool = False) -> Iterator[LocalCluster]:
    """So many brokers, any of which may lead, in a temporary directory. Raises YakError."""
    with tempfile.TemporaryDirectory(prefix="yak-bench-") as folder:
        cluster = LocalCluster(folder)
        try:
            cluster.up(UpSettings(port=0, http_port=http_port, no_http=no_http, brokers=brokers, leaders=brokers))
            yield cluster
        finally:
            cluster.discard()
