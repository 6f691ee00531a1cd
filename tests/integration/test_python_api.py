"""`import yak` against a real broker: topics, sending, reading without a group, errors."""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from conftest import BrokerHarness
from support.waiting import wait_until

import yak
from tests.errors import raises_error
from yak import TopicPartition

_names = itertools.count(1)


@pytest.fixture
def client(module_broker: BrokerHarness) -> Iterator[yak.Client]:
    with yak.connect(module_broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic(client: yak.Client) -> str:
    name = f"topic-{next(_names)}"
    client.create_topic(name, num_partitions=3)
    return name


def everything(client: yak.Client, topic: str, count: int) -> list[yak.Message]:
    """The first messages of a topic, read without a group."""
    with client.consumer() as consumer:
        consumer.assign(consumer.partitions(topic))
        return list(itertools.islice(consumer, count))


# ------------------------------------------------------------------------------------------------------------- topics


def test_topics_are_made_described_changed_and_deleted(client):
    client.create_topic(
        "made", num_partitions=2, configs={"retention.ms": 60_000, "unclean.leader.election.enable": False}
    )
    assert len(client.topics()["made"].partitions) == 2
    assert client.topic_configs("made")["retention.ms"] == "60000"
    client.set_topic_configs("made", {"retention.ms": None, "max.message.bytes": 5000})
    configs = client.topic_configs("made")
    assert (configs["retention.ms"], configs["max.message.bytes"]) == ("604800000", "5000")
    client.add_partitions("made", 4)
    assert client.offsets("made") == {TopicPartition("made", number): (0, 0) for number in range(4)}
    client.create_topic("made", if_not_exists=True)
    client.delete_topic("made")
    client.delete_topic("made", if_exists=True)
    assert "made" not in client.topics()


def test_topic_has_three_partitions_unless_num_partitions_is_given(broker):
    broker.start(num_partitions=5)
    with yak.connect(broker.bootstrap) as client:
        client.create_topic("three")
        client.create_topic("brokers-choice", num_partitions=None)
        assert len(client.topic("three").partitions) == 3
        assert len(client.topic("brokers-choice").partitions) == 5


def test_create_topic_needs_a_single_call(module_broker, client):
    yak.create_topic("one-call", num_partitions=1, bootstrap=module_broker.bootstrap)
    assert "one-call" in client.topics()


# ------------------------------------------------------------------------------------------------------------ sending


def test_sent_values_are_consumed_as_the_same_values(client, topic):
    values = [{"total": 12, "name": "ü"}, "12", 12, [1, None], True, None]
    with client.producer() as producer:
        for value in values:
            producer.send(topic, value, key="u1", headers={"source": "web", "raw": b"\x00", "none": None})
    found = everything(client, topic, len(values))
    assert [message.value for message in found] == values
    assert {message.key for message in found} == {"u1"}
    assert found[0].headers == [("source", b"web"), ("raw", b"\x00"), ("none", None)]
    assert found[-1].raw_value is None


def test_the_future_says_where_the_record_is(client, topic):
    with client.producer() as producer:
        first = producer.send(topic, key="u1", value={"total": 12}, timestamp_ms=1_700_000_000_000).result(30)
        second = producer.send(topic, key="u1", value={"total": 13}).result(30)
        chosen = producer.send(topic, 1, partition=(first.partition + 1) % 3).result(30)
    assert first == yak.Sent(topic, first.partition, 0, 1_700_000_000_000)
    assert (second.partition, second.offset) == (first.partition, 1)
    assert (chosen.partition, chosen.offset) == ((first.partition + 1) % 3, 0)
    assert everything(client, topic, 1)[0].timestamp_ms in (first.timestamp_ms, chosen.timestamp_ms)


def test_keys_meet_those_of_kafka_python(client, module_broker):
    """Java's too: tests/unit/protocol/test_murmur2.py has Kafka's own examples."""
    from kafka import KafkaProducer

    client.create_topic("keys", num_partitions=7)
    keys = [b"", *(f"key-{number}".encode() for number in range(200)), "ключ".encode(), b"\xff\x80\x00"]
    with client.producer() as producer:
        ours = {key: producer.send("keys", 1, key=key) for key in keys}
    theirs = KafkaProducer(bootstrap_servers=module_broker.bootstrap)
    try:
        sent = {key: theirs.send("keys", value=b"1", key=key) for key in keys}
        assert {key: future.get(30).partition for key, future in sent.items()} == {
            key: delivery.result(30).partition for key, delivery in ours.items()
        }
    finally:
        theirs.close()


def test_records_without_a_key_go_to_every_partition(client, topic):
    with client.producer(config={"sticky.partitioning.linger.ms": 0}) as producer:
        sent = [producer.send(topic, number) for number in range(200)]
    assert {delivery.result(30).partition for delivery in sent} == {0, 1, 2}


def test_a_producer_sends_what_it_was_given_before_its_block_ends(client, topic):
    with client.producer(linger_ms=20_000) as producer:
        deliveries = [producer.send(topic, number, partition=0) for number in range(1000)]
        assert len(producer) > 0
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(1000))
    assert producer.is_closed


def test_a_full_queue_makes_send_wait(client, topic):
    with client.producer(config={"queue.buffering.max.messages": 10}) as producer:
        deliveries = [producer.send(topic, number, partition=0) for number in range(500)]
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(500))


def test_several_threads_can_share_a_producer(client, topic):
    with client.producer() as producer:
        threads = [
            threading.Thread(target=lambda: [producer.send(topic, number) for number in range(200)]) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(end for _, end in client.offsets(topic).values()) == 1000


def test_without_acknowledgement_there_is_no_offset(client, topic):
    with client.producer(acks=0) as producer:
        assert producer.send(topic, 1).result(30).offset == -1


def test_failed_send_whose_result_was_not_read_is_raised_at_the_end(client, topic):
    with pytest.raises(yak.SendFailed) as failed, client.producer() as producer:
        producer.send(topic, 1, partition=77)
    assert (failed.value.code, failed.value.written) == ("unknown-partition", "no")


def test_a_partition_that_is_not_there_fails_the_future_also_when_the_topic_is_known_already(client, topic):
    with client.producer() as producer:
        producer.send(topic, 1).result(30)
        failure = producer.send(topic, 1, partition=77).exception(30)
        assert isinstance(failure, yak.SendFailed)
        assert (failure.code, failure.written) == ("unknown-partition", "no")


def test_failed_send_whose_exception_was_read_is_not_raised_again(client, topic):
    with client.producer() as producer:
        assert isinstance(producer.send(topic, 1, partition=77).exception(30), yak.SendFailed)
        producer.flush()


def test_an_error_in_the_block_is_not_hidden_and_its_records_are_sent(client, topic):
    deliveries = []

    def work() -> None:
        with client.producer(linger_ms=20_000) as producer:
            deliveries.append(producer.send(topic, 1))
            raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        work()
    assert deliveries[0].result(0).offset == 0


def test_a_record_too_large_is_refused_by_name(client, topic):
    with client.producer() as producer, raises_error(yak.YakError, "record-too-large"):
        producer.send(topic, "x" * 2_000_000)


def test_a_forgotten_producer_says_that_records_are_lost(client, topic):
    producer = yak.Producer(client.bootstrap, linger_ms=20_000)
    producer.send(topic, 1)
    with pytest.warns(RuntimeWarning, match="forgotten with 1 record"):
        del producer


FORKING = """
import os, sys, yak

bootstrap, topic = sys.argv[1:]
client = yak.connect(bootstrap)
producer, consumer = client.producer(), client.consumer(group_id="forked")
producer.send(topic, 1).result()
consumer.subscribe(topic)
while not consumer.poll():
    pass
if child := os.fork():
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert producer.send(topic, 2).result().offset >= 0
    consumer.commit()
    client.close()
else:
    for call in (client.topics, consumer.poll, consumer.close, client.close, producer.flush, lambda: producer.send(topic, 3)):
        try:
            call()
        except yak.UsageError as error:
            assert error.code == "closed"
    with yak.Producer(bootstrap) as own:
        own.send(topic, 4)
"""


def test_fork_leaves_clients_to_the_parent(client: yak.Client, topic: str) -> None:
    """librdkafka's threads stay there: a call of the child would wait for ever, and its exit would abort."""
    command = [sys.executable, "-c", FORKING, client.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(message.value for message in everything(client, topic, 3)) == [1, 2, 4]


# ------------------------------------------------------------------------------------------------------------ reading


def test_poll_gives_what_is_there_and_nothing_after_its_time(client, topic):
    with client.producer() as producer:
        for number in range(10):
            producer.send(topic, number, partition=0)
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = consumer.poll(30, max_messages=4)
        while len(found) < 10:
            found += consumer.poll(30, max_messages=4)
        assert [message.value for message in found] == list(range(10))
        assert consumer.poll(0.05) == []
        assert consumer.poll(0) == []


def test_positions_follow_what_was_given(client, topic):
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with client.producer() as producer:
        for number in range(10):
            producer.send(topic, number, partition=0, timestamp_ms=1000 + number)
    with client.consumer() as consumer:
        consumer.assign({zero: 4, one: "latest"})
        assert consumer.assignment() == [zero, one]
        assert (consumer.position(zero), consumer.position(one)) == (4, 0)
        assert next(consumer).offset == 4
        assert consumer.position(zero) == 5
        consumer.seek(zero, "earliest")
        assert next(consumer).offset == 0
        consumer.seek(zero, 8)
        assert [message.offset for message in itertools.islice(consumer, 2)] == [8, 9]
        consumer.seek(zero, consumer.offset_for_time(zero, 1006))
        assert consumer.position(zero) == 6
        assert consumer.offset_for_time(zero, 5000) == 10
        assert consumer.watermarks(zero) == (0, 10)
        consumer.unsubscribe()
        assert consumer.assignment() == []


@pytest.mark.parametrize("reset", ["latest", "earliest"])
def test_position_outside_the_log_is_the_one_after_the_reset(client, topic, reset):
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with client.producer() as producer:
        producer.send(topic, 1, partition=0).result(30)
    with client.consumer(auto_offset_reset=reset) as consumer:
        consumer.assign({zero: 1, one: 1000})  # the second one is empty
        wait_until(lambda: consumer.poll(0.1) == [] and consumer.position(one) == 0, "the position after the reset")
        assert consumer.position(zero) == 1


def test_latest_is_taken_when_assign_is_called(client, topic):
    with client.producer() as producer, client.consumer(auto_offset_reset="latest") as consumer:
        producer.send(topic, "before", partition=0).result(30)
        consumer.assign([TopicPartition(topic, 0)])
        producer.send(topic, "after", partition=0).result(30)
        assert next(consumer).value == "after"


def test_a_paused_partition_gives_nothing_and_loses_nothing(client, topic):
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with client.producer() as producer, client.consumer() as consumer:
        for number in range(50):
            producer.send(topic, number, partition=number % 2)
        producer.flush()
        consumer.assign([zero, one])
        first = next(consumer)
        consumer.pause([zero])
        others = [message for _ in range(10) for message in consumer.poll(0.1)]
        assert {message.partition for message in others} == {1}
        consumer.resume()
        found = [first, *others, *itertools.islice(consumer, 49 - len(others))]
        for partition in (0, 1):
            offsets = [message.offset for message in found if message.partition == partition]
            assert offsets == list(range(25))


def test_pausing_everything_stops_everything(client, topic):
    with client.producer() as producer, client.consumer() as consumer:
        consumer.assign(consumer.partitions(topic))
        consumer.pause()
        producer.send(topic, 1).result(30)
        assert consumer.poll(0.5) == []
        consumer.resume()
        assert next(consumer).value == 1


def test_leaving_a_loop_over_a_consumer_loses_nothing(client, topic):
    with client.producer() as producer:
        for number in range(100):
            producer.send(topic, number, partition=0)
    found = []
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for part in (3, 30, 67):
            for message in consumer:
                found.append(message.value)
                part -= 1
                if part == 0:
                    break
        assert consumer.poll(0.1) == []
    assert found == list(range(100))


def test_record_that_is_not_json_stops_no_consumer(client, topic):
    with client.producer(values=yak.BYTES) as producer:
        producer.send(topic, b"plain words", partition=0)
        producer.send(topic, b'{"total": 1}', partition=0)
    bad, good = everything(client, topic, 2)
    with pytest.raises(yak.YakError, match="is not JSON"):
        _ = bad.value
    assert bad.raw_value == b"plain words"
    assert good.value == {"total": 1}


def test_a_serde_of_ones_own_is_used_on_both_sides(client, topic):
    number = yak.Serde("eight bytes", lambda value: value.to_bytes(8, "big"), lambda raw: int.from_bytes(raw, "big"))
    with client.producer(values=number, keys=number) as producer:
        producer.send(topic, 41, key=7)
    with client.consumer(values=number, keys=number) as consumer:
        consumer.assign(consumer.partitions(topic))
        message = next(consumer)
    assert (message.key, message.value, message.raw_value) == (7, 41, (41).to_bytes(8, "big"))


# ------------------------------------------------------------------------------------------------------------- errors


def test_each_mistake_is_named_and_explained(client, topic):
    with client.consumer() as consumer:
        mistakes = {
            "topic-exists": lambda: client.create_topic(topic),
            "unknown-topic": lambda: client.delete_topic("nothing"),
            "bad-topic-name": lambda: client.create_topic("a b"),
            "bad-partition-count": lambda: client.create_topic("zero", num_partitions=0),
            "bad-replication-factor": lambda: client.create_topic("many", replication_factor=9),
            "bad-config": lambda: client.create_topic("odd", configs={"retention.ms": "soon"}),
            "no-group": consumer.commit,
            "not-assigned": lambda: consumer.seek(TopicPartition(topic, 0), 3),
            "unknown-partition": lambda: consumer.assign([TopicPartition(topic, 3)]),
            "usage": lambda: client.consumer(config={"nonsense": 1}),
        }
        for code, mistake in mistakes.items():
            with raises_error(yak.YakError, code) as made:
                mistake()
            assert made.value.why
            assert made.value.__notes__
        for mistake in (lambda: consumer.subscribe(topic), lambda: consumer.committed(TopicPartition(topic, 0))):
            with raises_error(yak.UsageError, "no-group"):
                mistake()
        with raises_error(yak.YakError, "unknown-topic") as made:
            consumer.assign([TopicPartition("topic-", 0)])
        assert "closest" in made.value.why


def test_offset_out_of_range_is_an_error_if_auto_offset_reset_is_error(client, topic):
    with client.consumer(auto_offset_reset="error") as consumer:
        consumer.assign({TopicPartition(topic, 0): 700})
        with raises_error(yak.YakError, "offset-out-of-range"):
            next(consumer)
        with raises_error(yak.YakError, "no-offset"):
            consumer.assign([TopicPartition(topic, 0)])


def test_closed_client_producer_and_consumer_raise_a_closed_error(client, topic):
    inner = yak.connect(client.bootstrap)
    producer, consumer = inner.producer(), inner.consumer()
    inner.close()
    inner.close()
    assert producer.is_closed
    assert consumer.is_closed
    for call in (lambda: producer.send(topic, 1), consumer.poll, lambda: next(consumer), inner.topics, inner.producer):
        with raises_error(yak.UsageError, "closed"):
            call()
    producer.flush()
    consumer.close()


def test_a_client_sends_what_its_producers_were_given(client, topic):
    with yak.connect(client.bootstrap) as inner:
        delivery = inner.producer(linger_ms=20_000).send(topic, 1)
    assert delivery.result(0).offset == 0


def test_address_without_a_broker_is_reported_as_unreachable_within_seconds():
    from yak.local import ports

    address = f"127.0.0.1:{ports.find_free('127.0.0.1')}"
    for make in (yak.connect, yak.Producer, yak.Consumer):
        with raises_error(yak.Unreachable, "unreachable") as made:
            make(address)
        assert address in made.value.message


def test_producer_without_live_brokers_fails_within_the_delivery_timeout(broker):
    broker.start()
    producer = yak.Producer(broker.bootstrap, delivery_timeout=1.5)
    yak.create_topic("orders", 1, bootstrap=broker.bootstrap)
    producer.send("orders", 1).result(30)
    broker.kill9()
    delivery = producer.send("orders", 2)
    with pytest.raises(yak.SendFailed) as failed:
        delivery.result(60)
    assert (failed.value.code, failed.value.written) == ("timed-out", "unknown")
    producer.send("orders", 3)
    started = time.monotonic()
    producer.abandon(0.1)
    assert time.monotonic() - started < 30
