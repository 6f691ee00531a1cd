"""Faults on three real brokers: what librdkafka, kafka-python and aiokafka make of each, and that others go on."""

import asyncio
import itertools
import json
import re
import shlex
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
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


def test_error_that_is_not_retried_reaches_the_application(cluster, topic):
    cluster.faults.inject_error("Produce", "TOPIC_AUTHORIZATION_FAILED", topic=topic)
    assert send(librdkafka(cluster), topic, b"a").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    cluster.faults.clear()
    assert values(cluster, topic, 1, 1) == []


def test_group_joins_though_its_coordinator_refuses_at_first(cluster, topic):
    fault = cluster.faults.inject_error("JoinGroup", "NOT_COORDINATOR", times=1)
    send(librdkafka(cluster), topic, b"a")
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap.split(","), group_id=topic, auto_offset_reset="earliest"
    )
    assert next(iter(consumer)).value == b"a"
    consumer.close()
    assert fault.hits >= 1


def test_metadata_of_one_topic_are_refused_and_those_of_another_are_not(cluster, topic):
    other = cluster.create_topic(f"{topic}-other")
    cluster.faults.inject_error("Metadata", "TOPIC_AUTHORIZATION_FAILED", topic=topic)
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
    assert found[topic].error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert found[other].error is None


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


def test_aiokafka_reads_on_after_a_disconnect_in_fetch(cluster, topic):
    send(librdkafka(cluster), topic, b"a")
    fault = cluster.faults.disconnect_on("Fetch", times=1, topic=topic)

    async def run():
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return (await asyncio.wait_for(consumer.getone(), 30)).value
        finally:
            await consumer.stop()

    assert asyncio.run(run()) == b"a"
    assert fault.hits == 1


def test_delay_beyond_the_request_timeout_times_out_and_a_shorter_one_only_costs_time(cluster, topic):
    producer = librdkafka(cluster, **{"request.timeout.ms": 1_000, "message.timeout.ms": 1_500})
    with cluster.faults.delay_on("Produce", 5_000, topic=topic):
        error = send(producer, topic, b"late")
        assert error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT)
    with cluster.faults.delay_on("Produce", 700, topic=topic):
        began = time.monotonic()
        assert send(librdkafka(cluster), topic, b"a") is None
        assert time.monotonic() - began >= 0.7


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


def test_blackholed_consumer_leaves_its_group_as_a_hung_process_does(cluster, topic):
    """The assignor gives the one partition to the first member by name, as long as that one is in the group."""

    def member(name):
        config = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "client.id": name,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
        }
        consumer = Consumer(config)
        consumer.subscribe([topic])
        return consumer

    def is_assigned(consumer):
        consumer.poll(0.1)
        return consumer.assignment()

    first, second = member("a-first"), member("b-second")
    try:
        wait_until(lambda: is_assigned(second) or is_assigned(first), "a member has the partition")
        wait_until(lambda: is_assigned(second) == [] and is_assigned(first), "the first member has it", 30)
        cluster.faults.blackhole_client("a-first")
        wait_until(lambda: is_assigned(second), "the second member has it", 30)
    finally:
        cluster.faults.clear()
        second.close()
        first.close()


# ----------------------------------------------------------------------------------------------------------- replicas


def test_lagging_replica_leaves_the_isr_and_comes_back_when_it_is_cleared(cluster, topic):
    slow = next(node for node in (1, 2, 3) if node != cluster.leader_of(topic))
    fault = cluster.faults.lag_replica(topic, 0, broker=slow)
    assert send(librdkafka(cluster, acks="all"), topic, b"a") is None
    assert slow not in cluster.isr(topic)
    fault.clear()
    cluster.wait_until_healthy()
    assert cluster.isr(topic) == (1, 2, 3)


def test_replica_that_lags_by_a_time_delays_acks_and_stays_in_the_isr(cluster, topic):
    slow = next(node for node in (1, 2, 3) if node != cluster.leader_of(topic))
    cluster.faults.lag_replica(topic, 0, broker=slow, delay_ms=700)
    producer = librdkafka(cluster, acks="all")
    began_s = time.monotonic()
    assert send(producer, topic, b"a") is None
    assert time.monotonic() - began_s >= 0.7
    assert cluster.isr(topic) == (1, 2, 3)


def test_frozen_isr_keeps_a_lagging_replica(cluster, topic):
    slow = next(node for node in (1, 2, 3) if node != cluster.leader_of(topic))
    freeze = cluster.faults.freeze_isr(topic)
    cluster.faults.lag_replica(topic, 0, broker=slow)
    producer = librdkafka(cluster, acks="all", **{"message.timeout.ms": 5_000})
    assert send(producer, topic, b"a").code() == KafkaError._MSG_TIMED_OUT
    assert cluster.isr(topic) == (1, 2, 3)
    freeze.clear()
    wait_until(lambda: slow not in cluster.isr(topic), "the lagging replica leaves")


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


def test_malformed_commands_leave_the_broker_alive(cluster, topic):
    host, port = cluster.brokers[0].host, cluster.brokers[0].port
    for data in (b"", b"{", b"\xff" * 40, json.dumps({"do": "add", "rule": [1]}).encode(), b"[" * 60_000):
        command = b"yak.faults " + data
        body = struct.pack(">hhih", 58, 0, 1, 1) + b"x\x00" + _compact(command) + b"\x00\x01\x00"
        with socket.create_connection((host, port), timeout=10) as raw:
            raw.sendall(struct.pack(">i", len(body)) + body)
            (length,) = struct.unpack(">i", raw.recv(4, socket.MSG_WAITALL))
            assert b"bad-fault" in raw.recv(length, socket.MSG_WAITALL)
    assert send(librdkafka(cluster), topic, b"a") is None


def _compact(data):
    size, out = len(data) + 1, bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + data


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
