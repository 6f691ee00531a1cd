"""`connect` for event loops: the blocking client, with each request in a thread."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack

from yak.client.api.asynchronous.consumer import AsyncConsumer
from yak.client.api.asynchronous.producer import AsyncProducer, not_begun, require_first
from yak.client.api.asynchronous.worker import Loop, awaited, in_thread
from yak.client.api.client import Client, ConsumerOptions, ProducerOptions
from yak.client.api.settings import Bootstrap

_P = TypeVar("_P", bound=AsyncProducer)
_C = TypeVar("_C", bound=AsyncConsumer)
_T = TypeVar("_T")


class AsyncClient(Generic[_P, _C]):
    """A cluster: `async with connect() as client: await client.create_topic("orders")`.

    Methods are those of the blocking `Client`. Cancelling one does not cancel its request: a topic may be created after
    all. Producers and consumers need their own `async with` blocks.
    """

    _loop: ClassVar[Loop]
    _producer_kind: type[_P]
    _consumer_kind: type[_C]

    def __init__(
        self, bootstrap: Bootstrap = None, *, timeout: float = 10.0, config: Mapping[str, Any] | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout
        self._config = config
        self._client: Client | None = None

    @property
    def _begun(self) -> Client:
        if self._client is None:
            raise not_begun("client")
        return self._client

    async def _call(self, work: Callable[[Client], _T]) -> _T:
        client = self._begun
        return await self._loop.wait(in_thread(lambda: work(client)))

    create_topic = awaited(Client.create_topic)
    delete_topic = awaited(Client.delete_topic)
    topics = awaited(Client.topics)
    topic = awaited(Client.topic)
    add_partitions = awaited(Client.add_partitions)
    topic_configs = awaited(Client.topic_configs)
    set_topic_configs = awaited(Client.set_topic_configs)
    offsets = awaited(Client.offsets)

    def producer(self, **options: Unpack[ProducerOptions]) -> _P:
        """A producer for this cluster, with its own `async with` block; the options are those of `Producer`."""
        options["config"] = {**(self._config or {}), **(options.get("config") or {})}
        return self._producer_kind(self._begun.bootstrap, _is_known=True, **options)

    def consumer(self, **options: Unpack[ConsumerOptions]) -> _C:
        """A consumer for this cluster, with its own `async with` block; the options are those of `Consumer`."""
        options["config"] = {**(self._config or {}), **(options.get("config") or {})}
        return self._consumer_kind(self._begun.bootstrap, _is_known=True, **options)

    async def __aenter__(self) -> Self:
        require_first(self._client, "client")
        made = in_thread(lambda: Client(self._bootstrap, timeout=self._timeout_s, config=self._config))
        self._client = await self._loop.wait_through(made)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._begun.close()
