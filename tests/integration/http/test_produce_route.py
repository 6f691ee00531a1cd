"""POST /produce on real brokers: where records go, what is refused, and a broker killed in the middle."""

import json
import threading
import time

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.waiting import wait_until

from yak.client.admin import Admin


def read_all(bootstrap, topic, partitions, count):
    """What a Kafka client reads: {(partition, offset): message}."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found = {}
    until = time.monotonic() + 20
    while len(found) < count and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found[message.partition(), message.offset()] = message
    consumer.close()
    return found


@pytest.fixture
def topic(cluster, new_name):
    configs = {"min.insync.replicas": "2"}
    return cluster.make_topic(new_name(), partitions=6, replication_factor=3, configs=configs)


def test_any_broker_takes_any_record_and_a_kafka_client_reads_it(cluster, topic):
    rows = [
        {"key": "k", "payload": {"a": [1, 2.5, None, "é"]}, "headers": {"h": "v", "n": None}},
        {"payload": None, "partition": 5},
        {"payload": "text", "partition": 4},
        {"payload_text": "raw", "partition": 3, "headers": [{"key": "h", "value_base64": "/w=="}, {"key": "h"}]},
        {"payload_base64": "AP8=", "key_base64": "/w==", "partition": 2},
    ]
    placed = []
    for node, row in zip((1, 2, 3, 1, 2), rows, strict=True):
        found = cluster.post(node, "/produce", json={"topic": topic, **row})
        assert found.status_code == 200, found.text
        placed.append((found.json()["partition"], found.json()["offset"]))
    seen = read_all(cluster.bootstrap, topic, 6, 5)
    values = [(seen[place].key(), seen[place].value()) for place in placed]
    assert values == [
        (b"k", '{"a":[1,2.5,null,"é"]}'.encode()),
        (None, None),
        (None, b'"text"'),
        (None, b"raw"),
        (b"\xff", b"\x00\xff"),
    ]
    assert seen[placed[0]].headers() == [("h", b"v"), ("n", None)]
    assert seen[placed[3]].headers() == [("h", b"\xff"), ("h", None)]


def test_a_key_goes_where_other_producers_put_it(cluster, topic):
    keys = [f"user-{number}" for number in range(60)] + ["", "é", "x" * 300]
    theirs = {}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            topic, b"v", key, on_delivery=lambda error, m, key=key: theirs.update({key: (error, m.partition())})
        )
    assert producer.flush(20) == 0
    found = cluster.post(2, "/produce", json={"topic": topic, "records": [{"key": key, "payload": 1} for key in keys]})
    assert found.status_code == 200
    ours = {key: (None, row["partition"]) for key, row in zip(keys, found.json()["records"], strict=True)}
    assert ours == theirs


def test_a_batch_has_an_answer_for_each_record_in_order(cluster, topic, new_name):
    other = new_name()
    cluster.post(1, "/topics", json={"name": other, "partitions": 2}).raise_for_status()
    rows = [{"topic": topic if n % 3 else other, "key": str(n), "payload": n} for n in range(500)]
    found = cluster.post(1, "/produce", json=rows).json()
    assert (found["written"], found["failed"], len(found["records"])) == (500, 0, 500)
    for name, partitions in ((topic, 6), (other, 2)):
        count = sum(row["topic"] == name for row in rows)
        seen = read_all(cluster.bootstrap, name, partitions, count)
        for row, place in zip(rows, found["records"], strict=True):
            if place["topic"] == name:
                message = seen[place["partition"], place["offset"]]
                assert (message.key(), message.value()) == (row["key"].encode(), str(row["payload"]).encode())


def test_acks(cluster, topic):
    for acks in ("all", "1", "0", -1, 1, 0):
        for node in (1, 2, 3):
            found = cluster.post(node, "/produce", json={"topic": topic, "partition": 0, "payload": "x", "acks": acks})
            assert found.status_code == 200, (acks, found.text)
            assert (found.json()["offset"] is None) == (acks in ("0", 0))
    wait_until(
        lambda: cluster.get(1, f"/topics/{topic}").json()["partitions"][0]["high_watermark"] == 18, "all records"
    )


def test_a_large_batch_is_cut_to_what_the_topic_takes(cluster, new_name):
    name = new_name()
    made = {"name": name, "partitions": 2, "configs": {"max.message.bytes": 10_000}}
    cluster.post(1, "/topics", json=made).raise_for_status()
    rows = [{"key": str(n), "payload": "x" * 900} for n in range(3000)]
    found = cluster.post(2, "/produce", json={"topic": name, "records": rows}, timeout=60).json()
    assert (found["written"], found["failed"]) == (3000, 0)
    ends = {}
    for row in found["records"]:
        assert row["offset"] == ends.get(row["partition"], 0)
        ends[row["partition"]] = row["offset"] + 1
    found = cluster.post(2, "/produce", json={"topic": name, "payload": "x" * 20_000})
    assert (found.status_code, found.json()["error"]) == (413, "message-too-large")
    assert {each["partition"]: each["high_watermark"] for each in topic_of(cluster, name)["partitions"]} == ends


def topic_of(cluster, name):
    return cluster.get(1, f"/topics/{name}").json()


BAD = [
    (b"1", "bad-body"),
    (b"[]", "bad-body"),
    (b'{"topic":"T","records":{}}', "bad-body"),
    (b'{"topic":"T","records":[],"more":1}', "bad-body"),
    (b'{"records":[{"topic":"T","payload":1}]}', "bad-body"),
    (b'{"payload":1}', "bad-record"),
    (b'{"topic":1,"payload":1}', "bad-record"),
    (b'{"topic":"T"}', "bad-record"),
    (b'{"topic":"T","payload":1,"key":["a"]}', "bad-record"),
    (b'{"topic":"T","payload":1,"key":{"a":1}}', "bad-record"),
    (b'{"topic":"T","payload":1,"partition":-1}', "bad-record"),
    (b'{"topic":"T","payload":1,"partition":1.5}', "bad-record"),
    (b'{"topic":"T","payload":1,"acks":2}', "bad-parameter"),
    (b'{"topic":"T","payload":1,"acks":[]}', "bad-parameter"),
    (b'[{"topic":"T","payload":1},{"topic":"T","payload":1,"partition":99}]', "bad-records"),
    (b'[{"topic":"T","payload":1},{"topic":"T"},3]', "bad-records"),
    (b'{"topic":"T","payload":1,"partition":99}', "unknown-topic-or-partition"),
    (b'{"topic":"no/such","payload":1}', "invalid-topic-exception"),
    (b'[{"topic":"T","payload":1},{"topic":"..","payload":1}]', "invalid-topic-exception"),
    (b'{"topic":"__consumer_offsets","payload":1,"partition":0}', "invalid-topic-exception"),
]


def test_bad_bodies_are_refused_with_a_hint_and_nothing_is_written(cluster, topic):
    for body, error in BAD:
        found = cluster.post(1, "/produce", content=body.replace(b'"T"', json.dumps(topic).encode()))
        assert 400 <= found.status_code < 500, (body, found.text)
        assert found.json()["error"] == error, (body, found.text)
        assert found.json()["message"]
        assert "Traceback" not in found.text
    found = cluster.post(1, "/produce", json=[{"topic": topic, "payload": 1}, {"topic": topic}, {}]).json()
    assert (found["failed"], [row["row"] for row in found["records"]]) == (2, [1, 2])
    for query in ("?acks=2", "?redirect=yes", "?more=1", "?acks=1&acks=1"):
        assert cluster.post(1, "/produce" + query, json={"topic": topic, "payload": 1}).status_code == 400
    many = cluster.post(1, "/produce", json={"topic": topic, "records": [{"payload": 1}] * 10_001})
    assert (many.status_code, many.json()["error"]) == (413, "too-many-records")
    assert [each["high_watermark"] for each in topic_of(cluster, topic)["partitions"]] == [0] * 6


def test_many_new_topics_in_one_request_are_refused_and_none_is_created(cluster, topic):
    before = {each["name"] for each in cluster.get(1, "/topics").json()["topics"]}
    rows = [{"topic": f"{topic}-{number}", "payload": 1} for number in range(101)]
    found = cluster.post(1, "/produce", json=rows)
    assert (found.status_code, found.json()["error"]) == (413, "too-many-topics")
    assert "101 topics" in found.json()["message"]
    assert {each["name"] for each in cluster.get(1, "/topics").json()["topics"]} == before
    rows = [{"topic": topic, "payload": 1}, {"topic": f"{topic}-0", "payload": 1}]
    assert cluster.post(1, "/produce", json=rows).json()["written"] == 2


def test_redirect_sends_the_client_to_the_leader(cluster, topic):
    leaders = [each["leader"] for each in topic_of(cluster, topic)["partitions"]]
    away = next(number for number, leader in enumerate(leaders) if leader != 1)
    body = {"topic": topic, "payload": 1, "partition": away}
    found = cluster.post(1, "/produce?redirect=true", json=body)
    assert found.status_code == 307
    assert found.headers["location"] == cluster.url(leaders[away], "/produce?redirect=true")
    assert cluster.post(1, "/produce?redirect=true", json=body, follow_redirects=True).json()["offset"] == 0
    for node in (1, 2, 3):  # each leads some, so what has no key stays
        assert cluster.post(node, "/produce?redirect=true", json={"topic": topic, "payload": 1}).status_code == 200
    rows = [{"payload": 1, "partition": partition} for partition in range(6)]
    several = cluster.post(1, "/produce?redirect=true", json={"topic": topic, "records": rows})
    assert (several.status_code, several.json()["error"]) == (400, "several-leaders")


def test_topics_are_made_as_for_producers(cluster, new_name):
    name = new_name()
    assert cluster.post(3, "/produce", json={"topic": name, "payload": 1}).json()["offset"] == 0
    made = cluster.get(3, f"/topics/{name}").json()
    assert (len(made["partitions"]), made["replication_factor"]) == (3, 3)


def test_too_few_replicas_are_a_503_that_says_nothing_was_written(cluster, new_name):
    name = new_name()
    Admin(cluster.bootstrap).create_topic(name, assignment=[[1, 3]], configs={"min.insync.replicas": "2"})
    cluster.wait_for_topic(name)
    cluster.local.kill(3)
    wait_until(lambda: topic_of(cluster, name)["partitions"][0]["isr"] == [1], "an ISR of one")
    found = cluster.post(2, "/produce", json={"topic": name, "payload": 1})
    assert (found.status_code, found.json()["error"]) == (503, "not-enough-replicas")
    assert topic_of(cluster, name)["partitions"][0]["high_watermark"] == 0


def test_produce_route_writes_each_record_once_while_brokers_are_killed(cluster, topic):
    """Each answer is 200 and true, through kill -9 of a broker that leads; nothing is there twice, also where we asked again."""
    answers, failed, stop = {}, [], threading.Event()

    def load(node):
        number = 0
        with httpx.Client(timeout=30, trust_env=False) as client:
            while not stop.is_set():
                rows = [{"key": f"{node}-{number}-{n}", "payload": [node, number, n]} for n in range(6)]
                found = client.post(cluster.url(node, "/produce"), json={"topic": topic, "records": rows})
                if found.status_code == 200:
                    for row, place in zip(rows, found.json()["records"], strict=True):
                        answers[row["key"]] = (place["partition"], place["offset"])
                else:
                    failed.append(found.text)
                number += 1

    loaders = [threading.Thread(target=load, args=(node,)) for node in (1, 2)]
    for loader in loaders:
        loader.start()
    wait_until(lambda: len(answers) > 50, "some records")
    cluster.local.kill(3)
    before = len(answers)
    wait_until(lambda: len(answers) > before + 500, "records after the kill")
    stop.set()
    for loader in loaders:
        loader.join()
    assert failed == []
    ends = sum(each["high_watermark"] for each in topic_of(cluster, topic)["partitions"])
    assert ends == len(answers)
    seen = read_all(cluster.bootstrap, topic, 6, len(answers))
    assert {message.key().decode(): place for place, message in seen.items()} == answers
