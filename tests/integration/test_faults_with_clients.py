"""Faults on three real brokers: what librdkafka, kafka-python and aiokafka make of each, and that others go on."""

import asyncio
import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PyTopicPartition
from support.waiting import wait_until

from yak.errors import UsageError, YakError
from yak.testing import Cluster, run_cluster

ROOT = Path(__file__).resolve().parents[2]
_names = itertools.count(1)


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with run_cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.faults.clear()
    running.wait_until_healthy()


@pytest.fixture
def topic(running: Cluster) -> str:
    return running.create_topic(f"orders-{next(_names)}")


def librdkafka(cluster, client_id="librdkafka", **more):
    return Producer({"bootstrap.servers": cluster.bootstrap, "client.id": client_id, **more})


def send(producer, topic, value, seconds=20):
    """The error of a record, None if it was acknowledged."""
    answers = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _message: answers.append(error))
    assert producer.flush(seconds) == 0
    return answers[0]


def values(cluster, topic, count, seconds=20, **more):
    """The first values of a partition; with one more than there are, all."""
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "enable.auto.commit": False, **more}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [each.value() for each in consumer.consume(count, timeout=seconds)]
    finally:
        consumer.close()


# ---------------------------------------------------------------------------------------------------- inject_error


def test_librdkafka_retries_over_one_error_and_the_record_is_there_once(cluster, topic):
    fault = cluster.faults.inject_error("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, client_id="shop", topic=topic)
    assert send(librdkafka(cluster, "other"), topic, b"other") is None
    assert fault.calls == 0
    assert send(librdkafka(cluster, "shop"), topic, b"shop") is None
    assert (fault.calls, fault.hits) == (2, 1)
    assert values(cluster, topic, 3, 2) == [b"other", b"shop"]


def test_kafka_python_retries_over_one_error(cluster, topic):
    fault = cluster.faults.inject_error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic=topic, partition=0)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), retries=5)
    assert producer.send(topic, b"a").get(30).offset == 0
    producer.close()
    assert fault.hits == 2


def test_aiokafka_retries_over_one_error(cluster, topic):
    fault = cluster.faults.inject_error("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, topic=topic)

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap)
        await producer.start()
        try:
            return await producer.send_and_wait(topic, b"a", partition=0)
        finally:
            await producer.stop()

    assert asyncio.run(run()).offset == 0
    assert fault.hits == 1


def test_idempotent_producer_leaves_one_record_after_an_error_behind_the_append_and_a_plain_one_leaves_two(
    cluster, topic
):
    for number, (idempotent, expected) in enumerate([(True, 1), (False, 2)]):
        name = cluster.create_topic(f"{topic}-{number}")
        with cluster.faults.inject_error("Produce", "NOT_LEADER_OR_FOLLOWER", after=True, times=1, topic=name) as fault:
            producer = librdkafka(cluster, **{"enable.idempotence": idempotent})
            assert send(producer, name, b"paid") is None
            assert fault.hits == 1
        assert values(cluster, name, 3, 2) == [b"paid"] * expected


# ----------------------------------------------------------------------------- disconnect_on, delay_on, blackhole_client


@pytest.mark.parametrize("after", [False, True])
def test_consumers_read_on_after_disconnects_in_fetch(cluster, topic, after):
    for number in range(3):
        send(librdkafka(cluster), topic, b"%d" % number)
    fault = cluster.faults.disconnect_on("Fetch", times=2, topic=topic, after=after, broker=cluster.leader_of(topic))
    expected = [b"0", b"1", b"2"]
    assert values(cluster, topic, 3) == expected
    assert fault.hits == 2
    fault.clear()
    cluster.faults.disconnect_on("Fetch", times=1, after=after)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), group_id=None)
    consumer.assign([PyTopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert [record.value for record in itertools.islice(consumer, 3)] == expected
    consumer.close()


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_librdkafka_whose_assignment_changes_before_an_unstable_offset_reads_from_the_committed_one(cluster, reset):
    """With Kafka's offset of -1 beside UNSTABLE_OFFSET_COMMIT it would begin at `auto.offset.reset`."""
    topic = cluster.create_topic(f"orders-{next(_names)}", partitions=2)
    writer = librdkafka(cluster)
    for number in range(12):
        writer.produce(topic, b"%d" % number, partition=number % 2)
    assert writer.flush(20) == 0
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "enable.auto.commit": False}
    consumer = Consumer({**config, "auto.offset.reset": reset})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 2)], asynchronous=False)
    transactional = librdkafka(cluster, **{"transactional.id": topic})
    transactional.init_transactions(20)
    transactional.begin_transaction()
    ends = [TopicPartition(topic, 0, 4)]
    transactional.send_offsets_to_transaction(ends, consumer.consumer_group_metadata(), 20)
    late = cluster.faults.delay_on("OffsetFetch", 1_000, times=1, client_id="late")
    reader = Consumer({**config, "auto.offset.reset": reset, "client.id": "late"})
    reader.incremental_assign([TopicPartition(topic, 0)])
    wait_until(lambda: late.calls == 1, "the committed offset is queried")
    reader.incremental_assign([TopicPartition(topic, 1)])
    wait_until(lambda: late.calls > 1, "the committed offset is queried again")
    transactional.commit_transaction(20)
    found: list[int] = []
    while len(found) < 6:
        message = reader.poll(20)
        assert message is not None, found
        if message.error() is None:
            found.append(message.offset())
    assert sorted(found) == [2, 3, 4, 4, 5, 5]
    for each in (reader, consumer):
        each.close()


def test_blackholed_client_times_out_and_another_works(cluster, topic):
    cluster.faults.blackhole_client("victim*")
    victim = AdminClient({"bootstrap.servers": cluster.bootstrap, "client.id": "victim-1"})
    with pytest.raises(KafkaException) as caught:
        victim.list_topics(timeout=2)
    assert caught.value.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
    assert send(librdkafka(cluster, "another"), topic, b"a") is None
    cluster.faults.clear()
    assert topic in victim.list_topics(timeout=20).topics


# ----------------------------------------------------------------------------------------------------------- replicas


def test_lagging_replica_leaves_the_isr_and_comes_back_when_it_is_cleared(cluster, topic):
    slow = next(node for node in (1, 2, 3) if node != cluster.leader_of(topic))
    fault = cluster.faults.lag_replica(topic, 0, broker=slow)
    assert send(librdkafka(cluster, acks="all"), topic, b"a") is None
    assert slow not in cluster.isr(topic)
    fault.clear()
    cluster.wait_until_healthy()
    assert cluster.isr(topic) == (1, 2, 3)


# ------------------------------------------------------------------------------------------------------------- surfaces


def test_faults_are_listed_and_refused_with_reasons(cluster, topic):
    fault = cluster.faults.delay_on("Heartbeat", 10, broker=2)
    assert [(each["node_id"], each["id"]) for each in cluster.faults.list()] == [(2, fault.id)]
    assert cluster.faults.list(broker=1) == []
    with pytest.raises(UsageError, match='no error "NOT_LEADER"') as caught:
        cluster.faults.inject_error("Produce", "NOT_LEADER")
    assert caught.value.why == "the closest name is NOT_LEADER_OR_FOLLOWER"
    with pytest.raises(YakError, match="no node 7"):
        cluster.faults.lag_replica(topic, 0, broker=7)
    assert [each["id"] for each in cluster.faults.list()] == [fault.id]
    assert "fault-added" in cluster.log(2)


def test_command_clears_faults_that_hit_the_command_itself(cluster, yak):
    for fault in (("blackhole_client", "yak"), ("disconnect_on", "Metadata"), ("disconnect_on", "ApiVersions")):
        assert yak.run("faults", "add", *fault, "-b", cluster.bootstrap, "-o", "json").json["brokers"] == [1, 2, 3]
        ran = yak.run("faults", "clear", "-b", cluster.bootstrap)
        assert ran.code == 0, ran.err
    assert cluster.faults.list() == []


def test_broker_without_the_config_says_so(broker, yak):
    address = broker.start().bootstrap
    ran = yak.run("faults", "add", "delay_on", "Fetch", "5", "-b", address)
    assert (ran.code, "error[faults-off]" in ran.err) == (2, True), ran.err
    assert "fault-injection" not in broker.log()
    assert "faults" not in {each["check"] for each in yak.run("doctor", "-b", address, "-o", "json").json}


def test_commands_and_routes_of_the_documentation_work(cluster, yak):
    """Each line of the sh blocks about faults, in their order; on this cluster's addresses."""
    port = ports_of_http(cluster)[1]
    lines = []
    for name, heading in (("testing.md", "## Faults"), ("http.md", "### `/api/faults`")):
        text = (ROOT / "docs" / name).read_text("utf-8").partition(heading)[2]
        lines += re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines()
    assert len(lines) == 9
    for line in lines:
        words = shlex.split(line.replace("127.0.0.1:8080", f"127.0.0.1:{port}"))
        if words[0] == "yak":
            ran = yak.run(*words[1:], "-b", cluster.bootstrap)
            assert ran.code == 0, (line, ran.err)
        else:
            said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            assert "error" not in json.loads(said), (line, said)
    assert cluster.faults.list() == []


def ports_of_http(cluster):
    """The HTTP port of each node, as its log says."""
    return {node: int(re.search(r"http=http://127.0.0.1:(\d+)", cluster.log(node))[1]) for node in (1, 2, 3)}
