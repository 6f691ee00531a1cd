"""GET /consume on real brokers: what is given, how it waits, and what is refused."""

import threading
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from yak.client.admin import Admin
from yak.ids import TopicPartition as Place


@pytest.fixture
def topic(cluster, new_name):
    return cluster.make_topic(new_name(), partitions=3, replication_factor=3)


def consume(cluster, node, topic, partition=0, **query):
    return cluster.get(node, "/consume", params={"topic": topic, "partition": partition, **query})


def put(cluster, topic, payloads, partition=0):
    rows = [{"payload": payload, "partition": partition} for payload in payloads]
    cluster.post(1, "/produce", json={"topic": topic, "records": rows}).raise_for_status()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_any_broker_gives_what_a_kafka_client_wrote(cluster, topic, codec):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 50})
    for number in range(300):
        producer.produce(topic, b'{"n": %d}' % number, b"k\xff", 1, headers=[("h", b"1"), ("h", None)], timestamp=1000)
    assert producer.flush(20) == 0
    for node in (1, 2, 3):
        read, offset = [], 0
        while offset < 300:
            found = consume(cluster, node, topic, 1, offset=offset, max_messages=77).json()
            assert (found["topic"], found["partition"]) == (topic, 1)
            assert (found["high_watermark"], found["log_start_offset"]) == (300, 0)
            assert len(found["records"]) <= 77
            read += found["records"]
            offset = found["next_offset"]
        assert [(record["offset"], record["payload"]) for record in read] == [(n, {"n": n}) for n in range(300)]
        expected = {
            "key_base64": "a/8=",
            "timestamp_ms": 1000,
            "headers": [{"key": "h", "value": "1"}] + [{"key": "h", "value": None}],
        }
        assert {name: read[7][name] for name in expected} == expected


def test_offsets_and_bounds_are_checked(cluster, topic):
    put(cluster, topic, ["x" * 100] * 10)
    assert consume(cluster, 1, topic).json()["next_offset"] == 10
    assert consume(cluster, 1, topic, offset="earliest", max_messages=1).json()["next_offset"] == 1
    assert consume(cluster, 2, topic, offset="latest").json() | {"log_start_offset": 0} == {
        "topic": topic,
        "partition": 0,
        "next_offset": 10,
        "high_watermark": 10,
        "log_start_offset": 0,
        "records": [],
    }
    assert len(consume(cluster, 3, topic, offset=2, max_bytes=250).json()["records"]) == 2
    assert len(consume(cluster, 3, topic, offset=2, max_bytes=1).json()["records"]) == 1
    assert consume(cluster, 1, topic, max_messages=1, **{"as": "base64"}).json()["records"][0]["payload_base64"]
    assert consume(cluster, 1, topic, max_messages=1, **{"as": "text"}).json()["records"][0]["payload_text"][0] == '"'
    assert consume(cluster, 1, topic, isolation="read_committed").json()["next_offset"] == 10


def test_latest_with_read_committed_skips_no_record_of_an_open_transaction(cluster, topic):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    for node in (1, 2, 3):
        assert consume(cluster, node, topic, offset="latest", isolation="read_committed").json()["next_offset"] == 0
        assert consume(cluster, node, topic, offset="latest").json()["next_offset"] == 1
    producer.commit_transaction(30)
    found = consume(cluster, 1, topic, offset=0, isolation="read_committed", timeout_ms=10_000).json()
    assert [record["payload_text"] for record in found["records"]] == ["open"]


def test_a_long_poll_ends_with_the_first_record(cluster, topic):
    for node in (1, 2, 3):
        found = {}

        def ask(node=node, found=found):
            found["answer"] = consume(cluster, node, topic, 2, offset="latest", timeout_ms=30_000).json()

        asking = threading.Thread(target=ask)
        started = time.monotonic()
        asking.start()
        time.sleep(0.3)
        put(cluster, topic, [node], 2)
        asking.join()
        assert [record["payload"] for record in found["answer"]["records"]] == [node]
        assert time.monotonic() - started < 25
    empty = consume(cluster, 1, topic, 2, offset="latest", timeout_ms=200)
    assert (empty.status_code, empty.json()["records"]) == (200, [])


def test_deleted_records_are_out_of_range_and_the_answer_says_what_there_is(cluster, topic):
    put(cluster, topic, list(range(10)))
    Admin(cluster.bootstrap).delete_records({Place(topic, 0): 4})
    for offset in (0, 3, 11, 2**63 - 1):
        found = consume(cluster, 2, topic, offset=offset)
        assert (found.status_code, found.json()["error"]) == (416, "offset-out-of-range")
        assert (found.json()["log_start_offset"], found.json()["high_watermark"]) == (4, 10)
    assert consume(cluster, 2, topic, offset=4).json()["records"][0]["payload"] == 4
    assert consume(cluster, 2, topic, offset="earliest").json()["log_start_offset"] == 4
    assert consume(cluster, 2, topic, offset=10).json()["next_offset"] == 10


def test_bad_questions_are_refused_with_a_hint(cluster, topic):
    good = {"topic": topic, "partition": "0", "offset": "0"}
    for wrong, status in (
        ({"offset": "-1"}, 400),
        ({"offset": "1" * 30}, 400),
        ({"offset": "first"}, 400),
        ({"offset": ""}, 400),
        ({"offset": "1.5"}, 400),
        ({"offset": "nan"}, 400),
        ({"offset": "٣"}, 400),
        ({"partition": "3"}, 404),
        ({"partition": "-1"}, 400),
        ({"partition": "x"}, 400),
        ({"partition": "99999999999"}, 400),
        ({"topic": "no-such-topic"}, 404),
        ({"topic": "../etc"}, 404),
        ({"topic": ""}, 400),
        ({"max_messages": "0"}, 400),
        ({"max_messages": "10001"}, 400),
        ({"max_bytes": "0"}, 400),
        ({"timeout_ms": "30001"}, 400),
        ({"timeout_ms": "-5"}, 400),
        ({"isolation": "none"}, 400),
        ({"as": "xml"}, 400),
        ({"ofset": "0"}, 400),
    ):
        found = cluster.get(1, "/consume", params=good | wrong)
        assert found.status_code == status, (wrong, found.text)
        assert set(found.json()) == {"error", "message", "hint"}
    assert cluster.get(1, f"/consume?topic={topic}").status_code == 400
    assert cluster.get(1, f"/consume?topic={topic}&partition=0&offset=0&offset=1").status_code == 400


def test_records_are_given_while_their_leader_is_killed(cluster, topic):
    put(cluster, topic, list(range(20)))
    leader = cluster.get(1, f"/topics/{topic}").json()["partitions"][0]["leader"]
    others = [node for node in (1, 2, 3) if node != leader]
    cluster.local.kill(leader)
    for node in others:  # at once: the answer waits for the next leader, and for what that one may show
        found = consume(cluster, node, topic, timeout_ms=20_000)
        assert found.status_code == 200, found.text
        assert [record["payload"] for record in found.json()["records"]] == list(range(20))


def test_an_internal_topic_is_read_too(cluster, new_name):
    name = new_name()
    Admin(cluster.bootstrap).create_topic(name, partitions=1)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
    consumer.close()
    offsets = cluster.get(1, "/topics/__consumer_offsets").json()["partitions"]
    holds = next(each["partition"] for each in offsets if each["high_watermark"])
    found = consume(cluster, 1, "__consumer_offsets", holds, **{"as": "base64"}).json()
    assert found["records"]
    assert found["next_offset"] == found["high_watermark"]
