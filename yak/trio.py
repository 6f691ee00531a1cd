"""The Python API for Trio: `async with yak.trio.Producer() as producer: await producer.send("orders", {"total": 12})`.

What the classes do is said at `yak.Producer`, `yak.Consumer` and `yak.Client`; here it is awaited. Every coroutine is a
checkpoint.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, TypeVar

import trio

from yak.client.api.asynchronous.client import AsyncClient
from yak.client.api.asynchronous.consumer import AsyncConsumer
from yak.client.api.asynchronous.producer import AsyncDelivery as Delivery
from yak.client.api.asynchronous.producer import AsyncProducer
from yak.client.api.asynchronous.worker import Loop
from yak.client.api.settings import Bootstrap

__all__ = ["Client", "Consumer", "Delivery", "Producer", "connect"]

_T = TypeVar("_T")


class _Trio:
    """Trio as a `Loop`."""

    cancelled: type[BaseException] = trio.Cancelled

    async def wait(self, future: Future[_T]) -> _T:
        """The thread that settles the future wakes us, whichever it is."""
        done = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def wake(_future: Future[_T]) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(done.set)

        future.add_done_callback(wake)
        await done.wait()
        return future.result()

    async def wait_through(self, future: Future[_T]) -> _T:
        """A cancellation stays, and is raised at the next checkpoint after the shield."""
        with trio.CancelScope(shield=True):
            await self.wait(future)
        return future.result()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    def shielded(self) -> AbstractContextManager[object]:
        return trio.CancelScope(shield=True)


LOOP: Loop = _Trio()


class Producer(AsyncProducer):
    """`yak.Producer` for Trio."""

    _loop: ClassVar[Loop] = LOOP


class Consumer(AsyncConsumer):
    """`yak.Consumer` for Trio."""

    _loop: ClassVar[Loop] = LOOP


class Client(AsyncClient[Producer, Consumer]):
    """`yak.Client` for Trio."""

    _loop: ClassVar[Loop] = LOOP
    _producer_kind = Producer
    _consumer_kind = Consumer


def connect(bootstrap: Bootstrap = None, *, timeout: float = 10.0, config: Mapping[str, Any] | None = None) -> Client:
    """A client of a cluster, for `async with`; see `yak.connect`."""
    return Client(bootstrap, timeout=timeout, config=config)
