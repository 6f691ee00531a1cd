"""`yak.connect`: topics, and the creation of producers and consumers."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack

from yak.client.admin import Admin
from yak.client.api import forks
from yak.client.api.consumer import Assignor, Consumer, GroupProtocol, OffsetReset
from yak.client.api.failures import closed, explaining, require_seconds, require_text
from yak.client.api.message import Serde
from yak.client.api.producer import Acks, Compression, Producer
from yak.client.api.settings import Bootstrap, check_config, find_bootstrap
from yak.client.metadata import Topic
from yak.errors import YakError
from yak.ids import Offset, TopicPartition


class ProducerOptions(TypedDict, total=False):
    """The keyword arguments of `Producer`."""

    acks: Acks
    compression: Compression
    linger_ms: float | None
    delivery_timeout: float
    keys: Serde
    values: Serde
    client_id: str
    config: Mapping[str, Any] | None


class ConsumerOptions(TypedDict, total=False):
    """The keyword arguments of `Consumer`."""

    group_id: str | None
    auto_offset_reset: OffsetReset
    auto_commit: bool
    read_committed: bool
    group_instance_id: str | None
    group_protocol: GroupProtocol
    assignor: Assignor
    timeout: float
    keys: Serde
    values: Serde
    client_id: str
    config: Mapping[str, Any] | None


_Made = TypeVar("_Made", Producer, Consumer)


class Client:
    """A cluster. Leaving its with block closes the producers and consumers that it created.

    `timeout` limits each request, in seconds; `config` are librdkafka's settings for every connection. Raises
    Unreachable (`unreachable`, `wrong-protocol`) when no broker answers within 3 s.
    """

    def __init__(
        self, bootstrap: Bootstrap = None, *, timeout: float = 10.0, config: Mapping[str, Any] | None = None
    ) -> None:
        require_seconds("timeout", timeout)
        self.bootstrap = find_bootstrap(bootstrap)
        self._config = check_config(config)
        self._made: list[Producer | Consumer] = []
        self._is_closed = False
        with explaining("there is no connection"):
            self._open_admin: Admin = Admin(self.bootstrap, timeout_ms=int(timeout * 1000), extra=self._config)
        forks.open_clients[self] = Client._leave_to_parent

    @property
    def _admin(self) -> Admin:
        if self._is_closed:
            raise closed("client")
        return self._open_admin

    def create_topic(
        self,
        name: str,
        num_partitions: int | None = 3,
        replication_factor: int | None = None,
        *,
        configs: Mapping[str, object] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create a topic; it is usable when this returns. None: the broker's default, also as a config's value.

        Raises YakError (`topic-exists`, `bad-topic-name`, `bad-partition-count`, `bad-replication-factor`,
        `bad-config`).
        """
        with explaining(f'topic "{name}" was not created'):
            texts = {key: _text(value) for key, value in (configs or {}).items() if value is not None}
            require_text(*texts, *texts.values())
            try:
                self._admin.create_topic(
                    name,
                    partitions=-1 if num_partitions is None else num_partitions,
                    replication_factor=-1 if replication_factor is None else replication_factor,
                    configs=texts,
                )
            except YakError as error:
                if not (if_not_exists and error.code == "topic-exists"):
                    raise

    def delete_topic(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a topic with all its records. Raises YakError (`unknown-topic`)."""
        with explaining(f'topic "{name}" was not deleted'):
            require_text(name)
            try:
                self._admin.delete_topic(name)
            except YakError as error:
                if not (if_exists and error.code == "unknown-topic"):
                    raise

    def topics(self, *, internal: bool = False) -> dict[str, Topic]:
        """The topics by name, with partitions, leaders, replicas and ISRs. Raises YakError."""
        with explaining("the topics could not be listed"):
            found = self._admin.metadata().topics
        return {name: topic for name, topic in found.items() if internal or not topic.is_internal}

    def topic(self, name: str) -> Topic:
        """One topic. Raises YakError (`unknown-topic`, which suggests the closest name)."""
        with explaining(f'topic "{name}" could not be described'):
            return self._admin.metadata().require_topic(name)

    def add_partitions(self, name: str, total: int) -> None:
        """Increase a topic's partitions to `total`; keys then map to other partitions than before. Raises YakError."""
        with explaining(f'topic "{name}" was not grown'):
            self._admin.add_partitions(name, total)

    def topic_configs(self, name: str) -> dict[str, str | None]:
        """All configs of a topic, with the defaults. Raises YakError."""
        with explaining(f'the configs of topic "{name}" could not be read'):
            return {each.name: each.value for each in self._admin.configs("topic", name)}

    def set_topic_configs(self, name: str, configs: Mapping[str, object]) -> None:
        """Change single configs of a topic and keep the others; None restores the default. Raises YakError."""
        with explaining(f'the configs of topic "{name}" were not changed'):
            require_text(*configs, *configs.values())
            self._admin.alter_configs(
                "topic",
                name,
                {key: _text(value) for key, value in configs.items() if value is not None},
                [key for key, value in configs.items() if value is None],
            )

    def offsets(self, topic: str) -> dict[TopicPartition, tuple[Offset, Offset]]:
        """The log start offset and the end of each partition of a topic. Raises YakError."""
        with explaining(f'the offsets of topic "{topic}" could not be read'):
            found = self._admin.metadata().require_topic(topic)
            return self._admin.watermarks([TopicPartition(topic, each.number) for each in found.partitions])

    def producer(self, **options: Unpack[ProducerOptions]) -> Producer:
        """A producer for this cluster; the options are those of `Producer`."""
        _ = self._admin
        options["config"] = {**self._config, **(options.get("config") or {})}
        return self._keep(Producer(self.bootstrap, **options, _is_known=True))

    def consumer(self, **options: Unpack[ConsumerOptions]) -> Consumer:
        """A consumer for this cluster; the options are those of `Consumer`."""
        _ = self._admin
        options["config"] = {**self._config, **(options.get("config") or {})}
        return self._keep(Consumer(self.bootstrap, **options, _is_known=True))

    def _keep(self, made: _Made) -> _Made:
        self._made = [each for each in self._made if not each.is_closed]
        self._made.append(made)
        return made

    def close(self) -> None:
        """Close the open producers and consumers of this client, the last one first. A second call does nothing."""
        self._is_closed = True
        failures: list[Exception] = []
        while self._made:
            try:
                self._made.pop().close()
            except Exception as error:  # noqa: BLE001 - the others are closed first
                failures.append(error)
        if failures:
            raise failures[0]

    def _leave_to_parent(self) -> Any:
        self._is_closed = True
        return self._open_admin

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        self._is_closed = True
        while self._made:
            self._made.pop().__exit__(kind, error, trace)


def _text(value: object) -> str:
    """A config's value as Kafka writes it: true and false in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def connect(bootstrap: Bootstrap = None, *, timeout: float = 10.0, config: Mapping[str, Any] | None = None) -> Client:
    """A client of the cluster at `host:port`; None is YAK_BOOTSTRAP_SERVERS, else 127.0.0.1:9092.

    Raises Unreachable (`unreachable`, `wrong-protocol`) when no broker answers within 3 s.
    """
    return Client(bootstrap, timeout=timeout, config=config)


def create_topic(
    name: str,
    num_partitions: int | None = 3,
    replication_factor: int | None = None,
    *,
    bootstrap: Bootstrap = None,
    configs: Mapping[str, object] | None = None,
    if_not_exists: bool = False,
) -> None:
    """Create one topic without keeping a client; see `Client.create_topic`."""
    with connect(bootstrap) as client:
        client.create_topic(name, num_partitions, replication_factor, configs=configs, if_not_exists=if_not_exists)
