"""The clusters of one test run: started when a test asks for one, lent to one test at a time, ended with the run."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from yak.testing.cluster import Cluster
from yak.testing.shape import Shape
from yak.testing.workspace import Workspace

_IDLE_MAX: Final = 3
"""Clusters that run and that no test has: of as many shapes tests can take turns without a start."""


class Session:
    """All clusters of one process. Not for threads."""

    def __init__(self) -> None:
        self._workspace: Workspace | None = None
        self._idle: list[Cluster] = []
        self._lent: list[Cluster] = []
        self._ended: list[Cluster] = []

    def lend(self, shape: Shape, *, fresh: bool = False) -> Cluster:
        """A cluster that is whole and empty: a new one if `fresh`, else one that stands idle, where there is one.

        Raises YakError when a broker does not start, with the broker's own reason.
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
        """A test is over. Its logs can still be read until the next cluster is lent."""
        self._lent.remove(cluster)
        if fresh or cluster.is_disturbed:
            self._end(cluster)
            return
        self._idle.append(cluster)
        while len(self._idle) > _IDLE_MAX:
            self._end(self._idle.pop(0))

    def close(self) -> None:
        """End everything."""
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
        cluster = Cluster(shape, self._workspace.new_folder(), self._workspace.lend_database())
        try:
            cluster.start()
        except BaseException:
            self._end(cluster)
            raise
        return cluster

    def _empty_one(self, shape: Shape) -> Cluster | None:
        """One that stands idle, without the topics of the test before; those that are not as they were made are ended."""
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


@contextlib.contextmanager
def run_cluster(brokers: int = 1, configs: Mapping[str, object] | None = None) -> Iterator[Cluster]:
    """A cluster for as long as a `with` block lasts, for tests without pytest and for scripts.

    `configs` are broker configs by Kafka's names. Raises YakError when a broker does not start, ValueError for a number of
    brokers that cannot be.
    """
    shape = Shape.of(brokers, configs)
    session = Session()
    try:
        yield session.lend(shape, fresh=True)
    finally:
        session.close()
