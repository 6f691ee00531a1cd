"""Redis is not on the data path: stopped, killed, emptied and rolled back under load, and absent at start."""

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from support.client_kinds import Confluent, Message
from support.loads import SteadyLoad, check_complete, read_all
from support.own_redis import OwnRedis
from support.raw import assert_no_bugs
from support.waiting import wait_until

from yak.errors import StartRefused

FOREVER = {"retention.ms": "-1"}
OUTAGE_SECONDS = 10


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def broker(make_broker: Any, own_redis: OwnRedis, tmp_path: Path) -> Any:
    return make_broker(tmp_path / "broker", own_redis.url).start()


def state_of(broker: Any) -> str:
    """The broker's state with the metadata store, as any admin client sees it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    try:
        entries = admin.describe_configs([resource], request_timeout=3)[resource].result(20)
    except KafkaException:  # a client that asks while the broker is fenced for a moment waits for it in vain
        return "unknown"
    return str(entries["yak.metadata.state"].value)


def wait_for_state(broker: Any, wanted: str) -> None:
    wait_until(lambda: state_of(broker) == wanted, f"the state {wanted}")


def refused_creation(broker: Any, topic: str) -> Any:
    """The error of a topic creation that must not succeed now."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=2, request_timeout=15)[topic].result(20)
    return raised.value.args[0]


def test_ten_seconds_without_redis_fail_no_produce_and_no_fetch(broker, own_redis, unique_topic):
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, partitions=2, configs=FOREVER)
    with SteadyLoad(broker.bootstrap, unique_topic, partitions=2, **{"message.timeout.ms": 9000}) as load:
        load.wait_for(100)
        started = time.monotonic()
        own_redis.pause()
        load.wait_for(200)
        error = refused_creation(broker, unique_topic + "-2")
        assert error.name() in ("REQUEST_TIMED_OUT", "_TIMED_OUT"), error
        check_reads_on(broker, unique_topic, load)
        time.sleep(max(0.0, started + OUTAGE_SECONDS - time.monotonic()))
        load.wait_for(100)
        check_reads_on(broker, unique_topic, load)
        own_redis.resume()
        wait_for_state(broker, "ACTIVE")
        client.create_topic(unique_topic + "-3", configs=FOREVER)
        assert client.produce(unique_topic + "-3", [Message(b"after", timestamp_ms=time.time_ns() // 1_000_000)]) == [0]
        load.stop()
        check_complete(load, broker.bootstrap, unique_topic)
        assert load.slowest_ack_seconds < OUTAGE_SECONDS - 1
    assert_no_bugs(broker)


def check_reads_on(broker: Any, topic: str, load: SteadyLoad) -> None:
    """What is acknowledged by now can be read now."""
    acknowledged = list(load.acknowledged[0])
    found = read_all(broker.bootstrap, topic, count_max=len(acknowledged))
    assert found == acknowledged


def test_a_rolled_back_redis_is_noticed_and_its_return_is_welcomed(broker, own_redis, unique_topic, tmp_path):
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, configs=FOREVER)
    own_redis.kill()
    own_redis.copy_to(tmp_path / "older")
    own_redis.start()
    wait_for_state(broker, "ACTIVE")
    client.create_topic(unique_topic + "-newer", configs=FOREVER)
    own_redis.kill()
    own_redis.copy_to(tmp_path / "newest")
    with SteadyLoad(broker.bootstrap, unique_topic) as load:
        load.wait_for(50)
        own_redis.put_back(tmp_path / "older")
        wait_for_state(broker, "FROZEN")
        load.wait_for(50)
        load.stop()
        check_complete(load, broker.bootstrap, unique_topic)
    assert unique_topic + "-newer" in client.topics()
    own_redis.put_back(tmp_path / "newest")
    wait_for_state(broker, "ACTIVE")
    assert own_redis.incarnation() == 1, "the real data came in time"
    client.create_topic(unique_topic + "-2", configs=FOREVER)


def restore(yak, own_redis: OwnRedis) -> None:
    ran = yak.run("cluster", "restore", "--redis-url", own_redis.url, "--yes")
    assert ran.code == 0, ran.err


def test_start_on_rolled_back_redis_is_refused_until_a_restore(broker, own_redis, unique_topic, tmp_path, yak):
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, configs=FOREVER)
    own_redis.kill()
    own_redis.copy_to(tmp_path / "older")
    own_redis.start()
    wait_for_state(broker, "ACTIVE")
    names = [f"{unique_topic}-{number}" for number in range(3)]
    for name in names:
        client.create_topic(name, configs=FOREVER)
    broker.kill9()
    own_redis.put_back(tmp_path / "older")
    check_start_refused(broker, "rolled back", names)
    restore(yak, own_redis)
    broker.restart()
    assert set(names) <= set(client.topics())
    assert own_redis.incarnation() == 2


def test_a_redis_that_was_rolled_back_and_went_on_is_a_fork(
    broker, make_broker, own_redis, unique_topic, tmp_path, yak
):
    """The broker and Redis go on twice from one copy of both, and end with two histories of which one is shorter."""
    Confluent(broker.bootstrap).create_topic(unique_topic, configs=FOREVER)
    broker.kill9()
    own_redis.kill()
    own_redis.copy_to(tmp_path / "older")
    twin = make_broker(tmp_path / "twin", own_redis.url)
    shutil.copytree(broker.data_dir, twin.data_dir)
    own_redis.start()
    broker.restart()
    name = unique_topic + "-ours"
    Confluent(broker.bootstrap).create_topic(name, configs=FOREVER)
    broker.kill9()
    own_redis.put_back(tmp_path / "older")
    twin.start()
    for number in range(5):
        Confluent(twin.bootstrap).create_topic(f"{unique_topic}-theirs-{number}", configs=FOREVER)
    twin.kill9()
    check_start_refused(broker, "rolled back", [name])
    ran = yak.run("cluster", "restore", "--redis-url", own_redis.url, "--yes")
    assert ran.code == 1
    assert "restore-unsafe" in ran.err
    assert "but it registered as" in ran.err


def check_start_refused(broker: Any, word: str, names: list[str]) -> None:
    """It ends with the reason, and deletes nothing of what the store does not know."""
    with pytest.raises(StartRefused) as refused:
        broker.restart()
    assert refused.value.code == "broker-frozen"
    assert word in refused.value.why
    assert refused.value.try_
    assert {f"{name}-0" for name in names} <= {path.name for path in broker.data_dir.iterdir()}
    assert_no_bugs(broker)


def test_a_broker_that_waits_for_redis_starts_when_it_comes(own_redis, make_broker, tmp_path, unique_topic):
    own_redis.kill()
    harness = make_broker(tmp_path / "late", own_redis.url)

    def come() -> None:
        wait_until(lambda: "waiting for the metadata store" in harness.log(), "the broker waits")
        own_redis.start()

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(come)
        harness.start()
        coming.result()
    Confluent(harness.bootstrap).create_topic(unique_topic, configs=FOREVER)
