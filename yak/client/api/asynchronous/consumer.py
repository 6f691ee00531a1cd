"""The consumer for event loops: the blocking consumer in its own thread.

A cancelled call loses no record: fetched records stay in the inbox until the caller takes them, and only taken records
are committed. The iterator is an object with `__anext__`, not a generator, so that leaving a loop needs no cleanup.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import ClassVar, Self, TypeAlias, TypeVar, Unpack

from yak.client.api.asynchronous.producer import not_begun, require_first
from yak.client.api.asynchronous.worker import Loop, Worker, awaited
from yak.client.api.client import ConsumerOptions
from yak.client.api.consumer import BATCH, POLL_S, SLICE_S, Consumer, Where
from yak.client.api.failures import require_wait
from yak.client.api.message import Message
from yak.client.api.settings import Bootstrap
from yak.client.consumer import OnRebalance
from yak.ids import TopicPartition

AsyncOnRebalance: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None]]
_T = TypeVar("_T")


class AsyncConsumer:
    """Reads records: `async with Consumer(group_id="g") as consumer`, then `subscribe`, then
    `async for message in consumer`.

    The options are those of the blocking `Consumer`. It connects at the start of its `async with` block, and leaves the
    group at the end, also when that is cancelled. Several tasks may call its methods, which run one after the other.
    """

    _loop: ClassVar[Loop]

    def __init__(
        self, bootstrap: Bootstrap = None, *, _is_known: bool = False, **options: Unpack[ConsumerOptions]
    ) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._is_known = _is_known
        self._consumer: Consumer | None = None
        self._worker = Worker(self._loop, "yak-consumer")

    async def _call(self, work: Callable[[Consumer], _T]) -> _T:
        consumer = self._begun
        return await self._worker.run(lambda: work(consumer))

    @property
    def _begun(self) -> Consumer:
        if self._consumer is None:
            raise not_begun("consumer")
        return self._consumer

    async def subscribe(
        self,
        topics: str | Iterable[str],
        *,
        on_assigned: AsyncOnRebalance | None = None,
        on_revoked: AsyncOnRebalance | None = None,
        on_lost: AsyncOnRebalance | None = None,
    ) -> Self:
        """Read these topics with the other members of the group; a name that begins with ^ is a regular expression.

        The functions are coroutines, run by the task that polls; they may `await` this consumer's `commit`, `seek` and
        `pause`. Raises UsageError.
        """
        await self._call(
            lambda consumer: consumer.subscribe(
                topics,
                on_assigned=self._asking(on_assigned),
                on_revoked=self._asking(on_revoked),
                on_lost=self._asking(on_lost),
            )
        )
        return self

    def _asking(self, function: AsyncOnRebalance | None) -> OnRebalance | None:
        if function is None:
            return None
        return lambda partitions: self._worker.ask(lambda: function(partitions))

    unsubscribe = awaited(Consumer.unsubscribe)

    async def assign(self, partitions: Mapping[TopicPartition, Where] | Iterable[TopicPartition]) -> Self:
        """Read these partitions outside of group management; a mapping gives the start offsets. Raises YakError."""
        await self._call(lambda consumer: consumer.assign(partitions))
        return self

    assignment = awaited(Consumer.assignment)
    partitions = awaited(Consumer.partitions)

    async def poll(self, timeout: float = POLL_S, max_messages: int = BATCH) -> list[Message]:  # noqa: ASYNC109
        """Records, as soon as there are some; an empty list after `timeout` seconds without any. Raises YakError.

        Unlike a timeout around the call, this one involves no cancellation.
        """
        consumer = self._begun
        deadline = time.monotonic() + require_wait(timeout)
        if consumer.reading.must_poll:
            await self._worker.run(consumer.reading.poll_if_old, reads=True)
        while True:
            await self._loop.sleep(0)
            if taken := consumer.reading.take(max_messages):
                return taken
            left = deadline - time.monotonic()
            if left < 0:
                return []
            await self._worker.run(partial(consumer.reading.fetch, min(SLICE_S, left), max_messages), reads=True)

    def __aiter__(self) -> Self:
        """Every record from here on, without end; `break` and cancellation lose nothing."""
        return self

    async def __anext__(self) -> Message:
        consumer = self._begun
        if consumer.reading.must_poll:
            await self._worker.run(consumer.reading.poll_if_old, reads=True)
        while True:
            await self._loop.sleep(0)
            if taken := consumer.reading.take(1):
                return taken[0]
            await self._worker.run(partial(consumer.reading.fetch, SLICE_S, BATCH), reads=True)

    commit = awaited(Consumer.commit)
    committed = awaited(Consumer.committed)
    position = awaited(Consumer.position)
    seek = awaited(Consumer.seek)
    pause = awaited(Consumer.pause)
    resume = awaited(Consumer.resume)
    watermarks = awaited(Consumer.watermarks)
    offset_for_time = awaited(Consumer.offset_for_time)

    async def __aenter__(self) -> Self:
        require_first(self._consumer, "consumer")
        self._consumer = await self._worker.run(
            lambda: Consumer(self._bootstrap, _is_known=self._is_known, **self._options)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._loop.shielded():
            try:
                consumer = self._begun
                await self._worker.run(lambda: consumer.__exit__(kind, error, trace), is_last=True)
            finally:
                self._worker.end()
