"""A cluster for the duration of a `with` block, or an `async with` block of asyncio or Trio."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from yak.testing.cluster import Cluster
from yak.testing.session import Session
from yak.testing.shape import AS_KAFKA, ClusterShape

if TYPE_CHECKING:
    from yak.client.api.asynchronous.worker import Loop


class RunningCluster:
    """Starts a cluster on entry, and ends it without a trace on exit. Usable more than once, one after the other."""

    def __init__(self, shape: ClusterShape) -> None:
        self._shape = shape
        self._session = Session()

    def __enter__(self) -> Cluster:
        """Start the cluster. Raises YakError when a broker does not start."""
        try:
            return self._session.lend(self._shape, fresh=True)
        except BaseException:
            self._session.close()
            raise

    def __exit__(self, *_: object) -> None:
        """End the cluster."""
        self._session.close()

    async def __aenter__(self) -> Cluster:
        """Start the cluster in a thread, while the event loop goes on. A cancelled start leaves nothing behind."""
        from yak.client.api.asynchronous.worker import in_thread

        loop = _running_loop()
        try:
            return await loop.wait_through(in_thread(self.__enter__))
        except BaseException:
            await loop.wait_through(in_thread(self._session.close))
            raise

    async def __aexit__(self, *_: object) -> None:
        """End the cluster in a thread, also when the task was cancelled."""
        from yak.client.api.asynchronous.worker import in_thread

        await _running_loop().wait_through(in_thread(self._session.close))


def run_cluster(
    brokers: int = 1, configs: Mapping[str, object] | None = None, *, as_kafka: str | None = None
) -> RunningCluster:
    """A cluster for the duration of a `with` or `async with` block, for tests without pytest and for scripts.

    `configs` are broker configs by Kafka's names. `as_kafka` is a Kafka release, such as 2.8, whose APIs and versions
    clients get. The methods of the cluster block in every kind of block. Raises ValueError for an invalid number of
    brokers; entering the block raises YakError when a broker does not start.
    """
    release = {} if as_kafka is None else {AS_KAFKA: as_kafka}
    return RunningCluster(ClusterShape.of(brokers, {**(configs or {}), **release}))


def _running_loop() -> "Loop":
    """The event loop that this coroutine runs in: Trio's, else asyncio's."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        from yak.trio import LOOP as TRIO

        return TRIO
    from yak.aio import LOOP as ASYNCIO

    return ASYNCIO
