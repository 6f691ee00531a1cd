"""`yak.aio` and `yak.trio` against a real broker: the same programs on both loops."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from conftest import BrokerHarness

import yak
from tests.errors import raises_error
from yak import TopicPartition

_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Either:
    """One of the two event loops, in the few words that these tests need."""

    name: str
    api: Any
    run: Callable[[Callable[[], Awaitable[Any]]], Any]
    deadline: Callable[[float], AbstractAsyncContextManager[None]]
    """Cancels its block after seconds, quietly."""
    together: Callable[[list[Callable[[], Awaitable[Any]]]], Awaitable[None]]
    """Runs these at the same time."""


@asynccontextmanager
async def _asyncio_deadline(seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        pass


@asynccontextmanager
async def _trio_deadline(seconds: float) -> Any:
    with trio.move_on_after(seconds):
        yield


async def _asyncio_together(works: list[Callable[[], Awaitable[Any]]]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work())


async def _trio_together(works: list[Callable[[], Awaitable[Any]]]) -> None:
    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(work)


ASYNCIO = Either("asyncio", yak.aio, lambda main: asyncio.run(main()), _asyncio_deadline, _asyncio_together)
TRIO = Either("trio", yak.trio, trio.run, _trio_deadline, _trio_together)


@pytest.fixture(params=[ASYNCIO, TRIO], ids=lambda either: either.name)
def loop(request: pytest.FixtureRequest) -> Either:
    return request.param


@pytest.fixture
def topic(module_broker: BrokerHarness) -> str:
    name = f"topic-{next(_names)}"
    yak.create_topic(name, 2, bootstrap=module_broker.bootstrap)
    return name


def fill(bootstrap: str, topic: str, count: int) -> None:
    with yak.Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, number, partition=0)


def test_topics_sending_and_reading(loop, module_broker, topic):
    async def main() -> None:
        async with loop.api.connect(module_broker.bootstrap) as client:
            await client.create_topic(f"{topic}-more", num_partitions=1)
            assert f"{topic}-more" in await client.topics()
            await client.add_partitions(f"{topic}-more", 2)
            await client.set_topic_configs(f"{topic}-more", {"retention.ms": 1000})
            assert (await client.topic_configs(f"{topic}-more"))["retention.ms"] == "1000"
            assert len((await client.topic(f"{topic}-more")).partitions) == 2
            async with client.producer() as producer:
                first = await producer.send(topic, {"total": 12}, key="u1")
                deliveries = [await producer.enqueue(topic, number, key="u1") for number in range(100)]
                assert (await deliveries[-1].sent()).offset == 100
                assert deliveries[0].done()
                await producer.flush()
            here = TopicPartition(topic, first.partition)
            assert (await client.offsets(topic))[here] == (0, 101)
            async with client.consumer() as consumer:
                await consumer.assign(await consumer.partitions(topic))
                found = []
                async for message in consumer:
                    found.append(message.value)
                    if len(found) == 101:
                        break
                assert found == [{"total": 12}, *range(100)]
                await consumer.seek(here, 50)
                assert [message.value for message in await consumer.poll(30, max_messages=2)] == [49, 50]
                assert await consumer.position(here) == 52
                assert await consumer.watermarks(here) == (0, 101)
                assert await consumer.offset_for_time(here, 0) == 0
                await consumer.seek(here, "latest")
                assert await consumer.poll(0.05) == []
                await consumer.pause()
                await consumer.resume()
                assert await consumer.assignment() == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
                await consumer.unsubscribe()
                assert await consumer.assignment() == []
            await client.delete_topic(f"{topic}-more")

    loop.run(main)


def test_many_tasks_share_a_producer(loop, module_broker, topic):
    sent = []

    async def main() -> None:
        async with loop.api.Producer(module_broker.bootstrap, config={"queue.buffering.max.messages": 20}) as producer:

            async def send() -> None:
                sent.append(await producer.send(topic, 1, partition=0))

            await loop.together([send] * 200)

    loop.run(main)
    assert sorted(each.offset for each in sent) == list(range(200))


def test_a_cancelled_reader_loses_nothing(loop, module_broker, topic):
    fill(module_broker.bootstrap, topic, 300)
    found = []

    async def main() -> None:
        async with loop.api.Consumer(module_broker.bootstrap) as consumer:
            await consumer.assign({TopicPartition(topic, 0): 0})
            while len(found) < 300:
                # At times in the middle of a wait, at times between two messages.
                async with loop.deadline(0.003):
                    async for message in consumer:
                        found.append(message.value)  # noqa: PERF401 - one by one, since we are cancelled in between
            async with loop.deadline(0.05):
                await consumer.poll(60)
            assert await consumer.position(TopicPartition(topic, 0)) == 300

    loop.run(main)
    assert found == list(range(300))


def test_a_cancelled_block_ends_and_what_is_there_can_be_used_again(loop, module_broker, topic):
    async def main() -> None:
        async with (
            loop.deadline(2),  # in which a busy machine connects, too
            loop.api.connect(module_broker.bootstrap) as client,
            client.producer(linger_ms=20_000) as producer,
            client.consumer() as consumer,
        ):
            await producer.enqueue(topic, "handed over before", partition=0)
            await consumer.assign({TopicPartition(topic, 0): "latest"})
            while True:
                await consumer.poll(60)
        async with loop.api.Consumer(module_broker.bootstrap) as consumer:
            await consumer.assign({TopicPartition(topic, 0): 0})
            (message,) = await consumer.poll(30)
            assert message.value == "handed over before"

    loop.run(main)


def test_several_tasks_may_use_one_consumer(loop, module_broker, topic):
    fill(module_broker.bootstrap, topic, 200)
    found = []

    async def main() -> None:
        async with loop.api.Consumer(module_broker.bootstrap) as consumer:
            await consumer.assign({TopicPartition(topic, 0): 0})

            async def read() -> None:
                while len(found) < 200:
                    for message in await consumer.poll(0.2, max_messages=7):
                        found.append(message.value)
                        await consumer.position(message.topic_partition)

            await loop.together([read] * 3)

    loop.run(main)
    assert sorted(found) == list(range(200))


def test_errors_are_raised_where_one_waits(loop, module_broker, topic):
    async def main() -> None:
        async with loop.api.Producer(module_broker.bootstrap) as producer:
            with pytest.raises(yak.SendFailed) as failed:
                await producer.send(topic, 1, partition=77)
            assert failed.value.written == "no"
            with pytest.raises(yak.UsageError, match="cannot be written as JSON"):
                await producer.send(topic, {1})
        with pytest.raises(yak.SendFailed):
            async with loop.api.Producer(module_broker.bootstrap) as producer:
                await producer.enqueue(topic, 1, partition=77)
        async with loop.api.Consumer(module_broker.bootstrap) as consumer:
            with raises_error(yak.UsageError, "no-group"):
                await consumer.commit()
        with raises_error(yak.UsageError, "closed"):
            await consumer.poll()
        for kind in (loop.api.Producer, loop.api.Consumer, loop.api.Client):
            thing = kind(module_broker.bootstrap)
            with raises_error(yak.UsageError, "not-begun"):
                await (
                    thing.topics()
                    if kind is loop.api.Client
                    else thing.flush()
                    if kind is loop.api.Producer
                    else thing.poll()
                )
            async with thing:
                pass
        with pytest.raises(yak.Unreachable):
            async with loop.api.connect("127.0.0.1:1"):
                pass

    loop.run(main)
