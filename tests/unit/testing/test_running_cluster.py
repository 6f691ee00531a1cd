"""`run_cluster` in its three kinds of block, over a session without brokers: begun, ended, cancelled, failed."""

import asyncio
import threading

import pytest
import trio

from yak.errors import YakError
from yak.testing import running_cluster
from yak.testing.shape import ClusterShape


class FakeSession:
    """Lends a word. `begun` is set when a start begins, which lasts until `go_on` is set."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.error: Exception | None = None
        self.threads: set[threading.Thread] = set()

    def lend(self, shape: ClusterShape, *, fresh: bool) -> str:
        assert fresh
        self.threads.add(threading.current_thread())
        self.begun.set()
        assert self.go_on.wait(60)
        if self.error is not None:
            raise self.error
        self.said.append(shape)
        return "cluster"

    def close(self) -> None:
        self.said.append("closed")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    session = FakeSession()
    monkeypatch.setattr(running_cluster, "Session", lambda: session)
    return session


async def use() -> object:
    async with running_cluster.run_cluster(3, as_kafka="2.8") as cluster:
        return cluster


SHAPE = ClusterShape.of(3, {"yak.as.kafka": "2.8"})
RUNS = {"asyncio": lambda function: asyncio.run(function()), "trio": trio.run}


def test_with_block_ends_its_cluster_also_after_an_error(session: FakeSession) -> None:
    with running_cluster.run_cluster(3, as_kafka="2.8") as cluster:
        assert cluster == "cluster"  # type: ignore[comparison-overlap]
    with pytest.raises(ZeroDivisionError), running_cluster.run_cluster():
        raise ZeroDivisionError
    assert session.said == [SHAPE, "closed", ClusterShape.of(1), "closed"]


@pytest.mark.parametrize("loop", sorted(RUNS))
def test_async_block_starts_and_ends_its_cluster_in_threads(session: FakeSession, loop: str) -> None:
    assert RUNS[loop](use) == "cluster"
    assert session.said == [SHAPE, "closed"]
    assert threading.main_thread() not in session.threads


@pytest.mark.parametrize("loop", [None, *sorted(RUNS)])
def test_a_failed_start_leaves_nothing_and_raises_its_reason(session: FakeSession, loop: str | None) -> None:
    session.error = YakError("broker-died", "the broker died")
    with pytest.raises(YakError, match="the broker died"):
        (running_cluster.run_cluster().__enter__ if loop is None else lambda: RUNS[loop](use))()
    assert session.said[-1] == "closed"


def test_asyncio_task_that_is_cancelled_during_the_start_ends_the_cluster(session: FakeSession) -> None:
    async def main() -> None:
        session.go_on.clear()
        task = asyncio.create_task(use())
        await asyncio.to_thread(session.begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        session.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert session.said == [SHAPE, "closed"]


async def test_trio_scope_that_is_cancelled_during_the_start_ends_the_cluster(session: FakeSession) -> None:
    async def sleep_in_it() -> None:
        async with running_cluster.run_cluster(3, as_kafka="2.8"):
            await trio.sleep_forever()

    session.go_on.clear()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep_in_it)
            await trio.to_thread.run_sync(session.begun.wait, 10)
            scope.cancel()
            session.go_on.set()
    assert scope.cancelled_caught
    assert session.said == [SHAPE, "closed"]


def test_invalid_number_of_brokers_is_refused_before_the_block() -> None:
    with pytest.raises(ValueError, match="brokers=0"):
        running_cluster.run_cluster(0)
