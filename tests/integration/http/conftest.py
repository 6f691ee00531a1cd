"""A cluster of three brokers that answer HTTP, shared by a file's tests; each test finds it whole."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.local.cluster import LocalCluster, UpSettings

_names = itertools.count(1)
CONFIGS = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4")


class HttpCluster:
    """Three brokers; `get(1, "/health")` asks the first."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.client = httpx.Client(timeout=30.0, trust_env=False)

    @property
    def bootstrap(self) -> str:
        """Of those that run."""
        return ",".join(broker.address for broker in self.local.status().brokers if broker.state == "running")

    def url(self, node: int, path: str = "") -> str:
        """Where a node answers."""
        address = next(each.http_address for each in self.local.status().brokers if each.node_id == node)
        assert address is not None, f"node {node} answers no HTTP now"
        return f"{address}{path}"

    def ask(self, node: int, method: str, path: str, **more: object) -> httpx.Response:
        """One request to one node."""
        return self.client.request(method, self.url(node, path), **more)  # type: ignore[arg-type]

    def get(self, node: int, path: str, **more: object) -> httpx.Response:
        """GET."""
        return self.ask(node, "GET", path, **more)

    def post(self, node: int, path: str, **more: object) -> httpx.Response:
        """POST."""
        return self.ask(node, "POST", path, **more)

    def wait_for_topic(self, name: str) -> None:
        """Until every broker has heard of it."""
        wait_until(lambda: all(self.get(node, f"/topics/{name}").status_code == 200 for node in (1, 2, 3)), name)

    def make_topic(self, name: str, **settings: Any) -> str:
        """A topic that every broker has heard of; its name."""
        Admin(self.bootstrap).create_topic(name, **settings)
        self.wait_for_topic(name)
        return name

    def delete(self, node: int, path: str, **more: object) -> httpx.Response:
        """DELETE."""
        return self.ask(node, "DELETE", path, **more)

    def produce(self, topic: str, count: int, partition: int = 0) -> None:
        """So many records of 50 bytes, by Kafka's protocol."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for _ in range(count):
            producer.produce(topic, b"x" * 50, partition=partition)
        assert producer.flush(30) == 0

    def consume(self, topic: str, group: str, count: int, protocol: str = "classic") -> Consumer:
        """A member of a group that has read so many records and committed them."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer(settings | {"group.protocol": protocol, "enable.auto.commit": False})
        consumer.subscribe([topic])
        for read in range(count):
            message = consumer.poll(20)
            assert message is not None, f"{read} of {count}"
            assert message.error() is None, message.error()
        consumer.commit(asynchronous=False)
        return consumer


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpCluster]:
    """The processes."""
    made = HttpCluster(LocalCluster(str(tmp_path_factory.mktemp("http"))))
    try:
        made.local.up(UpSettings(port=0, brokers=3, leaders=3, configs=CONFIGS))
        yield made
    finally:
        made.client.close()
        made.local.discard()


@pytest.fixture
def cluster(running: HttpCluster) -> HttpCluster:
    """The cluster with all brokers up and all replicas in sync."""
    running.local.up(UpSettings())
    wait_until(lambda: all(_is_whole(running.get(node, "/health").json()) for node in (1, 2, 3)), "a whole cluster")
    return running


def _is_whole(health: dict[str, object]) -> bool:
    return health["status"] == "ok" and health["under_replicated"] == 0


@pytest.fixture
def new_name() -> Callable[[], str]:
    """A name for a topic or group that nobody has."""
    return lambda: f"http-{next(_names)}"
