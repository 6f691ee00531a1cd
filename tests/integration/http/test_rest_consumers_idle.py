"""Bounds of consumer instances that a broker has by default too wide for a test: the routes here, Kafka in real brokers."""

import contextlib
import itertools
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import httpx
import pytest
import trio
from confluent_kafka.admin import AdminClient

from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.config.listeners import PLAINTEXT_LISTENER
from yak.server import log
from yak.server.http.app import make_app
from yak.server.http.broker_client import BrokerClient
from yak.server.http.consumers.instances import Instances
from yak.server.http.context import Context, HttpLimits
from yak.server.shell import Counters


class Routes:
    """The application in this process, as if it was broker 1's."""

    def __init__(self, cluster, nursery: trio.Nursery, limits: HttpLimits) -> None:
        host, port = next(each.address for each in cluster.local.status().brokers if each.node_id == 1).split(":")
        info = BrokerInfo(1, 1, "", (), host, int(port), None, "leader", BrokerState.ACTIVE)
        broker: Any = SimpleNamespace(
            node_id=1,
            image=SimpleNamespace(brokers={1: info}, topics={}),
            identity=SimpleNamespace(inter_broker=PLAINTEXT_LISTENER),
            authorization=SimpleNamespace(is_active=False, authorize=lambda *_request: True),
        )
        shell: Any = SimpleNamespace(nursery=nursery, counters=Counters(), rate_limit=log.RateLimit())
        broker_client: BrokerClient = BrokerClient(broker, shell, shell.rate_limit)
        self.context = Context(
            shell, broker, broker_client, http_port=80, host=host, advertised_host=host, limits=limits
        )
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(make_app(self.context)), base_url="http://127.0.0.1", timeout=60.0
        )

    @property
    def instances(self):
        return self.context.part(Instances)

    async def make(self, group: str, **settings: object) -> str:
        made = await self.client.post(f"/consumers/{group}", json={"auto.offset.reset": "earliest", **settings})
        assert made.status_code == 200, made.text
        return made.json()["base_uri"]

    async def subscribe(self, uri: str, topic: str) -> None:
        assert (await self.client.post(f"{uri}/subscription", json={"topics": [topic]})).status_code == 204


@contextlib.asynccontextmanager
async def serving(cluster, **limits: int) -> AsyncIterator[Routes]:
    """The routes, and the end of all instances."""
    async with trio.open_nursery() as nursery:
        routes = Routes(cluster, nursery, HttpLimits(**limits))
        try:
            yield routes
        finally:
            for end in routes.context.at_stop:
                await end()
            await routes.client.aclose()
            assert routes.context.shell.counters.bugs == 0
            nursery.cancel_scope.cancel()


async def until(condition, what: str) -> None:
    """Fails with TooSlowError when `what` does not come."""
    with trio.fail_after(30):
        for _ in itertools.count():
            if await condition():
                return
            await trio.sleep(0.05)


def members(cluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return len(admin.describe_consumer_groups([group])[group].result().members)


@pytest.fixture
def topic(cluster, new_name):
    return cluster.make_topic(new_name(), assignment=[[1, 2], [2, 3]])


async def test_idle_instance_is_closed_and_leaves_its_group(cluster, topic, new_name):
    group = new_name()
    async with serving(cluster, consumer_idle_ms_max=1_500) as routes:
        used, idle = await routes.make(group, name="used"), await routes.make(group, name="idle")
        for uri in (used, idle):
            await routes.subscribe(uri, topic)

        async def both_are_in() -> bool:
            for uri in (used, idle):
                await routes.client.get(f"{uri}/assignments")
            return await trio.to_thread.run_sync(members, cluster, group) == 2

        await until(both_are_in, "the group of two")

        async def one_is_gone() -> bool:
            assert (await routes.client.get(f"{used}/records", params={"timeout": 100})).status_code == 200
            return (group, "idle") not in routes.instances._table

        await until(one_is_gone, "the idle one gone")
        assert (await routes.client.get(f"{idle}/records")).json()["error_code"] == 40403

        async def other_has_all() -> bool:
            await routes.client.get(f"{used}/records", params={"timeout": 100})
            return len((await routes.client.get(f"{used}/assignments")).json()["partitions"]) == 2

        await until(other_has_all, "both partitions")
        # A long poll is no idleness.
        assert (await routes.client.get(f"{used}/records", params={"timeout": 2_500})).json() == []
        assert (await routes.client.get(f"{used}/subscription")).status_code == 200


async def test_consumer_instances_beyond_the_maximum_are_refused(cluster, new_name):
    one, other = new_name(), new_name()
    async with serving(cluster, consumers_max=3, consumers_per_group_max=2) as routes:
        first = await routes.make(one)
        await routes.make(one)
        refused = await routes.client.post(f"/consumers/{one}")
        assert (refused.status_code, refused.json()["error_code"]) == (429, 42901)
        await routes.make(other)
        refused = await routes.client.post(f"/consumers/{other}")
        assert (refused.status_code, refused.json()["error_code"]) == (429, 42901)
        assert (await routes.client.delete(first)).status_code == 204
        await routes.make(other)
        assert len(routes.instances._table) == 3


async def test_no_answer_is_larger_than_allowed(cluster, topic, new_name):
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for _ in range(50):
        producer.produce(topic, b"x" * 1_000, partition=0)
    assert producer.flush(30) == 0
    async with serving(cluster, consumer_answer_bytes_max=10_500) as routes:
        uri = await routes.make(new_name())
        await routes.subscribe(uri, topic)
        counts: list[int] = []

        async def all_read() -> bool:
            answer = await routes.client.get(f"{uri}/records", params={"max_bytes": 10**9, "timeout": 2_000})
            counts.append(len(answer.json()))
            return sum(counts) == 50

        await until(all_read, "all records")
        assert max(counts) == 10


def test_closing_all_consumer_instances_at_once_leaves_empty_groups_and_no_threads(cluster, topic, new_name):
    before = threading.active_count()
    group = new_name()
    trio.run(_all_end, cluster, topic, group)
    assert members(cluster, group) == 0
    assert threading.active_count() <= before + 20, "Trio keeps some threads for the next"


async def _all_end(cluster, topic: str, group: str) -> None:
    async with serving(cluster) as routes:
        uris = [await routes.make(group) for _ in range(8)]
        for uri in uris:
            await routes.subscribe(uri, topic)

        async def all_are_in() -> bool:
            return await trio.to_thread.run_sync(members, cluster, group) == 8

        await until(all_are_in, "the group of eight")
        reads: list[int] = []

        async def read(uri: str) -> None:
            reads.append((await routes.client.get(f"{uri}/records", params={"timeout": 60_000})).status_code)

        async with trio.open_nursery() as nursery:
            for uri in uris:
                nursery.start_soon(read, uri)
            await trio.sleep(0.5)
            with trio.fail_after(20):
                await routes.instances.close_all()
        assert len(reads) == 8
        assert set(reads) <= {200, 404}
        refused = await routes.client.post(f"/consumers/{group}")
        assert (refused.status_code, refused.json()["error_code"]) == (503, 50302)
