"""Every broker killed or restarted, one after another and all at once, while clients write: what was acknowledged is read."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from support.fault_cluster import NODES, FaultCluster
from support.loads import check_complete, read_all
from support.waiting import wait_until

PARTITIONS = ([1, 2, 3], [2, 3, 1], [3, 1, 2])


def wait_whole(cluster: FaultCluster, topic: str) -> None:
    """Wait until every replica is in sync."""
    wait_until(lambda: all(len(each.isr) == len(NODES) for each in cluster.image.topics[topic].partitions), "in sync")


def test_each_broker_killed_in_turn_loses_nothing_doubles_nothing_and_keeps_the_order(cluster, unique_topic):
    cluster.create(unique_topic, *PARTITIONS)
    with cluster.load(unique_topic, partitions=3) as load:
        for node_id in NODES:
            load.wait_for(60)
            cluster.nodes[node_id].kill9()
            load.wait_for(60)
            cluster.nodes[node_id].start()
            wait_whole(cluster, unique_topic)
        load.wait_for(60)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)


def test_all_brokers_killed_at_once_lose_nothing_double_nothing_and_keep_the_order(cluster, unique_topic):
    cluster.create(unique_topic, *PARTITIONS)
    with cluster.load(unique_topic, partitions=3) as load:
        for _ in range(2):
            load.wait_for(60)
            for node in cluster.nodes.values():
                node.kill9()
            for node in cluster.nodes.values():
                node.spawn()
            for node in cluster.nodes.values():
                node.wait_ready()
            wait_whole(cluster, unique_topic)
        load.wait_for(60)
        load.stop()
    check_complete(load, cluster.bootstrap, unique_topic)


# ------------------------------------------------------------------------------------------- rolling restarts


class KafkaPythonLoad:
    """kafka-python writes one message after another with acks=all, and retries by itself."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._name = name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self._bootstrap.split(","), acks="all", linger_ms=0)
        try:
            self._write(lambda value: producer.send(self._topic, value, partition=0).get(60))
        finally:
            producer.close()

    def _write(self, send: Callable[[bytes], Any]) -> None:
        while not self._stopping.is_set():
            value = b"%s:%d" % (self._name.encode(), len(self.acknowledged))
            try:
                send(value)
            except Exception as error:
                self.failed.append(repr(error))
                return
            self.acknowledged.append(value)
            time.sleep(0.005)


class AiokafkaLoad(KafkaPythonLoad):
    """aiokafka, likewise, idempotent."""

    def _run(self) -> None:
        from aiokafka import AIOKafkaProducer

        with asyncio.Runner() as runner:

            async def begin() -> AIOKafkaProducer:
                made = AIOKafkaProducer(bootstrap_servers=self._bootstrap, enable_idempotence=True)
                await made.start()
                return made

            producer = runner.run(begin())
            try:
                self._write(lambda value: runner.run(producer.send_and_wait(self._topic, value, partition=1)))
            finally:
                runner.run(producer.stop())


def test_a_rolling_restart_is_no_error_for_any_client_that_retries(cluster, unique_topic):
    cluster.create(unique_topic, *PARTITIONS)
    own = unique_topic + "-confluent"
    cluster.create(own, *PARTITIONS)
    with (
        cluster.load(own, partitions=3) as load,
        KafkaPythonLoad(cluster.bootstrap, unique_topic, "kafka-python") as python,
        AiokafkaLoad(cluster.bootstrap, unique_topic, "aiokafka") as aio,
    ):
        for node_id in NODES:
            counts = len(python.acknowledged), len(aio.acknowledged)
            load.wait_for(60)
            cluster.nodes[node_id].stop()
            cluster.nodes[node_id].start()
            wait_whole(cluster, unique_topic)
            wait_whole(cluster, own)
            wait_until(
                lambda before=counts: all(
                    each.failed or len(each.acknowledged) > count + 20
                    for each, count in zip((python, aio), before, strict=True)
                ),
                "both write",
            )
        load.stop()
    assert python.failed == aio.failed == []
    check_complete(load, cluster.bootstrap, own)
    assert without_repeats(read_all(cluster.bootstrap, unique_topic, 0)) == python.acknowledged
    assert read_all(cluster.bootstrap, unique_topic, 1) == aio.acknowledged


def without_repeats(values: list[Any]) -> list[Any]:
    """A producer that is not idempotent may write one twice when it repeats; nothing else."""
    return [value for index, value in enumerate(values) if index == 0 or value != values[index - 1]]
