"""Redis is not on the data path: stopped, killed, emptied and rolled back under load, and absent at start."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from support.client_kinds import Confluent, Message
from support.held_port import HeldPort
from support.loads import SteadyLoad, check_complete, read_all
from support.raw import assert_no_bugs
from support.waiting import wait_until

from yak.errors import StartRefused
from yak.local import redis_child
from yak.local.processes import kill
from yak.local.redis_child import RunningRedis

FOREVER = {"retention.ms": "-1"}
OUTAGE_SECONDS = 10


class OwnRedis:
    """A Redis of this test alone, which may be stopped, killed, emptied and put back to an older copy of itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "redis"
        self._log = str(folder / "redis.log")
        self._held = HeldPort()
        self._port = self._held.number
        self.running: RunningRedis = redis_child.start(str(self.folder), self._port, self._log)

    @property
    def url(self) -> str:
        return self.running.url

    def kill(self) -> None:
        kill(self.running.process)

    def start(self) -> None:
        self.running = redis_child.start(str(self.folder), self._port, self._log)

    def pause(self) -> None:
        os.kill(self.running.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.running.process.pid, signal.SIGCONT)

    def empty(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def copy_to(self, path: Path) -> None:
        shutil.copytree(self.folder, path)

    def put_back(self, path: Path) -> None:
        """Kill it and start on an older copy of its data."""
        self.kill()
        shutil.rmtree(self.folder)
        shutil.copytree(path, self.folder)
        self.start()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    try:
        yield server
    finally:
        kill(server.running.process)


@pytest.fixture
def broker(make_broker: Any, own_redis: OwnRedis, tmp_path: Path) -> Any:
    return make_broker(tmp_path / "broker", own_redis.url).start()


def state_of(broker: Any) -> tuple[str, str]:
    """(state, reason) of the broker's standing with the metadata store, as any admin client sees it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    try:
        entries = admin.describe_configs([resource], request_timeout=3)[resource].result(20)
    except KafkaException as error:  # a client that asks while the broker is fenced for a moment waits for it in vain
        return "unknown", str(error)
    return str(entries["yak.metadata.state"].value), str(entries["yak.metadata.reason"].value)


def wait_for_state(broker: Any, wanted: str, seconds: float = 30) -> str:
    deadline = time.monotonic() + seconds
    while (found := state_of(broker))[0] != wanted:
        assert time.monotonic() < deadline, f"{found} after {seconds} s, not {wanted}"
        time.sleep(0.3)
    return found[1]


def refused_creation(broker: Any, topic: str) -> Any:
    """The error of a topic creation that must not succeed now."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=2, request_timeout=15)[topic].result(20)
    return raised.value.args[0]


@pytest.mark.parametrize("how", ["paused", "killed"])
def test_ten_seconds_without_redis_fail_no_produce_and_no_fetch(broker, own_redis, unique_topic, how):
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, partitions=2, configs=FOREVER)
    with SteadyLoad(broker.bootstrap, unique_topic, partitions=2, **{"message.timeout.ms": 9000}) as load:
        load.wait_for(100)
        started = time.monotonic()
        own_redis.pause() if how == "paused" else own_redis.kill()
        load.wait_for(200)
        error = refused_creation(broker, unique_topic + "-2")
        assert error.name() in ("REQUEST_TIMED_OUT", "_TIMED_OUT"), error
        check_reads_on(broker, unique_topic, load)
        time.sleep(max(0.0, started + OUTAGE_SECONDS - time.monotonic()))
        load.wait_for(100)
        check_reads_on(broker, unique_topic, load)
        own_redis.go_on() if how == "paused" else own_redis.start()
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


def check_frozen(broker: Any, topic: str, load: SteadyLoad, *words: str) -> None:
    """FROZEN with a reason that says so; the data path goes on; changes are refused; the log tells."""
    wait_until(lambda: all(word in wait_for_state(broker, "FROZEN") for word in words), f"the reason says {words}")
    load.wait_for(100)
    check_reads_on(broker, topic, load)
    error = refused_creation(broker, topic + "-2")
    assert error.name() in ("REQUEST_TIMED_OUT", "_TIMED_OUT"), error
    load.wait_for(50)
    load.stop()
    check_complete(load, broker.bootstrap, topic)
    assert "frozen" in broker.log().lower()
    assert_no_bugs(broker)


def test_emptied_redis_is_noticed_and_restored_by_hand(broker, own_redis, unique_topic, yak):
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, configs=FOREVER)
    with SteadyLoad(broker.bootstrap, unique_topic) as load:
        load.wait_for(50)
        own_redis.empty()
        wait_for_state(broker, "FROZEN")
        shown = ("cluster", "-b", broker.bootstrap, "-o", "json")
        wait_until(lambda: "FROZEN" in yak.run(*shown).out, "yak cluster shows it")
        check_frozen(broker, unique_topic, load, "yak cluster restore")
    restore(yak, own_redis)
    wait_for_state(broker, "ACTIVE")
    client.create_topic(unique_topic + "-after", configs=FOREVER)
    broker.restart()
    assert {unique_topic, unique_topic + "-after"} <= set(client.topics())


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
    assert incarnation(own_redis) == 1, "the real data came in time"
    client.create_topic(unique_topic + "-2", configs=FOREVER)


def incarnation(own_redis: OwnRedis) -> int:
    with redis.Redis.from_url(own_redis.url) as client:
        return int(client.hget("{y}:cluster", "incarnation"))


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
    assert incarnation(own_redis) == 2


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


def test_a_start_without_redis_waits_and_then_says_so(own_redis, make_broker, tmp_path, yak):
    own_redis.kill()
    broker_dir = tmp_path / "data"
    ran = yak.run(
        "serve", "--port", "0", "--data-dir", str(broker_dir), "--redis-url", own_redis.url, "--redis-timeout", "3s"
    )
    assert ran.code == 3
    assert "error[redis-unreachable]" in ran.err
    assert "why:" in ran.err
    assert "try:" in ran.err
    assert "waiting for the metadata store" in ran.err


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


def test_a_broker_and_a_redis_that_were_both_killed_come_back_with_everything(broker, own_redis, unique_topic):
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, configs=FOREVER)
    sent = [Message(b"%d" % n, timestamp_ms=time.time_ns() // 1_000_000) for n in range(20)]
    client.produce(unique_topic, sent)
    own_redis.kill()
    broker.kill9()
    own_redis.start()
    broker.restart()
    assert read_all(broker.bootstrap, unique_topic) == [message.value for message in sent]
