"""The Python API for asyncio: `async with yak.aio.Producer() as producer: await producer.send("orders", {"total": 12})`.

What the classes do is said at `yak.Producer`, `yak.Consumer` and `yak.Client`; here it is awaited.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, ClassVar, TypeVar

from yak.client.api.asynchronous.client import AsyncClient
from yak.client.api.asynchronous.consumer import AsyncConsumer
from yak.client.api.asynchronous.producer import AsyncDelivery as Delivery
from yak.client.api.asynchronous.producer import AsyncProducer
from yak.client.api.asynchronous.worker import Loop
from yak.client.api.settings import Bootstrap

__all__ = ["Client", "Consumer", "Delivery", "Producer", "connect"]

_T = TypeVar("_T")


class _Asyncio:
    """asyncio as a `Loop`."""

    cancelled: type[BaseException] = asyncio.CancelledError

    async def wait(self, future: Future[_T]) -> _T:
        """A cancelled wait leaves the future alone. `asyncio.wrap_future` would look at its exception all the same."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def wake(_future: Future[_T]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        future.add_done_callback(wake)
        await done.wait()
        return future.result()

    async def wait_through(self, future: Future[_T]) -> _T:
        """A cancellation comes once in asyncio, so it is kept, and raised when the future is done."""
        waiting = asyncio.wrap_future(future)
        cancelled: asyncio.CancelledError | None = None
        while not waiting.done():
            try:
                await asyncio.wait([waiting])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            _ = waiting.exception()  # or asyncio complains that nobody looked
            raise cancelled
        return waiting.result()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def shielded(self) -> AbstractContextManager[object]:
        """A task that was cancelled can wait again."""
        return nullcontext()


LOOP: Loop = _Asyncio()


class Producer(AsyncProducer):
    """`yak.Producer` for asyncio."""

    _loop: ClassVar[Loop] = LOOP


class Consumer(AsyncConsumer):
    """`yak.Consumer` for asyncio."""

    _loop: ClassVar[Loop] = LOOP


class Client(AsyncClient[Producer, Consumer]):
    """`yak.Client` for asyncio."""

    _loop: ClassVar[Loop] = LOOP
    _producer_kind = Producer
    _consumer_kind = Consumer


def connect(bootstrap: Bootstrap = None, *, timeout: float = 10.0, config: Mapping[str, Any] | None = None) -> Client:
    """A client of a cluster, for `async with`; see `yak.connect`."""
    return Client(bootstrap, timeout=timeout, config=config)
