"""The clusters of one test run: started on request, lent to one test at a time, ended with the run."""

import importlib
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from yak.errors import YakError
from yak.local import redis_child
from yak.local.guardian import Guardian
from yak.local.redis_server import EmbeddedRedis
from yak.testing.cluster import Cluster
from yak.testing.shape import ClusterShape

_DATABASES: Final = 16
"""The default number of databases of a Redis server."""


class Workspace:
    """A folder under TMPDIR with a Redis server that starts when a cluster first needs it.

    Each cluster has its own database of the server. The server listens on a unix socket, so that no other test run can
    take its port between the choice and the start.
    """

    def __init__(self) -> None:
        # The real path, since the kernel reports only that to the guardian.
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="yak-testing-"))
        self._servers: list[EmbeddedRedis] = []
        self._starting = ThreadPoolExecutor(1, "yak-testing-redis")
        self._start: Future[EmbeddedRedis] | None = None
        self._free: list[str] = []
        self._used: list[str] = []
        self._clusters = 0
        self._guardian = Guardian(self.folder, deletes=True)

    def new_folder(self) -> str:
        """A path for one more cluster; nothing exists there yet."""
        self._clusters += 1
        return os.path.join(self.folder, f"cluster-{self._clusters}")

    def lend_database(self) -> str:
        """The address of an empty, unused database. Its server may still be starting; see `wait_for_server`.

        Raises UsageError (`no-redis-server`).
        """
        if not self._free and self._used:
            self._free, self._used = self._used, []
            _make_empty(self._free)
        if not self._free:
            self._free = self._new_databases()
        return self._free.pop(0)

    def wait_for_server(self) -> None:
        """Wait until the newest server answers. Raises YakError with the reason when it did not start."""
        if self._start is None:
            return
        try:
            self._start.result()
        except YakError:
            gone = self._servers[-1].url.removesuffix("/0")
            self._free = []
            self._used = [url for url in self._used if not url.startswith(gone)]
            raise

    def give_back_database(self, url: str) -> None:
        """Return the database of an ended cluster. It is emptied when no other database is free."""
        self._used.append(url)

    def close(self) -> None:
        """End the servers, delete the folder, and end the guardian."""
        self._starting.shutdown()
        for server in self._servers:
            server.kill()
        self._servers, self._free, self._used = [], [], []
        shutil.rmtree(self.folder, ignore_errors=True)
        self._guardian.end(is_clean=not os.path.exists(self.folder))

    def _new_databases(self) -> list[str]:
        """Start another server in a thread: brokers take longer to load than Redis takes to answer, and wait for it.

        Raises UsageError (`no-redis-server`) at once when there is no server program.
        """
        redis_child.find_server()
        server = EmbeddedRedis(os.path.join(self.folder, f"redis-{len(self._servers) + 1}"))
        self._servers.append(server)
        self._start = self._starting.submit(server.start)
        return [f"{server.url}?db={number}" for number in range(_DATABASES)]


def _make_empty(urls: Sequence[str]) -> None:
    import redis

    for url in urls:
        with redis.Redis.from_url(url) as client:
            client.flushdb()


_IDLE_MAX: Final = 3
"""Limit of idle clusters: tests can alternate between this many shapes without a start."""


class Session:
    """All clusters of one process. Not thread-safe. A forked child that ends leaves them to its parent."""

    def __init__(self) -> None:
        self._owner_pid = os.getpid()
        self._workspace: Workspace | None = None
        self._idle: list[Cluster] = []
        self._lent: list[Cluster] = []
        self._ended: list[Cluster] = []

    def lend(self, shape: ClusterShape, *, fresh: bool = False) -> Cluster:
        """A healthy, empty cluster: a new one if `fresh`, else an idle one if there is any.

        Raises YakError with the broker's reason when a broker does not start.
        """
        while self._ended:
            self._ended.pop().delete()
        cluster = None if fresh else self._empty_one(shape)
        if cluster is None:
            cluster = self._start(shape)
        else:
            cluster.mark_logs()
        self._lent.append(cluster)
        return cluster

    def give_back(self, cluster: Cluster, *, fresh: bool = False) -> None:
        """Return a cluster after a test. Its logs stay readable until the next cluster is lent."""
        self._lent.remove(cluster)
        if os.getpid() != self._owner_pid:
            return
        if fresh or cluster.is_disturbed:
            self._end(cluster)
            return
        self._idle.append(cluster)
        while len(self._idle) > _IDLE_MAX:
            self._end(self._idle.pop(0))

    def close(self) -> None:
        """End all clusters."""
        if os.getpid() != self._owner_pid:
            return
        try:
            for cluster in (*self._lent, *self._idle):
                cluster.end()
        finally:
            self._lent, self._idle, self._ended = [], [], []
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None

    def _start(self, shape: ClusterShape) -> Cluster:
        if self._workspace is None:
            self._workspace = Workspace()
        workspace = self._workspace
        cluster = Cluster(shape, workspace.new_folder(), workspace.lend_database())
        warm_up = threading.Thread(target=_import_clients, args=(shape.brokers > 1,), daemon=True)
        warm_up.start()
        try:
            cluster.start()
            workspace.wait_for_server()
        except BaseException:
            self._end(cluster)
            workspace.wait_for_server()  # a failure of the store explains more than the brokers' failure
            raise
        finally:
            warm_up.join()
        return cluster

    def _empty_one(self, shape: ClusterShape) -> Cluster | None:
        """An idle cluster without the topics of the last test; disturbed ones are ended."""
        for cluster in [each for each in reversed(self._idle) if each.shape == shape]:
            self._idle.remove(cluster)
            if cluster.make_empty():
                return cluster
            self._end(cluster)
        return None

    def _end(self, cluster: Cluster) -> None:
        cluster.end()
        self._ended.append(cluster)
        assert self._workspace is not None
        self._workspace.give_back_database(cluster.store_url)


def _import_clients(several: bool) -> None:
    """Import the modules of the test's first topic while the brokers load."""
    for name in ("yak.client.admin", "confluent_kafka.admin"):
        importlib.import_module(name)
    if several:
        from yak.lean_imports import import_kio

        import_kio()
