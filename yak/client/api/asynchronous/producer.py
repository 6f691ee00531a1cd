"""The producer for event loops: the blocking producer, whose futures a task awaits."""

from types import TracebackType
from typing import Any, ClassVar, Self, Unpack

from yak.client.api.asynchronous.worker import Loop, in_thread
from yak.client.api.client import ProducerOptions
from yak.client.api.failures import bad_argument
from yak.client.api.message import Sent
from yak.client.api.producer import GRACE_S, Delivery, Headers, Producer, queue_full
from yak.client.api.settings import Bootstrap
from yak.client.produce import Outgoing
from yak.errors import UsageError

PAUSE_S = 0.005
"""Interval of the checks of a full queue."""
DEFAULT_DELIVERY_TIMEOUT_S = 30.0


class AsyncDelivery:
    """A record in flight: `await delivery.sent()`, now, later or never. `flush` raises failures that were never
    awaited."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: Loop, future: Delivery) -> None:
        self._loop = loop
        self._future = future

    async def sent(self) -> Sent:
        """The position of the acknowledged record. Raises SendFailed. Cancelling the wait does not cancel the send."""
        return await self._loop.wait(self._future)

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._future.done()


class AsyncProducer:
    """Sends records: `async with Producer() as producer: await producer.send(topic, value)`.

    The options are those of the blocking `Producer`. It connects at the start of its `async with` block; the end waits
    for the last acknowledgement. When the block is cancelled, records that are not acknowledged within a second are
    dropped.
    """

    _loop: ClassVar[Loop]

    def __init__(
        self, bootstrap: Bootstrap = None, *, _is_known: bool = False, **options: Unpack[ProducerOptions]
    ) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._is_known = _is_known
        self._producer: Producer | None = None

    @property
    def _begun(self) -> Producer:
        if self._producer is None:
            raise not_begun("producer")
        return self._producer

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Sent:
        """Send one record and wait for its acknowledgement; the arguments are those of the blocking `send`.

        Tasks that send at the same time share batches. Raises SendFailed, UsageError. When cancelled, the record may be
        sent.
        """
        delivery = await self.enqueue(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery.sent()

    async def enqueue(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> AsyncDelivery:
        """Queue one record, waiting only while the queue is full. Raises UsageError, YakError (`queue-full`)."""
        producer = self._begun
        await self._loop.sleep(0)
        record = producer.encode(value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        return AsyncDelivery(self._loop, await self._offer(producer, topic, record))

    async def _offer(self, producer: Producer, topic: str, record: Outgoing) -> Delivery:
        waited_s = 0.0
        limit_s = self._options.get("delivery_timeout", DEFAULT_DELIVERY_TIMEOUT_S)
        while (delivery := producer.offer(topic, record)) is None:
            if waited_s > limit_s:
                raise queue_full(topic, limit_s)
            await self._loop.sleep(PAUSE_S)
            waited_s += PAUSE_S
        return delivery

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - librdkafka's, not the task's
        """Wait until every record sent before is acknowledged or has failed. Raises the errors of the blocking `flush`."""
        producer = self._begun
        await self._loop.wait(in_thread(lambda: producer.flush(timeout)))

    async def __aenter__(self) -> Self:
        require_first(self._producer, "producer")
        made = in_thread(lambda: Producer(self._bootstrap, _is_known=self._is_known, **self._options))
        self._producer = await self._loop.wait_through(made)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        producer = self._begun
        try:
            if error is None:
                await self._loop.wait(in_thread(producer.finish))
        finally:
            # On success all is flushed. After an error the records are still sent; a cancellation, which Trio's nurseries
            # raise in a group, allows only the short grace.
            is_cancelled = error is None or BaseExceptionGroup("", [error]).subgroup(self._loop.cancelled) is not None
            grace_s = GRACE_S if is_cancelled else self._options.get("delivery_timeout", DEFAULT_DELIVERY_TIMEOUT_S)
            with self._loop.shielded():
                await self._loop.wait_through(in_thread(lambda: producer.abandon(grace_s)))


def require_first(opened: object, what: str) -> None:
    """Refuse to enter a block again: what the first one opened would stay open. Raises UsageError (`usage`)."""
    if opened is not None:
        raise bad_argument(
            f"this {what} has begun already", "it has one async with block", f"make a {what} for each block"
        )


def not_begun(what: str) -> UsageError:
    """The error for a call outside of the `async with` block."""
    return UsageError(
        "not-begun",
        f"this {what} has not begun",
        why="it connects when its async with block is entered, since that takes waiting",
        try_=(f"async with ... as {what}: and then use it",),
    )
