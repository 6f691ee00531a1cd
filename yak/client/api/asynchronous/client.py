"""`connect` for event loops: the blocking client, with each request in a thread."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack

from yak.client.api.asynchronous.consumer import AsyncConsumer
from yak.client.api.asynchronous.producer import AsyncProducer, not_begun
from yak.client.api.asynchronous.worker import Loop, in_thread
from yak.client.api.client import Client, ConsumerOptions, ProducerOptions
from yak.client.api.settings import Bootstrap
from yak.client.metadata import Topic
from yak.ids import Offset, TopicPartition

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

    async def create_topic(
        self,
        name: str,
        num_partitions: int | None = 3,
        replication_factor: int | None = None,
        *,
        configs: Mapping[str, object] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create a topic; it is usable when this returns. None: the broker's default. Raises YakError."""
        await self._call(
            lambda client: client.create_topic(
                name, num_partitions, replication_factor, configs=configs, if_not_exists=if_not_exists
            )
        )

    async def delete_topic(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a topic with all its records. Raises YakError (`unknown-topic`)."""
        await self._call(lambda client: client.delete_topic(name, if_exists=if_exists))

    async def topics(self, *, internal: bool = False) -> dict[str, Topic]:
        """The topics by name. Raises YakError."""
        return await self._call(lambda client: client.topics(internal=internal))

    async def topic(self, name: str) -> Topic:
        """One topic. Raises YakError (`unknown-topic`)."""
        return await self._call(lambda client: client.topic(name))

    async def add_partitions(self, name: str, total: int) -> None:
        """Increase a topic's partitions to `total`. Raises YakError."""
        await self._call(lambda client: client.add_partitions(name, total))

    async def topic_configs(self, name: str) -> dict[str, str | None]:
        """All configs of a topic, with the defaults. Raises YakError."""
        return await self._call(lambda client: client.topic_configs(name))

    async def set_topic_configs(self, name: str, configs: Mapping[str, object]) -> None:
        """Change single configs of a topic; None restores the default. Raises YakError."""
        await self._call(lambda client: client.set_topic_configs(name, configs))

    async def offsets(self, topic: str) -> dict[TopicPartition, tuple[Offset, Offset]]:
        """The log start offset and the end of each partition of a topic. Raises YakError."""
        return await self._call(lambda client: client.offsets(topic))

    def producer(self, **options: Unpack[ProducerOptions]) -> _P:
        """A producer for this cluster, with its own `async with` block; the options are those of `Producer`."""
        options["config"] = {**(self._config or {}), **(options.get("config") or {})}
        return self._producer_kind(self._begun.bootstrap, _is_known=True, **options)

    def consumer(self, **options: Unpack[ConsumerOptions]) -> _C:
        """A consumer for this cluster, with its own `async with` block; the options are those of `Consumer`."""
        options["config"] = {**(self._config or {}), **(options.get("config") or {})}
        return self._consumer_kind(self._begun.bootstrap, _is_known=True, **options)

    async def __aenter__(self) -> Self:
        made = in_thread(lambda: Client(self._bootstrap, timeout=self._timeout_s, config=self._config))
        self._client = await self._loop.wait_through(made)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._begun.close()
