"""The clusters of one test run: started on request, lent to one test at a time, ended with the run."""

import importlib
import threading
from typing import Final

from yak.testing.cluster import Cluster
from yak.testing.shape import Shape
from yak.testing.workspace import Workspace

_IDLE_MAX: Final = 3
"""Limit of idle clusters: tests can alternate between this many shapes without a start."""


class Session:
    """All clusters of one process. Not thread-safe."""

    def __init__(self) -> None:
        self._workspace: Workspace | None = None
        self._idle: list[Cluster] = []
        self._lent: list[Cluster] = []
        self._ended: list[Cluster] = []

    def lend(self, shape: Shape, *, fresh: bool = False) -> Cluster:
        """A healthy, empty cluster: a new one if `fresh`, else an idle one if there is any.

        Raises YakError with the broker's reason when a broker does not start.
        """
        self._delete_ended()
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
        if fresh or cluster.is_disturbed:
            self._end(cluster)
            return
        self._idle.append(cluster)
        while len(self._idle) > _IDLE_MAX:
            self._end(self._idle.pop(0))

    def close(self) -> None:
        """End all clusters."""
        try:
            for cluster in (*self._lent, *self._idle):
                cluster.end()
        finally:
            self._lent, self._idle, self._ended = [], [], []
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None

    def _start(self, shape: Shape) -> Cluster:
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

    def _empty_one(self, shape: Shape) -> Cluster | None:
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

    def _delete_ended(self) -> None:
        while self._ended:
            self._ended.pop().delete()


def _import_clients(several: bool) -> None:
    """Import the modules of the test's first topic while the brokers load."""
    for name in ("yak.client.admin", "confluent_kafka.admin", *(("yak.testing.checking",) if several else ())):
        importlib.import_module(name)
    if several:
        from yak.protocol.lean_imports import import_kio

        import_kio()
